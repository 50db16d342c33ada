"""Seconds by phase, by a clock that moves when it is told to."""

from __future__ import annotations

from collections.abc import Iterator

from endmark.metrics import Samples
from endmark.profile import Profile


class Clock:
    """Stands still until `now` is changed."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def spent(samples: Samples) -> dict[str, float]:
    return {key.removeprefix("profile_seconds_total{phase=").rstrip("}"): s for key, s in samples.items()}


def test_a_second_counts_once() -> None:
    """For the innermost phase, or for none; what was taken is not told again."""
    clock = Clock()
    profile = Profile(clock)

    clock.now += 1
    with profile.phase("probe"):
        clock.now += 2
        with profile.phase("load"):
            clock.now += 4
        clock.now += 8
    clock.now += 16

    assert spent(profile.take()) == {"probe": 10, "load": 4}
    assert profile.take() == {}


def test_a_generator_pauses_its_phase_for_whoever_takes_from_it() -> None:
    """The join is such a generator: its results are encoded between two steps of its probing."""
    clock = Clock()
    profile = Profile(clock)

    def results() -> Iterator[int]:
        with profile.phase("probe"):
            for number in range(3):
                clock.now += 1
                yield number

    for _ in results():
        with profile.phase("emit"):
            clock.now += 10

    assert spent(profile.take()) == {"probe": 3, "emit": 30}


def test_waits_are_told_from_work() -> None:
    """The wait for each item is of the phase, the wait for the end included; what is done with it is not."""
    clock = Clock()
    profile = Profile(clock)

    def arriving() -> Iterator[int]:
        for number in range(2):
            clock.now += 1
            yield number
        clock.now += 1

    for _ in profile.each("shuffle", arriving()):
        clock.now += 10

    assert spent(profile.take()) == {"shuffle": 3}


def test_a_failed_phase_ends() -> None:
    """Time after the failure is not charged to the phase."""
    clock = Clock()
    profile = Profile(clock)

    try:
        with profile.phase("probe"):
            clock.now += 1
            raise ValueError
    except ValueError:
        clock.now += 5

    assert spent(profile.take()) == {"probe": 1}

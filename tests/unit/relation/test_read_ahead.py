"""One read is ahead of the work, in order, and its errors come where its result would."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from endmark.relation.read_ahead import read_ahead


def test_the_next_read_runs_during_the_work() -> None:
    """While the caller has result n, read n + 1 is done, and n + 2 has not begun."""
    done = [threading.Event() for _ in range(5)]

    def read(number: int) -> Callable[[], int]:
        def run() -> int:
            done[number].set()
            return number

        return run

    for number in read_ahead(read(number) for number in range(5)):
        assert all(event.wait(60) for event in done[: number + 2])
        assert not any(event.wait(0.02) for event in done[number + 2 :])


def test_errors_and_early_ends() -> None:
    """An error comes after the results before it; who stops early leaves no thread behind."""

    def fail() -> int:
        raise ValueError("broken")

    results = read_ahead([lambda: 1, fail, lambda: 3])
    assert next(results) == 1
    with pytest.raises(ValueError, match="broken"):
        next(results)
    stopped = read_ahead([lambda: 1, lambda: 2, lambda: 3])
    assert next(stopped) == 1
    stopped.close()  # type: ignore[attr-defined]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("read_ahead")]
    assert list(read_ahead([])) == []

"""The mean state of a stream join after the batches of a job."""

from __future__ import annotations

import pytest

from endmark.control.ops_database.batches import FinishedBatch
from endmark.metrics import Samples, sample
from endmark.operators.stream_join.presets import Preset
from endmark.planning.join_state import measured_state

STREAMS = ("items", "bids")


def batch(number: int, samples: Samples) -> FinishedBatch:
    return FinishedBatch("auction", number, "run", float(number), samples, {}, {})


def samples_of(number: int, rows: float, pending: float, announced: float) -> Samples:
    """Return the samples of a batch whose streams have moved on by 2 s and 3 s since the batch before.

    Twice as many keys that bids closed wait as keys that items closed, which are `pending`.
    """
    samples = {sample("propagated_punctuations_total", by="closed"): announced}
    for name, step, waits_for, waiting in (
        ("items", 2, "window", pending),
        ("bids", 3, "closing", 2 * pending),
    ):
        samples[sample("progress_event_time_seconds", stream=name)] = 1000.0 + step * number
        samples[sample("state_rows", operator="join", stream=name)] = step * rows
        samples[sample("state_bytes", operator="join", stream=name)] = 50 * step * rows
        samples[sample("pending_punctuations", stream=name, waits_for=waits_for)] = waiting
    return samples


def test_state_is_averaged_over_the_batches_after_the_first() -> None:
    """6 keys wait, and 8 are announced in 2 s. So a key waits 1.5 s, and half a batch to be read."""
    first = samples_of(0, rows=9e9, pending=9e9, announced=9e9)
    after = [samples_of(number, rows=10.0 * number, pending=2, announced=8) for number in (1, 2, 3)]
    found = measured_state(STREAMS, Preset.AUTO, [batch(n, each) for n, each in enumerate([first, *after])])

    assert found is not None
    assert (found.batches, found.seconds) == (3, 6.0)
    assert found.rows == {"items": 40, "bids": 60}
    assert found.bytes == {"items": 2000, "bids": 3000}
    assert found.held_back == pytest.approx({"items": 2 / (8 / 2), "bids": 4 / (8 / 2)})
    assert found.announced_after == pytest.approx(1.5 + 1)


def test_nothing_is_known_of_keys_that_no_batch_tells_of() -> None:
    """Under presets that keep no waiting keys, without an announcement, and without progress of a stream."""
    batches = [batch(n, samples_of(n, rows=10, pending=3, announced=8)) for n in range(3)]
    silent = [batch(n, samples_of(n, rows=10, pending=3, announced=0)) for n in range(3)]
    key = sample("progress_event_time_seconds", stream="bids")
    lost = [
        batch(n, {name: value for name, value in each.samples.items() if name != key})
        for n, each in enumerate(batches)
    ]
    stands = [batches[0], *batches[:2][::-1]]
    for preset, some in (
        (Preset.PJOIN, batches),
        (Preset.WJOIN, batches),
        (Preset.AUTO, silent),
        (Preset.AUTO, lost),
        (Preset.AUTO, stands),
    ):
        found = measured_state(STREAMS, preset, some)
        assert found is not None
        assert found.rows == {"items": 20, "bids": 30}
        assert found.announced_after is None


def test_one_batch_is_not_enough() -> None:
    assert measured_state(STREAMS, Preset.AUTO, []) is None
    assert measured_state(STREAMS, Preset.AUTO, [batch(0, samples_of(0, 1, 1, 1))]) is None

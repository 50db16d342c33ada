"""The sidecar reports the progress of time."""

from __future__ import annotations

import pytest

from endmark_ops.answers.progress import stream_progress


def test_progress_by_stream() -> None:
    """How far time has come, the partition that all wait for, and what punctuations wait for."""
    totals = {
        "partition_behind_seconds{partition=0,stream=bids}": 0.0,
        "partition_behind_seconds{partition=1,stream=bids}": 40.0,
        "progress_event_time_seconds{stream=bids}": 1.8e9,
        "progress_behind_seconds{stream=bids}": 42.0,
        "partition_behind_seconds{partition=0,stream=items}": 0.0,
        "silent_partitions{partition=2,stream=items}": 1.0,
        "pending_punctuations{stream=items,waits_for=window}": 2.0,
    }

    bids, items = (stream.model_dump() for stream in stream_progress(totals))

    assert bids == {
        "stream": "bids",
        "event_time": 1.8e9,
        "behind_seconds": 42,
        "held_by": {"partition": 1, "behind_seconds": 40},
        "idle": [],
        "pending": [],
        "sentence": "bids: progress is held back by partition 1, which is at 2027-01-15 08:00:02 UTC, "
        "40 s behind the others",
    }
    assert (items["event_time"], items["behind_seconds"]) == (None, None)
    assert items["held_by"] == {"partition": 2, "behind_seconds": None}
    assert items["pending"] == [{"waits_for": "window", "punctuations": 2}]
    assert items["sentence"] == (
        "items: progress is held back by partition 2, which has had no row yet; "
        "2 punctuations wait for their last rows to leave the window"
    )


@pytest.mark.parametrize(
    ("totals", "sentence"),
    [
        ({"partition_behind_seconds{partition=0,stream=a}": 0.0}, "a: no partition holds its progress back"),
        (
            {
                "partition_behind_seconds{partition=10,stream=a}": 1.25,
                "partition_behind_seconds{partition=2,stream=a}": 1.25,
                "pending_punctuations{stream=a,waits_for=closing}": 1.0,
            },
            (
                "a: progress is held back by partition 2, 1.2 s behind the others; "
                "1 punctuation waits for other streams to close their keys"
            ),
        ),
        (
            {
                "partition_behind_seconds{partition=0,stream=a}": 5e6,
                "pending_punctuations{stream=a,waits_for=window}": 0.0,
            },
            "a: progress is held back by partition 0, 5,000,000 s behind the others",
        ),
        (
            {
                "partition_behind_seconds{partition=0,stream=a}": 0.0,
                "idle_partitions{partition=3,stream=a}": 1.0,
            },
            "a: no partition holds its progress back; partition 3 is idle and not waited for",
        ),
        (
            {
                "silent_partitions{partition=10,stream=a}": 1.0,
                "silent_partitions{partition=9,stream=a}": 1.0,
                "partition_behind_seconds{partition=0,stream=a}": 5.0,
            },
            "a: progress is held back by partition 9, which has had no row yet",
        ),
    ],
)
def test_what_holds_time_back_is_one_sentence(totals: dict[str, float], sentence: str) -> None:
    """Partitions are numbers, and of two that are as far behind the first is named."""
    assert [stream.sentence for stream in stream_progress(totals)] == [sentence]

"""The highest rate that a job keeps up with, from what its batches had read when they ended."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecords

from endmark.control.ops_database.batches import FinishedBatch
from endmark.errors import EndmarkError
from endmark_benchmarks.harness.highest_rate import Step, bound, highest, step
from endmark_benchmarks.workloads import auction
from endmark_benchmarks.workloads.recorded_feed import Fed, RecordedFeed
from endmark_feed.message import BIDS, ITEMS
from endmark_feed.workload import messages


def batch(committed_at: float, items: int, bids: int) -> FinishedBatch:
    offsets = {ITEMS: {"0": items}, BIDS: {"0": bids - 5, "1": 5}, "control": {"0": 1_000_000}}
    return FinishedBatch("auction", 1, "run", committed_at, {}, {}, offsets)


# Ten seconds of 100 records a second, after 8 seconds of event time with 50 each.
FED = Fed(rate=100, seconds=10, began=1000.0, before=8, behind=0.25)


def test_a_lag_is_what_came_while_a_batch_ran_at_best() -> None:
    """At 6 s 1,000 had been sent and 900 read: 1 s. Others read more, but in the first half or after it."""
    batches = [batch(1002, 100, 490), batch(1006, 300, 600), batch(1008, 300, 700), batch(1011, 400, 1_090)]
    assert step(FED, 50, batches) == Step(100, 1.0, 0.25)
    assert step(FED, 50, batches[:1]) == Step(100, math.inf, 0.25)


def test_the_highest_rate_is_the_last_one_before_the_job_falls_behind() -> None:
    steps = [Step(100, 1.0, 2.9), Step(130, 3.0, 0.1), Step(169, 3.1, 0.1), Step(220, 1.0, 0.1)]

    assert (highest(steps), bound(steps)) == (130, "the job")
    assert (highest(steps[:2]), bound(steps[:2])) == (130, "the search")
    late = [steps[0], Step(130, 9.0, 1.5)]
    assert (highest(late), bound(late)) == (100, "the feed")
    with pytest.raises(EndmarkError, match="does not keep up with 169 records/s; --highest says"):
        highest(steps[2:])


def test_requests_have_all_records_of_the_workload(tmp_path: Path) -> None:
    made = RecordedFeed(tmp_path / "feed", seconds=2, rate=500, sellers=100)
    made.make()
    values = []
    for _, request in made.slots():
        decoded = ProduceRequest.decode(request, version=8, header=True, framed=True)
        for topic in decoded.topic_data:
            for partition in topic.partition_data:
                found = MemoryRecords(bytes(partition.records)).next_batch()
                assert found.validate_crc()
                values += [(topic.name, partition.index, record.value) for record in found]
    workload = auction.workload(made.seconds, made.rate, made.sellers)
    due = [message for message in messages(workload) if message.due_seconds < made.seconds]
    assert sorted(values) == sorted((message.topic, message.partition, message.value) for message in due)

"""The batches that a Spark checkpoint has planned, and the offsets that they read."""

from __future__ import annotations

from pathlib import Path

from endmark.driver.planned_batches import planned_ends, unfinished_batch
from support.planned_batches import spark_checkpoint


def test_many_partitions_are_counted(tmp_path: Path) -> None:
    ends = [{"bids": {str(number): 1 for number in range(11)}}]

    batch = unfinished_batch(spark_checkpoint(tmp_path, ends, committed=0))

    assert batch is not None
    assert batch.endswith("bids/7 offsets 0 to 0, 3 more partitions)")


def test_no_batch_is_at_hand_once_all_are_committed(tmp_path: Path) -> None:
    assert unfinished_batch(spark_checkpoint(tmp_path, [{"bids": {"0": 1}}], committed=1)) is None


def test_the_next_batch_reads_on_where_the_last_one_ends(tmp_path: Path) -> None:
    assert planned_ends(tmp_path) == {}
    ends = [{"bids": {"0": number}, "items": {"1": 3}} for number in range(12)]
    assert planned_ends(spark_checkpoint(tmp_path, ends, committed=12)) == ends[11]

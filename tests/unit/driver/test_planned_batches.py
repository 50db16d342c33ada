"""The batches that a Spark checkpoint has planned, and the offsets that they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.driver.planned_batches import planned_ends, require_whole, unfinished_batch
from endmark.errors import ConfigError
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


@pytest.mark.parametrize("name", ["offsets/1", "commits/0", "metadata"])
def test_a_torn_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    """Each beginning of the newest file of a log is torn, to its last line; older files are not read."""
    directory = spark_checkpoint(tmp_path, [{"bids": {"0": 1}}, {"bids": {"0": 2}}], committed=1)
    (directory / "metadata").write_text('{"id":"7"}')
    require_whole(directory)
    whole = (directory / name).read_text()

    for length in range(len(whole)):
        (directory / name).write_text(whole[:length])
        with pytest.raises(ConfigError, match=rf"{name} is torn: it ends with "):
            require_whole(directory)
    (directory / name).write_text(whole)
    (directory / "offsets" / "0").write_text("v1")
    require_whole(directory)


def test_a_new_checkpoint_is_whole(tmp_path: Path) -> None:
    require_whole(tmp_path)

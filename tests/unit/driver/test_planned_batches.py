"""The batches that a Spark checkpoint has planned, and the offsets that they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.driver.planned_batches import committed_ends, drop_torn, planned_ends, unfinished_batch
from endmark.errors import ConfigError
from endmark.storage import entries
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


def test_an_unfinished_batch_is_planned_and_not_committed(tmp_path: Path) -> None:
    assert committed_ends(tmp_path) == {}
    ends = [{"bids": {"0": number}} for number in range(12)]
    found = spark_checkpoint(tmp_path, ends, committed=11)
    assert (committed_ends(found), planned_ends(found)) == (ends[10], ends[11])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A checkpoint with batches 0 and 1, of which the second is not committed."""
    ends = [{"bids": {"0": number}} for number in range(2)]
    (tmp_path / "metadata").write_text('{"id":"7"}')
    return spark_checkpoint(tmp_path, ends, committed=1)


@pytest.mark.parametrize("name", ["metadata", "commits/0", "offsets/1"])
def test_a_torn_file_that_cannot_be_missing_is_refused_by_name(directory: Path, name: str) -> None:
    """Each beginning of such a file is torn, to its last line. A commit is such a file if a later batch has a
    plan, and a plan if its batch has a commit."""
    if name == "offsets/1":
        (directory / "commits" / "1").write_text("v1\n{}")
    whole = (directory / name).read_text()

    for length in range(len(whole)):
        (directory / name).write_text(whole[:length])
        with pytest.raises(ConfigError, match=rf"{name} is torn: it ends with "):
            drop_torn(directory, no_line)
    assert (directory / name).read_text() == whole[:-1]


def test_a_torn_plan_is_refused_if_a_later_batch_has_a_commit(directory: Path) -> None:
    (directory / "commits" / "2").write_text("v1\n{}")
    (directory / "offsets" / "1").write_text("v1")

    with pytest.raises(ConfigError, match="offsets/1 is torn: it ends with 'v1'"):
        drop_torn(directory, no_line)


def test_a_torn_plan_of_the_next_batch_is_removed(directory: Path) -> None:
    whole, said = (directory / "offsets" / "1").read_text(), list[str]()

    for length in range(len(whole)):
        (directory / "offsets" / "1").write_text(whole[:length])
        (directory / "offsets" / ".1.crc").touch()
        drop_torn(directory, said.append)

        assert sorted(entries(directory / "offsets")) == [".0.crc", "0"]
        assert planned_ends(directory) == {"bids": {"0": 0}}
    assert set(said) == {f"{directory}/offsets/1 was torn; batch 1 is planned again"}


def test_a_torn_commit_of_the_last_batch_is_removed(directory: Path) -> None:
    said = list[str]()
    (directory / "commits" / "1").write_text("v1\n")

    drop_torn(directory, said.append)

    assert said == [f"{directory}/commits/1 was torn; batch 1 is repeated"]
    assert sorted(entries(directory / "commits")) == ["0"]
    assert planned_ends(directory) == {"bids": {"0": 1}}


def test_a_torn_plan_and_its_torn_commit_are_removed(directory: Path) -> None:
    for log in ("offsets", "commits"):
        (directory / log / "1").write_text("v")

    drop_torn(directory, list[str]().append)

    assert unfinished_batch(directory) is None
    assert planned_ends(directory) == {"bids": {"0": 0}}


def test_older_torn_files_are_not_read(directory: Path) -> None:
    (directory / "offsets" / "0").write_text("v1")

    drop_torn(directory, no_line)


def test_whole_checkpoints_and_new_ones_stay_as_they_are(directory: Path, tmp_path: Path) -> None:
    before = entries(directory, below=True)
    drop_torn(directory, no_line)
    assert entries(directory, below=True) == before

    drop_torn(tmp_path / "new", no_line)


def no_line(line: str) -> None:
    raise AssertionError(line)

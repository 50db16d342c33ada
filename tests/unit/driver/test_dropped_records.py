"""The driver finds unread records that Kafka has dropped, and says when a job may go on without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.driver.checkpoint import gaps, keep_gaps, keep_start_offsets
from endmark.driver.dropped_records import named, new_gaps, refusal, require_repeatable
from endmark.errors import ConfigError
from endmark.kafka.gaps import Gap
from support.planned_batches import spark_checkpoint

ENDS = [{"bids": {"0": 5, "1": 2}}, {"bids": {"0": 9, "1": 2}}]
TORN = Gap("bids", 0, 5, 7)


@pytest.fixture
def unfinished(tmp_path: Path) -> Path:
    """A checkpoint that has planned the offsets 5 to 8 of partition 0 for batch 1, and not committed it."""
    (tmp_path / "endmark").mkdir()
    spark_checkpoint(tmp_path / "spark", ENDS, committed=1)
    return tmp_path


def test_what_no_committed_batch_has_read_is_missed(unfinished: Path) -> None:
    """Records of a planned batch count, since it is repeated. Those that were read do not."""
    assert new_gaps(unfinished, {"bids": {"0": 5, "1": 2}}) == []
    assert new_gaps(unfinished, {"bids": {"0": 7, "1": 2}}) == [TORN]
    (unfinished / "spark" / "commits" / "1").write_text("v1\n{}")
    assert new_gaps(unfinished, {"bids": {"0": 9, "1": 2}}) == []
    assert new_gaps(unfinished, {"bids": {"0": 10, "1": 2}}) == [Gap("bids", 0, 9, 10)]


def test_a_job_without_a_batch_misses_what_came_since_its_first_start(tmp_path: Path) -> None:
    (tmp_path / "endmark").mkdir()
    keep_start_offsets(tmp_path, {"bids": {"0": 3}})

    assert new_gaps(tmp_path, {"bids": {"0": 3}}) == []
    assert new_gaps(tmp_path, {"bids": {"0": 4}}) == [Gap("bids", 0, 3, 4)]


def test_a_gap_is_found_once_and_kept(unfinished: Path) -> None:
    """A later gap of the same partition begins where the first one ends."""
    assert gaps(unfinished) == ()
    keep_gaps(unfinished, [TORN])

    assert gaps(unfinished) == (TORN,)
    assert new_gaps(unfinished, {"bids": {"0": 7, "1": 2}}) == []
    assert new_gaps(unfinished, {"bids": {"0": 12, "1": 2}}) == [Gap("bids", 0, 7, 12)]


def test_a_batch_that_nobody_has_may_be_repeated_in_part(unfinished: Path) -> None:
    asked: list[int] = []

    def nobody(batch: int) -> list[str]:
        asked.append(batch)
        return []

    require_repeatable(unfinished, [TORN], {"results": 0, "violations": None}, nobody)
    assert asked == [1]


def test_a_batch_that_a_table_has_may_not(unfinished: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r"batch 1 was not finished.* offsets 5 to 6 of topic bids partition 0\..* table results has",
    ):
        require_repeatable(unfinished, [TORN], {"results": 1, "violations": 0}, lambda _: [])


def test_a_batch_that_a_topic_may_have_may_not(unfinished: Path) -> None:
    with pytest.raises(ConfigError, match=r"topic other, paid has or may have the batch already"):
        require_repeatable(unfinished, [TORN], {"results": 0}, lambda _: ["paid", "other"])


def test_a_batch_with_all_of_its_records_is_repeated_whoever_has_it(unfinished: Path) -> None:
    """The gap is behind the batch, or every batch is committed."""
    require_repeatable(unfinished, [Gap("bids", 1, 2, 4)], {"results": 1}, lambda _: ["paid"])
    (unfinished / "spark" / "commits" / "1").write_text("v1\n{}")
    require_repeatable(unfinished, [Gap("bids", 0, 9, 12)], {"results": 1}, lambda _: ["paid"])


def test_the_refusal_names_the_way_on() -> None:
    text = str(refusal([TORN], "kafka:9092"))

    assert text.startswith(
        "Kafka at kafka:9092 has dropped records that no batch has read: offsets 5 to 6 of "
    )
    assert "`endmark run FILE --skip-dropped-records`" in text


def test_many_gaps_are_counted() -> None:
    found = [Gap("bids", number, 0, 1) for number in range(11)]

    assert named(found).endswith("offsets 0 to 0 of topic bids partition 7, 3 more ranges")

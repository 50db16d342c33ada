"""What `verify` makes of partitions that fall silent, where it cannot know when the job found them so."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from endmark.types import JoinType
from endmark.verify.compare.tables import compare_tables
from support.verify_histories import stamp, stamped
from support.verify_recompute import recomputed, tables_of
from support.verify_world import EPOCH, Record, bid, close, heartbeat, item, make_pipeline, promise

PIPELINE = make_pipeline(kind=JoinType.LEFT, windows=(2, 2), idle=(None, 10))


def progress(records: list[Record]) -> list[float | None]:
    """The least and the most progress of bids, in seconds."""
    with recomputed(PIPELINE, records) as session:
        (found,) = session.run("SELECT lowest, highest FROM progress WHERE stream = 'bids'")
    epoch = EPOCH.timestamp() * 1_000_000
    return [None if bound is None else (bound - epoch) / 1_000_000 for bound in found.values()]


@pytest.mark.parametrize(
    ("records", "bounds"),
    [
        (stamped((bid(0, 5), 0), (bid(1, 3), 10)), [3, 3]),
        (stamped((bid(0, 5), 0), (bid(1, 30), 10.001)), [30, 30]),
        (stamped((bid(0, 5), 0), (bid(0, 6), 10)), [None, None]),
        (stamped((bid(0, 5), 0), (bid(0, 6), 11)), [6, 6]),
        (stamped((bid(0, 50), 0), (bid(0, 60), 11), (bid(1, 3), 11)), [3, 60]),
        (stamped((bid(0, 5), 20), (item(1, 0), 0), (item(0, 0), 99)), [None, None]),
        (stamped((bid(0, 5), 0), (heartbeat("bids", 3, 1, before=True), 5), (bid(0, 30), 12)), [3, 30]),
        (stamped((heartbeat("bids", 7, 0), 0), (bid(1, 3), 10)), [3, 3]),
        (stamped((heartbeat("bids", 7, 0, before=True), 0), (bid(1, 9), 10)), [7, 7]),
    ],
    ids=[
        "just not idle",
        "idle",
        "just not since the first",
        "since the first",
        "came back",
        "other topic",
        "a heartbeat is a sign of life",
        "a heartbeat that does not hold back",
        "a heartbeat that holds back",
    ],
)
def test_bounds_of_progress(records: list[Record], bounds: list[float | None]) -> None:
    """An idle partition is not waited for; one that came back may have been overtaken, or not."""
    assert progress(records) == bounds


# Bids of partition 1 are missing for 11 seconds, and then one comes that is 40 seconds old.
GAP = [item(0, 0), item(0, 30), bid(0, 50), bid(0, 60), bid(1, 20, partition=1)]
GAP = stamped(*zip(GAP, (0, 0, 0, 11, 11), strict=True))


def found(records: list[Record], **tables: list[dict[str, Any]]) -> dict[str, bool]:
    """Which tables are as they can be."""
    with recomputed(PIPELINE, records, found=tables) as session:
        compared = compare_tables(session, PIPELINE, dict.fromkeys(tables_of(PIPELINE)))
    return {table.table: not table.differs for table in compared}


def alone(seconds: int) -> dict[str, Any]:
    at = EPOCH + timedelta(seconds=seconds)
    offset = 0 if seconds == 0 else 1
    row = {"items_item_id": 0, "items_seller_id": 1, "items_listed_at": at}
    return row | {"items_kafka_partition": 0, "items_kafka_offset": offset}


def overtaken(offset: int = 0, seconds: int = 20, partition: int = 1) -> dict[str, Any]:
    at = EPOCH + timedelta(seconds=seconds)
    place = {"topic": "all.bids", "partition": partition, "offset": offset}
    row = json.loads(bid(1, seconds).value or b"") | {"tip": "1.50"}  # with all digits
    return place | {"reason": "idle", "event_time": at, "record": json.dumps(row)}


@pytest.mark.parametrize("violations", [[], [overtaken()]], ids=["joined", "overtaken"])
@pytest.mark.parametrize("results", [[alone(0)], [alone(0), alone(30)]], ids=["before", "after"])
def test_what_hangs_on_the_gap_may_be_there_or_not(
    violations: list[dict[str, Any]], results: list[dict[str, Any]]
) -> None:
    """The item of second 0 has left its window in any case, that of second 30 by what the bids may have made
    of progress."""
    assert all(found(GAP, violations=violations, results=results).values())


def test_what_is_final_hangs_on_the_gap_as_well() -> None:
    """A key that is named and a range with it: they are announced once the item of second 30 is gone."""
    closing = [promise("items", {"item_id": {"between": {"to": 5}}}, partition) for partition in (0, 1)]
    with recomputed(PIPELINE, [*GAP, close("items", 0), *closing]) as session:
        texts = {row["punctuation"] for row in session.run("FROM uncertain_punctuations")}
        assert [row["item_id"] for row in session.run('FROM "uncertain_groups:by_key"')] == [0]
        assert session.count("expected_groups:by_key") == session.count("expected_punctuations") == 0
    assert texts == {
        '{"items_item_id":{"equals":0}}',
        '{"bids_item_id":{"equals":0}}',
        '{"items_item_id":{"between":{"to":5}}}',
    }


@pytest.mark.parametrize(
    ("tables", "wrong"),
    [
        ({"results": []}, "results"),
        ({"results": [alone(0), alone(0)]}, "results"),
        ({"results": [alone(0), alone(30), alone(30)]}, "results"),
        ({"results": [alone(0)], "violations": [overtaken(0, 50, 0)]}, "violations"),
        ({"results": [alone(0)], "violations": [overtaken(), overtaken()]}, "violations"),
        ({"results": [alone(0)], "violations": [overtaken(7)]}, "violations"),
    ],
    ids=["missing", "twice", "uncertain twice", "newer than others", "kept twice", "never read"],
)
def test_what_cannot_be_is_a_difference(tables: dict[str, list[dict[str, Any]]], wrong: str) -> None:
    """However much hangs on the gap."""
    assert [table for table, equal in found(GAP, **tables).items() if not equal] == [wrong]


def test_without_a_gap_nothing_is_overtaken() -> None:
    """The same rows, but Kafka had them in time."""
    in_time = [replace(record, timestamp=stamp(0)) for record in GAP]
    assert not found(in_time, violations=[overtaken()], results=[alone(0)])["violations"]

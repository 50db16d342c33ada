"""Heartbeats: a stream that falls silent frees the other one's state, and holds to what it has promised."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endmark.metrics import sample
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, Tables, total
from support.frame_tasks import COLUMN, Frame, FrameTasks, Rows, said
from support.frame_world import SCHEMA, START
from support.verify_histories import stamped
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import (
    PARTITIONS,
    Record,
    bid,
    heartbeat,
    instant,
    item,
    locate,
    make_pipeline,
    promise,
)

HOUR = 3600
ITEMS_IN_STATE = sample("state_rows", operator="join", stream="items")


def held(tasks: BucketTasks) -> int:
    """Items in state after the last batch."""
    return sum(report["samples"].get(ITEMS_IN_STATE, 0) for report in tasks.reports)


def in_batches(pipeline: Pipeline, records: list[Record], size: int, directory: Path) -> Tables:
    """The rows of each table after batches of so many records."""
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, directory)
    located = locate(records)
    return total(tasks.batch(located[at : at + size]) for at in range(0, len(located), size))


def late(found: Tables) -> list[int]:
    """The offsets of the violations, all of which are late."""
    assert {row["reason"] for row in found["violations"]} <= {"late"}
    assert all(row["promise"] is None for row in found["violations"])
    return sorted(row["offset"] for row in found["violations"])


@pytest.mark.parametrize("kind", [JoinType.INNER, JoinType.LEFT])
@pytest.mark.parametrize("beating", [True, False])
def test_a_silent_stream_frees_the_other(tmp_path: Path, kind: JoinType, *, beating: bool) -> None:
    """Bids have come to their end, but each of their partitions goes on with a heartbeat a second. So no item
    stays that is older than the window behind them. Without heartbeats, all items stay for ever."""
    pipeline = make_pipeline(kind=kind, lookup="items", windows=(5, 5), lateness=(0, 3))
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)
    records = [bid(4 + number, 0, partition=number) for number in range(PARTITIONS)]
    offset, batches, course = 0, [], []
    for second in range(1, 40):
        records += [item(number, second) for number in range(4)]
        if beating:
            records += [heartbeat("bids", second, partition) for partition in range(PARTITIONS)]
        batches.append(tasks.batch(locate(records)[offset:]))
        offset = len(records)
        course.append(held(tasks))

    # A bid of the next microsecond is within the window of the items of the last five seconds.
    assert course == [4 * (min(second, 5) if beating else second) for second in range(1, 40)]
    alone = [row for row in total(batches)["results"] if row["bids_bid_at"] is None]
    assert len(alone) == (4 * (39 - 5) if beating and kind is JoinType.LEFT else 0)
    with recomputed(pipeline, records, total(batches)) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 20])
@pytest.mark.parametrize("timed", [False, True])
def test_a_row_behind_a_heartbeat_is_late(tmp_path: Path, size: int, *, timed: bool) -> None:
    """Up to the heartbeat's time, though the stream allows three seconds of lateness; a partition is not
    bound by another one's heartbeat. A promise on the event time that is also declared is announced, too."""
    pipeline = make_pipeline(lookup="items", lateness=(3, 0), timed=(timed, False))
    tick = 0.000001
    records = [
        item(0, 5),
        heartbeat("items", 4, 0),
        item(0, 4),  # offset 2
        item(0, 4 + tick),
        heartbeat("items", 6, 0, before=True),
        item(0, 6 - tick),  # offset 5
        item(0, 6),
        heartbeat("items", 1, 0),  # which is old already
        item(0, 6 - 2 * tick),  # offset 8
        item(1, 2),
        item(2, 10),
        item(2, 7),
        item(2, 7 - tick),  # offset 11, late behind a row
        item(1, 2),
    ]

    found = in_batches(pipeline, records, size, tmp_path)

    assert late(found) == [2, 5, 8, 11]
    with recomputed(pipeline, records, found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2])
def test_a_declared_heartbeat_is_announced(tmp_path: Path, size: int) -> None:
    """When every partition has sent it, and the last row that it matches has left state; a heartbeat on a
    column that is not declared never is."""
    pipeline = make_pipeline(lookup="items", windows=(2, 2), timed=(True, False))
    records = [item(0, 1), bid(0, 1)]
    for stream, seconds in (("items", 3), ("bids", 2.5), ("bids", 9)):
        records += [heartbeat(stream, seconds, partition) for partition in range(PARTITIONS)]
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)
    located = locate(records)

    batches = [tasks.batch(located[at : at + size]) for at in range(0, len(located), size)]

    texts = [[row["punctuation"] for row in batch["announced"]] for batch in batches]
    text = f'{{"items_listed_at": {{"between": {{"to": "{instant(3)}"}}}}}}'
    assert texts == [[]] * (len(batches) - 1) + [[text]]
    with recomputed(pipeline, records, total(batches)) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 9])
@pytest.mark.parametrize("timed", [False, True])
def test_a_heartbeat_of_the_future_is_a_dead_letter(tmp_path: Path, size: int, *, timed: bool) -> None:
    """The last time that it rules out is more than an hour after Kafka's timestamp. It says nothing: rows
    behind it are joined. A heartbeat of just an hour counts."""
    pipeline = make_pipeline(lookup="items", timed=(timed, False))
    tick = 0.000001
    everything: dict[str, Any] = {"listed_at": {"between": {}}}
    last = {"listed_at": {"between": {"to": "9999-12-31T23:59:59.999999Z"}}}
    records = stamped(
        (heartbeat("items", HOUR + tick, 0), 0),
        (heartbeat("items", HOUR + 2 * tick, 0, before=True), 0),
        (promise("items", last, 0), 0),
        (promise("items", everything, 0), 0),
        (item(0, 1), 0),
        (heartbeat("items", HOUR + tick, 0, before=True), 0),  # the last time ruled out is in an hour
        (item(0, HOUR), 5),  # offset 6
        (item(0, HOUR + tick), 5),
        (heartbeat("items", HOUR + 9, 0), 10),
        (item(0, HOUR + 9), 10),  # offset 9
        (bid(0, 1), 0),
    )

    found = in_batches(pipeline, records, size, tmp_path)

    assert late(found) == [6, 9]
    letters = sorted((row["offset"], row["reason"]) for row in found["dead_letters"])
    assert letters == [(at, "future") for at in range(4)]
    assert all("more than `event_time.ahead`, 1 hour, after" in row["error"] for row in found["dead_letters"])
    assert len(found["results"]) == 1
    with recomputed(pipeline, records, found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 9])
def test_a_heartbeat_may_end_a_stream_without_a_clock(tmp_path: Path, size: int) -> None:
    """With `ahead: null` one of all times is the last word of its partition."""
    pipeline = make_pipeline(kind=JoinType.LEFT, lookup="items", ahead=(None, None))
    end: dict[str, Any] = {"bid_at": {"between": {}}}
    records = [item(0, 5), item(1, 8_000_000), *(promise("bids", end, partition) for partition in range(2))]
    records.append(bid(0, 5))

    found = in_batches(pipeline, records, size, tmp_path)

    assert late(found) == [1]
    assert len(found["results"]) == 2
    with recomputed(pipeline, records, found) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 9])
def test_a_stream_without_promises_has_heartbeats(tmp_path: Path, size: int) -> None:
    """Any other punctuation of such a stream is refused, even one on the event time."""
    pipeline = make_pipeline(lookup="items", punctuated=(True, False))
    between = {"from": instant(0), "to": instant(3)}
    others: list[dict[str, Any]] = [
        {"bid_at": {"between": between}},
        {"bid_at": {"between": {"from": instant(3)}}},
        {"bid_at": {"equals": instant(3)}},
        {"bid_at": {"anything": True}},
        {"bid_at": {"between": {"to": instant(3)}}, "item_id": {"equals": 0}},
        {"due": {"between": {"to": "2026-01-01"}}},
    ]
    records = [*(promise("bids", one, 0) for one in others), bid(0, 1), heartbeat("bids", 3, 0), bid(0, 3)]

    found = in_batches(pipeline, records, size, tmp_path)

    assert late(found) == [8]
    letters = sorted((row["offset"], row["reason"]) for row in found["dead_letters"])
    assert letters == [(at, "bad_punctuation") for at in range(len(others))]
    with recomputed(pipeline, records, found) as session:
        require_within(session, pipeline)


def test_a_heartbeat_is_a_record_of_its_partition(tmp_path: Path) -> None:
    """So its partition is not idle, and is waited for."""
    pipeline = make_pipeline(kind=JoinType.LEFT, windows=(2, 2), idle=(None, 10))
    records = stamped(
        (item(1, 21), 0),
        (bid(0, 50), 0),
        (heartbeat("bids", 19, 1), 9),
        (bid(0, 60), 12),
        (bid(1, 20), 12),
        (heartbeat("bids", 20, 1), 13),
        (bid(0, 70), 22),
    )
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)

    batches = [tasks.batch([record]) for record in locate(records)]

    assert [len(batch["results"]) for batch in batches] == [0, 0, 0, 0, 1, 0, 0]
    assert [row for batch in batches for row in batch["violations"]] == []
    with recomputed(pipeline, records, total(batches)) as session:
        require_within(session, pipeline)


def row(key: int, seconds: float) -> dict[str, Any]:
    return {"key": key, "value": 0, "number": round(seconds), "time": START + timedelta(seconds=seconds)}


def beat(seconds: float, column: str = "time") -> dict[str, Any]:
    at = (START + timedelta(seconds=seconds)).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return said({column: {"between": {"to": at}}})


def reasons(batch: Rows) -> list[str]:
    return [
        row[COLUMN].split('"reason": ')[1].split(",")[0] for row in batch if "reason" in (row[COLUMN] or "")
    ]


def test_a_heartbeat_of_a_frame_stands_behind_its_batch(tmp_path: Path) -> None:
    """Rows of its own batch are joined, and later ones are late, whatever lateness the join allows."""
    span = timedelta(seconds=5)
    frames = dict.fromkeys(("left", "right"), Frame(SCHEMA, ("key",), "time", span))
    join = FrameTasks(frames, tmp_path, kind=JoinType.LEFT, lateness=timedelta(seconds=3))

    out = [
        join.batch([row(0, 1), row(1, 9)], [row(7, 0)]),
        join.batch([], [beat(6), row(0, 6)]),
        join.batch([], [row(0, 6), row(0, 7)]),
        join.batch([], [beat(14)]),
    ]

    results = [[row["left_number"] for row in batch if row[COLUMN] is None] for batch in out]
    assert results == [[], [1], [], [9]]
    assert [reasons(batch) for batch in out] == [[], [], ['"late"'], []]


def test_a_heartbeat_passes_a_join_of_frames(tmp_path: Path) -> None:
    """The first join announces it when no row in state is as old; so the second join frees its other side."""
    span = timedelta(seconds=5)
    frames = dict.fromkeys(("left", "right"), Frame(SCHEMA, ("key",), "time", span))
    first = FrameTasks(frames, tmp_path)
    (tmp_path / "over").mkdir()
    left = Frame(pa.schema(list(first.schema)[:-1]), ("left_key",), "left_time", span)
    over = FrameTasks(
        {"left": left, "right": frames["right"]},
        tmp_path / "over",
        kind=JoinType.RIGHT,
        lateness=timedelta(days=1),  # so that no row moves progress
    )

    alone = []
    for seconds in range(1, 30):
        both = [row(0, seconds), beat(seconds)]
        came = first.batch(both, both)
        out = over.batch(came, [row(1, seconds)])
        alone.append(sum(each[COLUMN] is None and each["right_key"] == 1 for each in out))

    # The first join keeps a row for five seconds, and so does the second.
    assert alone == [0] * 10 + [1] * 19

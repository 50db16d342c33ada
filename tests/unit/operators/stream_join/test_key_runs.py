"""Declared clustering: where runs of a key end, within a batch and between two."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from endmark.operators.stream_batch import RunNews
from endmark.operators.stream_join.key_runs import KeyRuns, ended_runs
from endmark.pipeline.boundedness import states
from endmark.state.keys import KeySpec
from support.verify_world import make_pipeline

TYPES = [pa.date32(), pa.string()]
KEY = KeySpec(("day", "shop"), hashed=True)
SCHEMA = pa.schema([*zip(KEY.columns, TYPES, strict=True), ("partition", pa.int64()), ("offset", pa.int64())])
Row = tuple[int, str, int, int]


def keys(*rows: Row) -> pa.RecordBatch:
    """Day, shop, partition and offset."""
    columns = [[date(2026, 1, day) for day, *_ in rows], *([row[at] for row in rows] for at in (1, 2, 3))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return KEY.coded(pa.record_batch(arrays, schema=SCHEMA))


def told(batches: list[pa.RecordBatch]) -> list[Row]:
    return [
        (row["day"].day, row["shop"], row["partition"], row["offset"])
        for batch in batches
        for row in batch.to_pylist()
    ]


def test_the_first_row_of_another_key_ends_a_run() -> None:
    """Of another value in any column; the last run stays open."""
    rows = keys((1, "a", 0, 4), (1, "a", 0, 5), (1, "b", 0, 7), (2, "b", 0, 8), (1, "a", 0, 9))

    assert told([ended_runs(rows, KEY.columns)]) == [(1, "a", 0, 7), (1, "b", 0, 8), (2, "b", 0, 9)]
    assert ended_runs(rows.slice(0, 1), KEY.columns).num_rows == 0


@pytest.mark.parametrize("restart", [False, True])
def test_a_run_goes_on_in_the_next_batch(restart: bool) -> None:
    """Unless that begins with another key; each partition has its own, and a silent one keeps it open."""
    runs = KeyRuns(KEY, TYPES)
    assert runs.take(RunNews(last=keys((1, "a", 0, 4), (2, "b", 1, 3), (3, "c", 2, 6)))) == []
    if restart:
        snapshot = json.loads(json.dumps(runs.snapshot()))
        runs = KeyRuns(KEY, TYPES)
        runs.restore(snapshot)

    again = runs.take(RunNews(first=keys((1, "a", 0, 5), (2, "a", 1, 8)), last=keys((1, "a", 0, 6))))
    assert told(again) == [(2, "b", 1, 8)]
    first = keys((1, "b", 0, 7), (9, "z", 1, 9), (3, "x", 2, 7))
    assert told(runs.take(RunNews(keys((1, "b", 0, 8)), first))) == [
        (1, "b", 0, 8),
        (1, "a", 0, 7),
        (3, "c", 2, 7),
    ]
    assert runs.snapshot() == []


def test_they_bound_state_as_punctuations_do() -> None:
    """And are remembered as punctuations are."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"clustered": "item_id"}, {})
    pipeline = make_pipeline(windows=(None, None), punctuated=(False, True), declared=declared)

    assert [str(state).partition(", at most")[0] for state in states(pipeline)] == [
        "items rows: bounded by bids' punctuations on item_id",
        "bids rows: bounded by items' clusters on item_id",
        "by_key groups: bounded by items' clusters and bids' punctuations on item_id",
        "items closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
        "bids closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
    ]
    with pytest.raises(ValueError, match="clustered: unique keys are in clusters anyhow; leave it out"):
        make_pipeline(declared=({"clustered": "item_id", "unique": "item_id"}, {}))

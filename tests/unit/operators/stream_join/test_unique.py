"""Unique keys: each row closes its own."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from endmark.engine.streams import stream_plans
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.side import SideSpec
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import states
from endmark.punctuation.punctuation import Origin
from endmark.state.store import MemoryBlobs, SegmentStore
from support.verify_world import make_pipeline

EMPTY = StreamBatch()
AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def pipeline() -> Pipeline:
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"unique": "item_id"}, {})
    return make_pipeline(windows=(None, None), punctuated=(False, True), declared=declared)


def rows(side: SideSpec, *keys: int, offset: int = 0) -> StreamBatch:
    """Rows of one partition, sorted by key."""
    place = {str(side.partition): 0, side.time: AT}
    given = [
        {f"{side.name}_item_id": key, str(side.offset): offset + at} | place for at, key in enumerate(keys)
    ]
    return StreamBatch(rows=pa.RecordBatch.from_pylist(given, side.schema))


def test_they_bound_state_as_punctuations_do(pipeline: Pipeline) -> None:
    """And are remembered as punctuations are."""
    assert [str(state).partition(", at most")[0] for state in states(pipeline)] == [
        "items rows: bounded by bids' punctuations on item_id",
        "bids rows: bounded by items' unique keys on item_id",
        "by_key groups: bounded by items' unique keys and bids' punctuations on item_id",
        "items closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
        "bids closed keys: unbounded, remembered until a pattern holds them, in ranges of 24 bytes",
    ]


def test_rows_that_met_theirs_are_freed(pipeline: Pipeline, tmp_path: Path) -> None:
    """At once, and later ones are not kept; a restart forgets no key."""
    plans = stream_plans(pipeline, {"all.items": 1, "all.bids": 1})
    items, bids = plans["items"].side, plans["bids"].side
    store = SegmentStore(MemoryBlobs(), tmp_path)

    def results(batches: Iterator[pa.RecordBatch]) -> list[int]:
        return sorted(key for batch in batches for key in batch.column("items_item_id").to_pylist())

    join = StreamJoin(items, bids, store)
    assert results(join.process(EMPTY, rows(bids, 0, 1, 3))) == []
    assert join.right.rows.rows == 3
    assert results(join.process(rows(items, 0, 1, 1), rows(bids, 0, offset=3))) == [0, 0, 1]
    (repeated,) = join.output.violations
    assert (repeated.reason, repeated.rows.column("items_kafka_offset").to_pylist()) == ("repeated", [2])
    assert (join.left.rows.rows, join.right.rows.rows) == (2, 1)

    join = StreamJoin(items, bids, store, restored=join.snapshot())
    assert results(join.process(rows(items, 0, offset=3), rows(bids, 1, offset=4))) == [1]
    (repeated,) = join.output.violations
    assert (repeated.reason, [told and told.origin for told in repeated.promises]) == (
        "repeated",
        [Origin(0, 0)],
    )
    assert (join.left.rows.rows, join.right.rows.rows) == (2, 1)

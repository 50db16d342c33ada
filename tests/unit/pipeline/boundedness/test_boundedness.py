"""By what state is bounded, and that the engine keeps to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from endmark.engine.streams import stream_plans
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.order import Mark, marks_table
from endmark.operators.stream_join.side import SideSpec
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import states
from endmark.state.keys import Keys
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.types import JoinType
from support.verify_world import make_pipeline

BOTH = frozenset({"items", "bids"})
EMPTY = StreamBatch()


class History:
    """Rows of both streams, keys 0 and 1 with partners, 2 and 3 without; then what may free them."""

    def __init__(self, sides: tuple[SideSpec, SideSpec], kind: JoinType, directory: Path) -> None:
        items, bids = sides
        self.join = StreamJoin(items, bids, SegmentStore(MemoryBlobs(), directory), kind=kind)
        self.announced: set[int] = set()
        self.results: set[int] = set()
        self._process(_rows(items, [0, 1, 2]), _rows(bids, [0, 1, 3]))

    def close(self, streams: frozenset[str]) -> None:
        """These streams close every key."""
        keys = pa.array([0, 1, 2, 3])
        closed = pa.record_batch({"key": keys, "partition": pa.array([0] * 4), "offset": pa.array([99] * 4)})
        given = [StreamBatch(closed_keys=closed) if name in streams else EMPTY for name in ("items", "bids")]
        self._process(*given)

    def pass_by(self, key: int) -> None:
        """The items, which are ordered, have come to a key."""
        self._process(StreamBatch(marks=marks_table([(0, Mark(key, 9))], pa.int64())), EMPTY)

    def progress(self, streams: frozenset[str]) -> None:
        """Time of these streams leaves every window."""
        given = [StreamBatch(newest={0: 1 << 60}) if name in streams else EMPTY for name in ("items", "bids")]
        self._process(*given)

    def _process(self, left: StreamBatch, right: StreamBatch) -> None:
        for batch in self.join.process(left, right):
            for name in ("items_item_id", "bids_item_id"):
                if name in batch.schema.names:
                    self.results |= set(batch.column(name).drop_null().to_pylist())
        if self.join.output.announced is not None:
            self.announced |= set(self.join.output.announced.column("key").to_pylist())

    @property
    def freed(self) -> dict[str, bool]:
        """Which state is empty by now."""
        return {
            "items rows": self.join.left.rows.rows == 0,
            "bids rows": self.join.right.rows.rows == 0,
            "by_key groups": self.results <= self.announced,
        }


def _sides(pipeline: Pipeline) -> tuple[SideSpec, SideSpec]:
    plans = stream_plans(pipeline, {"all.items": 1, "all.bids": 1})
    return plans["items"].side, plans["bids"].side


def _rows(side: SideSpec, keys: list[int]) -> StreamBatch:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    order = {f"{side.name}_kafka_partition": 0, f"{side.name}_kafka_offset": 0}
    rows = [{f"{side.name}_item_id": key, side.time: at} | order for key in keys]
    return StreamBatch(rows=pa.RecordBatch.from_pylist(rows, side.schema))


def subsets(names: frozenset[str]) -> Iterator[frozenset[str]]:
    for kept in product([True, False], repeat=len(names)):
        yield frozenset(name for name, keep in zip(sorted(names), kept, strict=True) if keep)


@pytest.mark.parametrize("windows", [(5, 5), (0, None), (None, 0), (None, None)])
@pytest.mark.parametrize("kind", JoinType)
def test_each_bound_frees_state_and_nothing_else_does(
    tmp_path: Path, kind: JoinType, windows: tuple[int | None, int | None]
) -> None:
    """Whatever happens of punctuations and progress, the engine's state is empty once a bound is met, not
    before; when groups are final, no closed key waits."""
    for punctuated in ((True, True), (True, False), (False, True)):
        pipeline = make_pipeline(kind=kind, windows=windows, punctuated=punctuated)
        able = frozenset(name for name in BOTH if pipeline.streams[name].punctuated_on)
        sides = _sides(pipeline)
        for closing, moving, time_first in product(subsets(able), subsets(BOTH), (True, False)):
            if time_first and not (closing and moving):
                continue  # without one of the two, their order makes no difference
            history = History(sides, kind, tmp_path)
            if time_first:
                history.progress(moving)
            history.close(closing)
            if not time_first:
                history.progress(moving)

            kept = [state for state in states(pipeline) if state.holds != "closed keys"]
            assert history.freed == {
                state.name: any(
                    closing.issuperset(bound.closed_by) and moving.issuperset(bound.progress_of)
                    for bound in state.bounded_by
                )
                for state in kept
            }, (punctuated, closing, moving, time_first)
            if history.freed["by_key groups"]:
                assert history.join.left.pending_keys.rows == history.join.right.pending_keys.rows == 0


def test_a_declared_order_bounds_as_punctuations_do(tmp_path: Path) -> None:
    """Rows of keys that an ordered stream has passed are freed, and their groups final once it has none."""
    order: tuple[dict[str, Any], dict[str, Any]] = ({"ordered": {"item_id": "ascending"}}, {})
    pipeline = make_pipeline(windows=(None, None), punctuated=(False, True), declared=order)
    assert list(map(str, states(pipeline)))[:3] == [
        "items rows: bounded by bids' punctuations on item_id",
        "bids rows: bounded by items' order on item_id",
        "by_key groups: bounded by items' order and bids' punctuations on item_id",
    ]
    history = History(_sides(pipeline), JoinType.INNER, tmp_path)
    rows, keys = (history.join.left.rows, history.join.right.rows), Keys(np.arange(4))
    history.pass_by(2)
    assert [held.rows for held in rows] == [3, 1]
    history.close(frozenset({"bids"}))
    assert [held.rows for held in rows] == [0, 1]
    assert history.join.final(keys).tolist() == [True, True, True, False]
    history.pass_by(4)
    assert [held.rows for held in rows] == [0, 0]
    assert history.join.final(keys).tolist() == [True] * 4

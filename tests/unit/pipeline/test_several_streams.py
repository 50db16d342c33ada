"""Pipelines that join more than two streams: what a file may say, and what bounds their state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pydantic import ValidationError

from endmark.engine.streams import stream_plans
from endmark.errors import ConfigError
from endmark.operators.nary_join.join import NaryJoin
from endmark.operators.stream_batch import StreamBatch
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded, states
from endmark.planning.join_forecast import is_predictable, measured
from endmark.state.store import MemoryBlobs, SegmentStore
from support.several_streams import MEASURES, NAMES, joined, stream
from support.verify_keys import LONG

THREE = NAMES[:3]


def three(
    *,
    windows: Mapping[str, int | None],
    closing: tuple[str, ...] = THREE,
    measures: Mapping[str, Any] | None = None,
    **join: Any,
) -> Pipeline:
    """A join of three streams, of which some close keys."""
    streams = {
        name: stream(LONG, name, punctuated_on=["item_id"] if name in closing else []) for name in THREE
    }
    asks = {"sellers": ("payments", dict[str, Any]())}
    return joined(LONG, streams, asks, join, windows=windows, measures=measures)


@pytest.mark.parametrize(
    ("join", "why"),
    [
        (
            {"type": "left"},
            "steps.joined.type: only an inner join has more than two inputs; write inner, or leave",
        ),
        ({"type": "semi"}, "out 'shipments'"),
        (
            {"window": {"payments": "5s"}},
            "window.payments: 'payments' is not one of join: orders, known, shipments",
        ),
        (
            {"purge_every": 2},
            "steps.joined.purge_every: preset auto purges with each punctuation of 3 inputs",
        ),
        ({"goal": "throughput"}, "leave it out, or choose preset pjoin, mjoin"),
        ({"autotune": True}, "steps.joined.autotune: preset auto purges with each punctuation of 3 inputs"),
        ({"preset": "pjoin", "window": "5s"}, "steps.joined.window: preset pjoin has no windows"),
        ({"on": ["item_id", "amount"]}, "'amount' is double, and equal doubles are a matter of rounding"),
    ],
)
def test_what_a_join_of_three_streams_may_not_say(join: dict[str, Any], why: str) -> None:
    with pytest.raises((ValidationError, ConfigError)) as caught:
        three(windows={}, **join)
    assert why in str(caught.value)


def test_keys_are_of_one_type_in_all_streams() -> None:
    streams = {name: stream(LONG, name) for name in THREE}
    streams["shipments"]["columns"] = streams["shipments"]["columns"] | {"item_id": "string"}
    with pytest.raises(ValidationError) as caught:
        joined(LONG, streams, {}, {}, windows={})
    assert (
        "steps.joined.on: column 'item_id' is long in stream orders, but string in shipments; declare one "
        "type for all"
    ) in str(caught.value)


def test_one_window_is_for_all_inputs() -> None:
    pipeline = three(windows={}, window="5s")
    assert {pipeline.window_of(name) for name in THREE} == {pipeline.window_of("orders")}
    assert pipeline.window_of("orders") is not None


def test_punctuations_may_wait_where_all_streams_must_close_a_key() -> None:
    assert three(windows={}, preset="pjoin", purge_every=3).join is not None


def test_the_state_of_three_streams_is_not_predicted() -> None:
    pipeline = three(windows={})
    assert not is_predictable(pipeline)
    with pytest.raises(ConfigError, match="no join of two streams, whose state could be predicted"):
        measured(pipeline, [])


def test_unsafe_state_is_named() -> None:
    """Each stream, with what is missing and what would bound it."""
    pipeline = three(windows={}, closing=("orders",))
    with pytest.raises(ConfigError) as caught:
        require_bounded(pipeline)
    assert str(caught.value) == (
        "orders rows: unbounded, since steps.joined.window.orders is not set and payments has no "
        "punctuations and shipments has no punctuations; payments rows: unbounded, since "
        "steps.joined.window.known is not set and shipments has no punctuations; shipments rows: unbounded, "
        "since steps.joined.window.shipments is not set and payments has no punctuations; set "
        "steps.joined.window.orders, or accept it with unbounded_state: allow"
    )
    require_bounded(three(windows={"orders": 5}, closing=("orders",)))


def test_bounds_are_told() -> None:
    """The first three of them, in words."""
    told = list(map(str, states(three(windows=dict.fromkeys(THREE, 5), measures=MEASURES))))
    assert told[0] == (
        "orders rows: bounded by window 5 s after payments' and shipments' progress, by payments' and "
        "shipments' punctuations on item_id and by shipments' punctuations on item_id with window 5 s after "
        "payments' progress, or in 1 more way"
    )
    assert told[3].startswith(
        "by_key groups: bounded by orders', payments' and shipments' punctuations on item_id,"
    )


class History:
    """Rows of two keys in all streams; then what may free them."""

    def __init__(self, pipeline: Pipeline, directory: Path) -> None:
        plans = stream_plans(pipeline, {f"all.{name}": 1 for name in THREE})
        sides = [plans[name].side for name in THREE]
        self.join = NaryJoin(sides, SegmentStore(MemoryBlobs(), directory))
        self.announced: set[int] = set()
        at = datetime(2026, 1, 1, tzinfo=UTC)
        rows = {
            side.name: pa.RecordBatch.from_pylist(
                [
                    {f"{side.name}_item_id": key, side.time: at, side.partition: 0, side.offset: key}
                    for key in (0, 1)
                ],
                side.schema,
            )
            for side in sides
        }
        self._process({name: StreamBatch(rows=batch) for name, batch in rows.items()})

    def close(self, streams: frozenset[str]) -> None:
        """These streams close both keys."""
        columns = {"key": pa.array([0, 1]), "partition": pa.array([0, 0]), "offset": pa.array([99, 99])}
        closed = pa.record_batch(columns)
        self._process({name: StreamBatch(closed_keys=closed) for name in streams})

    def progress(self, streams: frozenset[str]) -> None:
        """Time of these streams leaves every window."""
        self._process({name: StreamBatch(newest={0: 1 << 60}) for name in streams})

    def _process(self, batches: Mapping[str, StreamBatch]) -> None:
        for _ in self.join.process(*(batches.get(name, StreamBatch()) for name in THREE)):
            pass
        if self.join.output.announced is not None:
            self.announced |= set(self.join.output.announced.column("key").to_pylist())

    @property
    def freed(self) -> dict[str, bool]:
        """Which state is empty by now."""
        rows = {f"{side.spec.name} rows": side.rows.rows == 0 for side in self.join.sides}
        return rows | {"by_key groups": self.announced == {0, 1}}


def subsets(names: tuple[str, ...]) -> Iterator[frozenset[str]]:
    for kept in product([True, False], repeat=len(names)):
        yield frozenset(name for name, keep in zip(names, kept, strict=True) if keep)


@pytest.mark.parametrize("windows", [(5, 5, 5), (5, None, None), (None, 5, 5), (None, None, None)])
@pytest.mark.parametrize("closing", [THREE, THREE[:2], THREE[2:]])
def test_each_bound_of_three_streams_frees_state_and_nothing_else_does(
    tmp_path: Path, closing: tuple[str, ...], windows: tuple[int | None, ...]
) -> None:
    """Whatever happens of punctuations and progress, in either order."""
    pipeline = three(windows=dict(zip(THREE, windows, strict=True)), closing=closing, measures=MEASURES)
    kept = [state for state in states(pipeline) if state.holds != "closed keys"]
    for closed, moved, time_first in product(subsets(closing), subsets(THREE), (True, False)):
        history = History(pipeline, tmp_path)
        if time_first:
            history.progress(moved)
        history.close(closed)
        if not time_first:
            history.progress(moved)

        assert history.freed == {
            state.name: any(
                closed.issuperset(bound.closed_by) and moved.issuperset(bound.progress_of)
                for bound in state.bounded_by
            )
            for state in kept
        }, (closed, moved, time_first)
        if history.freed["by_key groups"]:
            assert all(side.pending_keys.rows == 0 for side in history.join.sides)

"""By what state is bounded: what `validate` says, what is refused, and that the engine keeps to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from endmark.cli import app
from endmark.errors import ConfigError
from endmark.joins.order import Mark, batch_of
from endmark.joins.side import SideInput, SideSpec
from endmark.joins.stream_join import StreamJoin
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import require_bounded, states
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.spark.streams import stream_plans
from endmark.state.keys import Keys
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.types import JoinType
from support.verify_keys import COMPOSITE, KEY_KINDS
from support.verify_world import make_pipeline

ENVIRONMENT = {"ENDMARK_RELATION_URL": "sqlite://"}
BOTH = frozenset({"items", "bids"})
EMPTY = SideInput()


class History:
    """Rows of both streams, keys 0 and 1 with partners, 2 and 3 without; then what may free them."""

    def __init__(self, pipeline: Pipeline, directory: Path) -> None:
        plans = stream_plans(pipeline, {"all.items": 1, "all.bids": 1})
        items, bids = plans["items"].side, plans["bids"].side
        self.join = StreamJoin(items, bids, SegmentStore(MemoryBlobs(), directory), kind=pipeline.join.type)
        self.announced: set[int] = set()
        self.results: set[int] = set()
        self._process(_rows(items, [0, 1, 2]), _rows(bids, [0, 1, 3]))

    def close(self, streams: frozenset[str]) -> None:
        """These streams close every key."""
        keys = pa.array([0, 1, 2, 3])
        closed = pa.record_batch({"key": keys, "partition": pa.array([0] * 4), "offset": pa.array([99] * 4)})
        given = [SideInput(punctuations=closed) if name in streams else EMPTY for name in ("items", "bids")]
        self._process(*given)

    def pass_by(self, key: int) -> None:
        """The items, which are ordered, have come to a key."""
        self._process(SideInput(marks=batch_of([(0, Mark(key, 9))], pa.int64())), EMPTY)

    def progress(self, streams: frozenset[str]) -> None:
        """Time of these streams leaves every window."""
        given = [SideInput(newest={0: 1 << 60}) if name in streams else EMPTY for name in ("items", "bids")]
        self._process(*given)

    def _process(self, left: SideInput, right: SideInput) -> None:
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
            "groups": self.results <= self.announced,
        }


def _rows(side: SideSpec, keys: list[int]) -> SideInput:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    order = {f"{side.name}_kafka_partition": 0, f"{side.name}_kafka_offset": 0}
    rows = [{f"{side.name}_item_id": key, side.time: at} | order for key in keys]
    return SideInput(rows=pa.RecordBatch.from_pylist(rows, side.schema))


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
        for closing, moving, time_first in product(subsets(able), subsets(BOTH), (True, False)):
            history = History(pipeline, tmp_path)
            if time_first:
                history.progress(moving)
            history.close(closing)
            if not time_first:
                history.progress(moving)

            kept = [state for state in states(pipeline) if state.holds != "closed keys"]
            assert history.freed == {
                state.name: any(
                    closing.issuperset(bound.closed_by) and bound.progress_of in {None, *moving}
                    for bound in state.bounded_by
                )
                for state in kept
            }, (punctuated, closing, moving, time_first)
            if history.freed["groups"]:
                assert history.join.left.pending.rows == history.join.right.pending.rows == 0


def test_a_declared_order_bounds_as_punctuations_do(tmp_path: Path) -> None:
    """Rows of keys that an ordered stream has passed are freed, and their groups final once it has none."""
    order: tuple[dict[str, Any], dict[str, Any]] = ({"ordered": {"item_id": "ascending"}}, {})
    pipeline = make_pipeline(windows=(None, None), punctuated=(False, True), declared=order)
    assert list(map(str, states(pipeline)))[:3] == [
        "items rows: bounded by bids' punctuations on item_id",
        "bids rows: bounded by items' order on item_id",
        "groups: bounded by items' order and bids' punctuations on item_id",
    ]
    history = History(pipeline, tmp_path)
    rows, keys = (history.join.left.rows, history.join.right.rows), Keys(np.arange(4))
    history.pass_by(2)
    assert [held.rows for held in rows] == [3, 1]
    history.close(frozenset({"bids"}))
    assert [held.rows for held in rows] == [0, 1]
    assert history.join.final(keys).tolist() == [True, True, True, False]
    history.pass_by(4)
    assert [held.rows for held in rows] == [0, 0]
    assert history.join.final(keys).tolist() == [True] * 4


@pytest.mark.parametrize("punctuated", [(True, False), (False, True)])
@pytest.mark.parametrize("windows", [(5, 5), (0, None), (None, 0), (None, None)])
@pytest.mark.parametrize("kind", JoinType)
def test_each_mend_mends_everything(
    kind: JoinType, windows: tuple[int | None, int | None], punctuated: tuple[bool, bool]
) -> None:
    """Whoever is refused and does one of the things the message names is not refused again."""
    pipeline = make_pipeline(kind=kind, windows=windows, punctuated=punctuated)
    if all(state.bounded_by for state in states(pipeline) if state.holds != "closed keys"):
        require_bounded(pipeline)
        return
    with pytest.raises(ConfigError) as caught:
        require_bounded(pipeline)
    mends = str(caught.value).rpartition("; ")[2].replace(", or ", ", ").split(", ")

    for mend in mends:
        if mend == "set join.window.left":
            mended = make_pipeline(kind=kind, windows=(1, windows[1]), punctuated=punctuated)
        elif mend == "set join.window.right":
            mended = make_pipeline(kind=kind, windows=(windows[0], 1), punctuated=punctuated)
        elif mend == "accept it with unbounded_state: allow":
            mended = pipeline.model_copy(update={"unbounded_state": "allow"})
        else:
            silent = "items" if punctuated[1] else "bids"
            assert mend == f"declare streams.{silent}.punctuated_on: [item_id]"
            mended = make_pipeline(kind=kind, windows=windows)
        require_bounded(mended)
    assert len(mends) >= 2


def test_refusal_says_what_and_why() -> None:
    """Rows that neither time nor the other stream frees are named with both; groups with who never closes."""
    with pytest.raises(ConfigError) as caught:
        require_bounded(make_pipeline(windows=(None, 5), punctuated=(True, False)))
    assert str(caught.value) == (
        "items rows: unbounded, since join.window.left is not set and bids has no punctuations; "
        "groups: unbounded, since items rows of closed keys stay for ever; "
        "set join.window.left, declare streams.bids.punctuated_on: [item_id], "
        "or accept it with unbounded_state: allow"
    )

    with pytest.raises(ConfigError) as caught:
        require_bounded(make_pipeline(kind=JoinType.FULL, punctuated=(False, True), keys=COMPOSITE))
    assert str(caught.value) == (
        "groups: unbounded, since items rows are results even without a partner and items has no "
        "punctuations; declare streams.items.punctuated_on: [item_id, lot], "
        "or accept it with unbounded_state: allow"
    )


def test_punctuations_beside_the_key_bound_nothing() -> None:
    """A stream that has such alone closes no key, and is told to declare the key too."""
    with pytest.raises(ConfigError) as caught:
        require_bounded(make_pipeline(windows=(None, 5), punctuated=(True, False), wider=("seller_id",)))
    assert str(caught.value) == (
        "items rows: unbounded, since join.window.left is not set and bids has punctuations on seller_id "
        "alone, which close no key; groups: unbounded, since items rows of closed keys stay for ever; "
        "set join.window.left, declare streams.bids.punctuated_on: [item_id, seller_id], "
        "or accept it with unbounded_state: allow"
    )
    with pytest.raises(ValueError, match="no stream is punctuated on the join key"):
        make_pipeline(punctuated=(False, False), wider=("seller_id",))


@pytest.mark.parametrize(
    ("keys", "size"),
    [
        ("long", "at most 8 bytes each"),
        ("boolean", "at most 8 bytes each"),
        ("string", "8 bytes each and their item_id"),
        ("decimal", "8 bytes each and their item_id"),
        ("composite", "8 bytes each and their item_id, lot"),
    ],
)
def test_closed_keys_are_noted_and_not_refused(keys: str, size: str) -> None:
    """They grow with the punctuations of a stream that has some."""
    pipeline = make_pipeline(keys=KEY_KINDS[keys], punctuated=(True, False))
    require_bounded(pipeline)

    assert [str(state) for state in states(pipeline) if state.holds == "closed keys"] == [
        f"items closed keys: unbounded, remembered until a range holds them, {size}"
    ]


def file_of(tmp_path: Path, **changed: Any) -> Path:
    """The auction where bids have no punctuations and items no window."""
    document: dict[str, Any] = load(AUCTION, ENVIRONMENT).model_dump(mode="json", exclude_defaults=True)
    document["join"]["window"] = {"right": "1500ms"}
    del document["streams"]["bids"]["punctuated_on"]
    file = tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(document | changed))
    return file


def test_no_file_with_unbounded_state_is_loaded(tmp_path: Path) -> None:
    """Whatever reads a pipeline file refuses it, and names it; the file may say that it is meant."""
    with pytest.raises(ConfigError, match=r"pipeline\.yaml: items rows: unbounded, since join\.window\.left"):
        load(file_of(tmp_path), ENVIRONMENT)
    with pytest.raises(ConfigError, match="unbounded_state: Input should be 'refuse' or 'allow'"):
        load(file_of(tmp_path, unbounded_state="maybe"), ENVIRONMENT)

    assert load(file_of(tmp_path, unbounded_state="allow"), ENVIRONMENT).unbounded_state == "allow"


def test_validate_prints_a_line_per_state(tmp_path: Path) -> None:
    """Bounds for each; what is unbounded and accepted is said too."""
    told = CliRunner().invoke(app, ["validate"], env=ENVIRONMENT).stdout.splitlines()[1:]
    assert told == [
        "items rows: bounded by window 60 s after bids' progress and by bids' punctuations on item_id",
        "bids rows: bounded by window 10 s after items' progress and by items' punctuations on item_id",
        (
            "groups: bounded by items' and bids' punctuations on item_id, "
            "by items' punctuations on item_id with window 60 s after bids' progress "
            "and by bids' punctuations on item_id with window 10 s after items' progress"
        ),
        "items closed keys: unbounded, remembered until a range holds them, at most 8 bytes each",
        "bids closed keys: unbounded, remembered until a range holds them, at most 8 bytes each",
    ]

    file = file_of(tmp_path, unbounded_state="allow")
    told = CliRunner().invoke(app, ["validate", str(file)], env=ENVIRONMENT).stdout.splitlines()[1:]
    assert told == [
        "items rows: unbounded, since join.window.left is not set and bids has no punctuations",
        "bids rows: bounded by window 1.5 s after items' progress and by items' punctuations on item_id",
        "groups: unbounded, since items rows of closed keys stay for ever",
        "items closed keys: unbounded, remembered until a range holds them, at most 8 bytes each",
    ]


def test_validate_tells_programs_the_same(tmp_path: Path) -> None:
    """One JSON object; a bound says which streams close the key, and whose progress leaves which window."""
    file = file_of(tmp_path, unbounded_state="allow")
    printed = CliRunner().invoke(app, ["validate", str(file), "--json"], env=ENVIRONMENT).stdout
    by_time = {"closed_by": [], "means": [], "on": [], "window_seconds": 1.5, "progress_of": "items"}
    by_key = {
        "closed_by": ["items"],
        "means": ["punctuations"],
        "on": ["item_id"],
        "window_seconds": None,
        "progress_of": None,
    }
    why = "since join.window.left is not set and bids has no punctuations"

    told = json.loads(printed)
    assert told["valid"] is True
    assert told["state"][:2] == [
        {"input": "items", "holds": "rows", "bounded_by": [], "note": why},
        {"input": "bids", "holds": "rows", "bounded_by": [by_time, by_key], "note": None},
    ]
    assert [(state["input"], state["holds"]) for state in told["state"][2:]] == [
        ("groups", "groups"),
        ("items", "closed keys"),
    ]

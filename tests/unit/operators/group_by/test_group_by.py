"""The closing group-by: groups of keys of any type, folded over batches and put out once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from endmark.operators.group_by.functions import (
    Average,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    Min,
    Sorted,
    Sum,
)
from endmark.operators.group_by.group_by import ClosingAggregate, KeyColumn
from endmark.operators.group_by.measures import MeasureSpec, coordinates
from endmark.state import keys, segment_list
from endmark.state.keys import KeySpec
from endmark.state.segment_list import FANOUT
from endmark.state.store import MemoryBlobs, SegmentStore

KINDS = [pa.string(), pa.date32()]
KEYS = [
    KeyColumn("name", pa.string(), ("l_name", "r_name")),
    KeyColumn("day", pa.date32(), ("l_day", "r_day")),
]
MEASURES = [
    Count("rows", None, pa.int64()),
    Max("highest", "r_price", pa.float64()),
]
Row = tuple[str | None, int | None, str | None, int | None, float | None]


def results(*rows: Row) -> pa.RecordBatch:
    """Join results of left name and day, right name, day and price; days count from 1970."""
    kinds = [*KINDS, *KINDS, pa.float64()]
    names = ["l_name", "l_day", "r_name", "r_day", "r_price"]
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
    return pa.record_batch(columns, names=names)


def announced(*rows: tuple[str, int]) -> keys.Keys:
    spec = KeySpec.of(["key_0", "key_1"], KINDS)
    columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(KINDS)]
    return spec.keys(spec.sorted(spec.coded(pa.record_batch(columns, names=list(spec.columns)))))


@pytest.mark.parametrize("collide", [False, True])
def test_outer_rows_belong_to_the_key_they_have(tmp_path: Path, collide: bool) -> None:
    """A row without a partner counts in the group of the side that is there, and has no part in a measure of
    the other; a group is closed by its value and not by its code."""
    hash_columns = keys.hash_columns
    with patch.object(keys, "hash_columns", lambda columns: hash_columns(columns) * (not collide)):
        groups = ClosingAggregate(KEYS, MEASURES, SegmentStore(MemoryBlobs(), tmp_path))
        groups.add([groups.inputs(results(("a", 1, "a", 1, 2.0), ("a", 2, None, None, None)))])
        groups.add([groups.inputs(results((None, None, "a", 1, 5.0), ("b", 1, None, None, None)))])
        closed = groups.close(announced(("a", 1), ("b", 1), ("b", 2)))
        rest = groups.close(announced(("a", 2)))

    assert closed.schema.names == ["name", "day", "rows", "highest"]
    assert sorted(closed.to_pylist(), key=repr) == [
        {"name": "a", "day": date(1970, 1, 2), "rows": 2, "highest": 5.0},
        {"name": "b", "day": date(1970, 1, 2), "rows": 1, "highest": None},
    ]
    assert rest.to_pylist() == [{"name": "a", "day": date(1970, 1, 3), "rows": 1, "highest": None}]
    assert groups.groups.rows == 0


def test_groups_so_far_are_none_of_those_put_out(tmp_path: Path) -> None:
    """Though their rows still lie, dead, among those of a group that is open."""
    groups = ClosingAggregate(KEYS, MEASURES, SegmentStore(MemoryBlobs(), tmp_path))
    added = groups.inputs(results(("a", 1, "a", 1, 2.0)))
    others = [(name, 1, name, 1, 3.0) for name in "bcdefgh"]
    groups.add([added, groups.inputs(results(*others))])

    groups.close(announced(("a", 1)))

    assert groups.so_far(groups.keys_of([added])).to_pylist() == []
    assert len(groups.groups.segments) == 1


def test_groups_outlive_merges_and_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partial rows of one key become one row when segments merge, and a snapshot carries them over."""
    monkeypatch.setattr(segment_list, "SMALL_ROWS", 0)
    store = SegmentStore(MemoryBlobs(), tmp_path)
    groups = ClosingAggregate(KEYS, MEASURES, store)
    for number in range(FANOUT):
        groups.add([groups.inputs(results(("a", 1, "a", 1, float(number)), ("b", number, None, None, None)))])
    restored = ClosingAggregate(KEYS, MEASURES, store, groups.snapshot())

    assert restored.groups.rows == FANOUT + 1
    assert restored.close(announced(("a", 1))).to_pylist() == [
        {"name": "a", "day": date(1970, 1, 2), "rows": FANOUT, "highest": FANOUT - 1.0}
    ]


PLACED = coordinates("time", "partition", "offset")
DOUBLE, LONG, DECIMAL = pa.float64(), pa.int64(), pa.decimal128(28, 2)
ITEM = [KeyColumn("item", LONG, ("l_item",))]
FUNCTIONS: dict[str, tuple[type[MeasureSpec], str, pa.DataType, pa.DataType]] = {
    "total": (Sum, "price", DOUBLE, DOUBLE),
    "mean": (Average, "price", DOUBLE, DOUBLE),
    "prices": (CountDistinct, "price", LONG, DOUBLE),
    "each_price": (Sorted, "price", pa.list_(DOUBLE), DOUBLE),
    "each_paid": (Sorted, "paid", pa.list_(DECIMAL), DECIMAL),
    "pieces": (Sum, "pieces", LONG, LONG),
    "paid": (Sum, "paid", pa.decimal128(38, 2), DECIMAL),
    "usually_paid": (Average, "paid", DOUBLE, DECIMAL),
    "least": (Min, "paid", DECIMAL, DECIMAL),
    "opened": (First, "price", DOUBLE, DOUBLE),
    "ended": (Last, "price", DOUBLE, DOUBLE),
    "lowest": (Min, "price", DOUBLE, DOUBLE),
    "highest": (Max, "price", DOUBLE, DOUBLE),
}


def measured(directory: Path, batches: Sequence[Sequence[tuple[Any, ...]]]) -> dict[str, Any]:
    """All measures of the one group, of rows of (price, pieces, paid, time, partition, offset); the operator
    is restored before each batch."""
    specs = [
        function(name, column, kind, of, PLACED if function.picks else ())
        for name, (function, column, kind, of) in FUNCTIONS.items()
    ]
    kinds = {"price": DOUBLE, "pieces": LONG, "paid": DECIMAL, "time": pa.timestamp("us", "UTC")}
    kinds |= {"partition": LONG, "offset": LONG}
    store = SegmentStore(MemoryBlobs(), directory)
    groups = ClosingAggregate(ITEM, specs, store)
    for rows in batches:
        groups = ClosingAggregate(ITEM, specs, store, groups.snapshot())
        columns = {name: pa.array([row[at] for row in rows], kinds[name]) for at, name in enumerate(kinds)}
        groups.add([groups.inputs(pa.record_batch(columns | {"l_item": pa.array([7] * len(rows), LONG)}))])
    spec = KeySpec.of(["key"], [LONG])
    [group] = groups.close(spec.keys(pa.record_batch({"key": pa.array([7])}))).to_pylist()
    assert all(kept.rows == 0 for kept in groups.lists.values())
    assert group.pop("item") == 7
    return dict(group)


ROWS = [
    (0.1, 2**63 - 1, "1.10", 5, 0, 9),
    (1e17, 1, "-1.30", 5, 0, 8),
    (-0.0, -3, None, 5, 1, 7),
    (None, -1, "0.10", 4, 0, 6),
    (0.0, None, "9.99", 6, 0, 4),
    (-1e17, -5, "9.99", 6, 0, 5),
]


@pytest.mark.parametrize("cuts", [[6], [1, 1, 1, 1, 1, 1], [2, 4], [5, 1]])
@pytest.mark.parametrize("reverse", [False, True])
def test_measures_do_not_hang_on_order(tmp_path: Path, cuts: list[int], reverse: bool) -> None:
    """However rows are cut into batches: sums are exact, and `first` and `last` go by time and coordinates,
    past nulls."""
    rows = [(*row[:2], None if row[2] is None else Decimal(row[2]), *row[3:]) for row in ROWS]
    rows = rows[::-1] if reverse else rows
    starts = [sum(cuts[:at]) for at in range(len(cuts))]

    found = measured(tmp_path, [rows[at : at + size] for at, size in zip(starts, cuts, strict=True)])

    assert found == {
        "total": 0.1,
        "mean": 0.1 / 5,
        "prices": 4,
        "each_price": [-1e17, 0.0, 0.0, 0.1, 1e17],
        "each_paid": [Decimal(paid) for paid in ("-1.30", "0.10", "1.10", "9.99", "9.99")],
        "pieces": 2**63 - 9,
        "paid": Decimal("19.88"),
        "usually_paid": 19.88 / 5,
        "least": Decimal("-1.30"),
        "opened": 1e17,
        "ended": -1e17,
        "lowest": -1e17,
        "highest": 1e17,
    }


def test_a_group_without_values_has_nulls(tmp_path: Path) -> None:
    assert measured(tmp_path, [[(None, None, None, 5, 0, 1)]]) == {
        name: {CountDistinct: 0, Sorted: []}.get(function) for name, (function, *_) in FUNCTIONS.items()
    }


@pytest.mark.parametrize("pieces", [2**63 - 1, -(2**63)])
def test_a_sum_beyond_its_type_is_null(tmp_path: Path, pieces: int) -> None:
    """And does not stop the job; an average has room for it."""
    rows = [(1e308, pieces, Decimal("1e25"), 5, 0, at) for at in range(3)]

    found = measured(tmp_path, [rows[:1], rows[1:]])

    assert (found["total"], found["mean"], found["pieces"]) == (None, None, None)
    assert found["paid"] == Decimal("3e25")
    assert found["usually_paid"] == 1e25
    assert found["prices"] == 1


@pytest.mark.parametrize(
    ("prices", "lowest", "highest"),
    [
        ([1.5, math.inf], 1.5, math.inf),
        ([-math.inf, 1.5, math.inf], -math.inf, math.inf),
        ([math.nan, 1.5], 1.5, math.nan),
        ([math.inf, None, math.nan], math.inf, math.nan),
        ([math.nan, math.nan], math.nan, math.nan),
    ],
)
@pytest.mark.parametrize("together", [True, False])
def test_a_sum_of_what_is_not_finite_is_null(
    tmp_path: Path, prices: list[float | None], lowest: float, highest: float, together: bool
) -> None:
    """The relation and frames may bring infinite values and NaN. It was a wrong number, such as 1024."""
    rows = [(price, 1, None, 5, 0, at) for at, price in enumerate(prices)]

    found = measured(tmp_path, [rows] if together else [[row] for row in rows])

    assert (found["total"], found["mean"]) == (None, None)
    assert repr((found["lowest"], found["highest"])) == repr((lowest, highest))
    assert repr(found["each_price"]) == repr(sorted((p for p in prices if p is not None), key=_nan_last))
    assert found["prices"] == len({repr(price) for price in prices if price is not None})


def _nan_last(value: float) -> tuple[bool, float]:
    return math.isnan(value), 0.0 if math.isnan(value) else value


@pytest.mark.parametrize("name", ["l_item", "price_sum", "price_max", "time"])
def test_a_key_may_be_called_like_anything(tmp_path: Path, name: str) -> None:
    """Like a column of results, or what Arrow makes of a measure's name."""
    measures = [
        Count("price", None, LONG),
        Max("most", "price_sum", DOUBLE),
        CountDistinct("several", "time", LONG, LONG),
    ]
    groups = ClosingAggregate(
        [KeyColumn(name, LONG, ("l_item",))], measures, SegmentStore(MemoryBlobs(), tmp_path)
    )
    columns = {"l_item": [7, 8, 7], "price_sum": [1.0, 2.0, 3.0], "time": [4, 4, 4]}
    groups.add([groups.inputs(pa.record_batch({each: pa.array(values) for each, values in columns.items()}))])

    closed = groups.close_where(lambda keys: keys.codes == 7).to_pylist()
    assert closed == [{name: 7, "price": 2, "most": 3.0, "several": 1}]


def test_values_may_be_all_there_is(tmp_path: Path) -> None:
    measures = [
        CountDistinct("n", "price", LONG, DOUBLE),
        Sorted("prices", "price", pa.list_(DOUBLE), DOUBLE),
    ]
    groups = ClosingAggregate(ITEM, measures, SegmentStore(MemoryBlobs(), tmp_path))
    rows = pa.record_batch({"l_item": pa.array([7, 7, 8]), "price": pa.array([1.0, 2.0, None])})
    groups.add([groups.inputs(rows)])
    groups.add([groups.inputs(rows)])

    closed = groups.close_where(lambda keys: keys.codes > 0).to_pylist()
    assert closed == [
        {"item": 7, "n": 2, "prices": [1.0, 1.0, 2.0, 2.0]},
        {"item": 8, "n": 0, "prices": []},
    ]

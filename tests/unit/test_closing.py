"""The closing group-by: groups of keys of any type, folded over batches and put out once."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from endmark.aggregate.closing import ClosingAggregate, KeyColumn, MeasureSpec
from endmark.state import keys
from endmark.state.keys import KeySpec
from endmark.state.segment_list import FANOUT
from endmark.state.store import SegmentStore
from support.memory_store import MemoryBlobs

KINDS = [pa.string(), pa.date32()]
KEYS = [
    KeyColumn("name", pa.string(), ("l_name", "r_name")),
    KeyColumn("day", pa.date32(), ("l_day", "r_day")),
]
MEASURES = [
    MeasureSpec("rows", "count", None, pa.int64()),
    MeasureSpec("highest", "max", "r_price", pa.float64()),
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


def test_groups_outlive_merges_and_restarts(tmp_path: Path) -> None:
    """Partial rows of one key become one row when segments merge, and a snapshot carries them over."""
    store = SegmentStore(MemoryBlobs(), tmp_path)
    groups = ClosingAggregate(KEYS, MEASURES, store)
    for number in range(FANOUT):
        groups.add([groups.inputs(results(("a", 1, "a", 1, float(number)), ("b", number, None, None, None)))])
    restored = ClosingAggregate(KEYS, MEASURES, store, groups.snapshot())

    assert restored.groups.rows == FANOUT + 1
    assert restored.close(announced(("a", 1))).to_pylist() == [
        {"name": "a", "day": date(1970, 1, 2), "rows": FANOUT, "highest": FANOUT - 1.0}
    ]

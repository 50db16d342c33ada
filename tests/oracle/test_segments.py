"""A list of segments against its definition, a table of rows, at the sizes at which segments merge."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from endmark.state import manifest
from endmark.state.keys import KeySpec
from endmark.state.segment_list import FANOUT, SegmentList
from endmark.state.store import MemoryBlobs, SegmentStore
from support.cases import cases
from support.sizes import Merging

KEY = KeySpec.of(["key"], [pa.int64()])
KEYS = 7
SIZES = (1, 2, 3, 8, 16, 64)  # of what is appended at once, less one, as it is, or one more


@dataclass(frozen=True)
class TableBatch:
    """One batch appends `rows` rows, gives the rows of the key `matched` a partner, removes those of the key
    `gone`, and expires the `expired` oldest."""

    rows: int
    matched: int
    gone: int
    expired: int


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[TableBatch], Merging]:
    """Mostly equal sizes, which merge as soon as there are as many as merge, and limits that they reach; half
    of the time nothing else happens, so that merges are of exactly so many rows."""
    size = draw(st.sampled_from(SIZES))
    fanout = draw(st.sampled_from([2, 3, 4, FANOUT]))
    limit = draw(st.sampled_from([1 << 19, size * fanout, size * 4, size * 4 - 1, 32]))
    if draw(st.booleans()):
        count = draw(st.integers(fanout, 2 * fanout + 2))
        return [TableBatch(size, KEYS, KEYS, 0)] * count, Merging(fanout, limit)
    some = st.one_of(*3 * [st.just(KEYS)], st.integers(0, KEYS - 1))
    rows = st.one_of(*3 * [st.just(size)], st.sampled_from([size + 1, max(1, size - 1)]))
    batch = st.builds(TableBatch, rows, some, some, st.sampled_from([0, 0, 0, 0, size]))
    return draw(st.lists(batch, min_size=1, max_size=2 * fanout + 2)), Merging(fanout, limit)


class Table:
    """Rows by number: key, time, whether they live, and whether they have had a partner."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(1)
        self.keys, self.live, self.matched = np.empty(0, np.int64), np.empty(0, bool), np.empty(0, bool)

    def append(self, count: int) -> pa.RecordBatch:
        first = len(self.keys)
        keys = self._random.integers(0, KEYS, count)
        self.keys = np.concatenate([self.keys, keys])
        self.live = np.concatenate([self.live, np.ones(count, bool)])
        self.matched = np.concatenate([self.matched, np.zeros(count, bool)])
        numbers = pa.array(np.arange(first, first + count))
        return KEY.sorted(KEY.coded(pa.record_batch({"key": pa.array(keys), "time": numbers})))


def of(number: int) -> pa.RecordBatch:
    return KEY.coded(pa.record_batch({"key": pa.array([number])}))


@cases(18)
@given(history=histories(), restart=st.booleans())
def test_segments_are_as_a_table_of_rows(history: tuple[list[TableBatch], Merging], *, restart: bool) -> None:
    """Every row lives, and has had a partner, as a table has it, whatever merges; segments stay sorted, and
    none that was merged is larger than it may be."""
    batches, merging = history
    table = Table()
    with tempfile.TemporaryDirectory() as directory, merging.limits():
        store = SegmentStore(MemoryBlobs(), Path(directory))
        segments = SegmentList(store, KEY, "time")
        for number, batch in enumerate(batches):
            segments.append(table.append(batch.rows), batch_number=number)
            for segment, _, j in segments.find(KEY.keys(of(batch.matched))):
                segment.match(j)
            table.matched |= table.live & (table.keys == batch.matched)
            segments.remove(KEY.keys(of(batch.gone)))
            oldest = int(np.argmax(table.live)) + batch.expired
            segments.expire(oldest)
            table.live &= (table.keys != batch.gone) & (np.arange(len(table.live)) >= oldest)
            segments.maintain()
            if restart:
                saved = manifest.save({"rows": segments}, {})
                segments = SegmentList(store, KEY, "time")
                manifest.load(saved, {"rows": segments})
            require_same(segments, table, merging, max(each.rows for each in batches))


def require_same(segments: SegmentList, table: Table, merging: Merging, largest: int) -> None:
    found = np.full(len(table.keys), -1)
    for segment in segments.segments:
        rows = segment.live_batch()
        numbers = np.asarray(rows.column("time"))
        assert (found[numbers] == -1).all()
        found[numbers] = segment.live_matched()
        assert (np.asarray(rows.column("key")) == table.keys[numbers]).all()
        assert (np.diff(KEY.keys(rows).codes) >= 0).all()
        assert segment.rows <= max(merging.rows, largest)
    assert (found == np.where(table.live, table.matched, -1)).all()
    assert segments.rows == table.live.sum()


@cases(9)
@given(history=histories())
def test_rows_that_merge_are_combined(history: tuple[list[TableBatch], Merging]) -> None:
    """Where rows of a key become one, as those of groups do, nothing of their sum is lost."""
    batches, merging = history
    table = Table()
    with tempfile.TemporaryDirectory() as directory, merging.limits():
        store = SegmentStore(MemoryBlobs(), Path(directory))
        segments = SegmentList(store, KEY, merge=_summed)
        for batch in batches:
            segments.append(_summed(table.append(batch.rows)))
            segments.maintain()
        pieces = pa.Table.from_batches([segment.live_batch() for segment in segments.segments])

    sums = pieces.group_by("key").aggregate([("time", "sum")]).to_pylist()
    numbers = np.arange(len(table.keys))
    assert {row["key"]: row["time_sum"] for row in sums} == {
        key: numbers[table.keys == key].sum() for key in np.unique(table.keys).tolist()
    }


def _summed(rows: pa.RecordBatch) -> pa.RecordBatch:
    names = [name for name in rows.schema.names if name != "time"]
    grouped = pa.Table.from_batches([rows]).group_by(names, use_threads=False).aggregate([("time", "sum")])
    (batch,) = grouped.rename_columns([*names, "time"]).combine_chunks().to_batches()
    return KEY.sorted(batch)

"""First rows, against their definition: one row at a time, one partition at a time."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.stream_join.first_rows import Deduplication, FirstRows
from endmark.operators.stream_join.key_promises import KeyPromises
from endmark.punctuation.pattern import Between
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.cases import cases

TYPES = {"key": pa.int64(), "note": pa.string()}


class Row(NamedTuple):
    key: int
    note: str | None
    partition: int
    offset: int
    time: int


def table(rows: list[Row]) -> pa.RecordBatch:
    places = dict.fromkeys(("s_partition", "s_offset"), pa.int64()) | {"s_time": pa.timestamp("us", "UTC")}
    kinds = {f"s_{name}": kind for name, kind in TYPES.items()} | places
    columns = [
        pa.array(list(column), kind)
        for column, kind in zip(zip(*rows, strict=True), kinds.values(), strict=True)
    ]
    return pa.record_batch(columns, names=list(kinds))


def first_rows(directory: Path, within: int | None, *, noted: bool) -> FirstRows:
    spec = Deduplication("once", ("s_note",) if noted else (), within)
    place = ("s_partition", "s_offset", "s_time")
    return FirstRows(spec, KeySpec(("s_key",)), place, SegmentStore(MemoryBlobs(), directory))


def passing(rows: list[Row], within: int | None, *, noted: bool) -> list[bool]:
    """Return which rows pass, by the definition. Equal coordinates in a row mean the same record."""
    passed: dict[tuple[object, ...], Row] = {}
    found: dict[tuple[int, int], bool] = {}
    for row in rows:
        if (row.partition, row.offset) in found:
            continue
        value = (row.key, row.note if noted else "", row.partition)
        last = passed.get(value)
        passes = last is None or (within is not None and row.time > last.time + within)
        found[row.partition, row.offset] = passes
        if passes:
            passed[value] = row
    return [found[row.partition, row.offset] for row in rows]


@st.composite
def histories(draw: st.DrawFn) -> list[Row]:
    rows = []
    for offset in range(draw(st.integers(1, 60))):
        key, note = draw(st.integers(0, 2)), draw(st.sampled_from([None, "", "a"]))
        time = offset // 2 + draw(st.integers(-6, 3))
        rows += [Row(key, note, draw(st.integers(0, 1)), offset, time)] * draw(st.sampled_from([1, 1, 1, 2]))
    return rows


@cases(15)
@given(histories(), st.sampled_from([None, 0, 1, 4]), st.booleans(), st.data())
def test_first_rows_equal_their_definition(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[Row],
    within: int | None,
    noted: bool,
    data: st.DataObject,
) -> None:
    """Whatever the batches, and the order of rows in a batch."""
    kept = first_rows(tmp_path_factory.mktemp("state"), within, noted=noted)
    size = data.draw(st.integers(1, len(rows)))
    expected = dict(zip(rows, passing(rows, within, noted=noted), strict=True))
    cut = next((at for at in range(size, len(rows)) if rows[at].offset != rows[at - 1].offset), len(rows))

    for batch in (rows[:cut], rows[cut:]):
        if batch:
            shuffled = data.draw(st.permutations(batch))
            assert kept.admit(table(shuffled)).tolist() == [expected[row] for row in shuffled]
            kept.passed.maintain()

    values = {(row.key, row.note if noted else "", row.partition) for row in rows}
    assert kept.passed.rows == len(values)


def test_a_long_chain_of_first_rows_takes_few_rounds(tmp_path: Path) -> None:
    """A hot value passes again and again within one batch."""
    rows = [Row(1, None, 0, at, at) for at in range(100_000)]

    passes = first_rows(tmp_path, 1, noted=False).admit(table(rows))

    assert passes.tolist() == [at % 2 == 0 for at in range(100_000)]


@pytest.mark.parametrize("noted", [False, True])
def test_time_frees_values(tmp_path: Path, noted: bool) -> None:
    """A row that is as new as progress may still be a duplicate."""
    kept = first_rows(tmp_path, 4, noted=noted)
    kept.admit(table([Row(1, "a", 0, 0, 10), Row(2, "a", 0, 1, 11)]))

    kept.expire(14)
    assert kept.passed.rows == 2
    kept.expire(15)
    assert kept.passed.rows == 1


@pytest.mark.parametrize("noted", [False, True])
def test_closed_keys_free_values(tmp_path: Path, noted: bool) -> None:
    """All values of a key, in all partitions, by its name or by a pattern."""
    kept = first_rows(tmp_path, None, noted=noted)
    kept.admit(table([Row(key, note, 0, key, 0) for key, note in enumerate("aabb")]))

    kept.close(pa.record_batch({"key": pa.array([1, 7])}), None)
    assert kept.passed.rows == 3
    promises = KeyPromises("s", KeySpec(("key",)), [pa.int64()], 1)
    promises.add([Punctuation.of("s", {"key": Between(2, None)}, Origin(0, 9))])
    kept.close(None, promises)
    assert kept.passed.rows == 1
    kept.expire(1 << 60)
    assert kept.passed.rows == 1

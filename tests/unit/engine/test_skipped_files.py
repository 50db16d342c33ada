"""Readers skip files by their statistics, and lose no row by that."""

from __future__ import annotations

import operator
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from endmark.driver.table_log import TableLog
from endmark.engine.delta_files import FileTable, write_files
from support.cases import cases

LONG = "z" * 40
GREATEST = "\U0010ffff"
VALUES: Mapping[str, tuple[pa.DataType, list[Any]]] = {
    "open": (pa.bool_(), [True, False]),
    "id": (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    "score": (pa.float64(), [-1.5, 0.0, 1e300, float("inf"), float("-inf"), float("nan")]),
    "name": (pa.string(), ["", "a", "å" * 33, LONG, LONG + "z", GREATEST * 33, "z" * 32 + GREATEST * 2]),
    "price": (pa.decimal128(38, 2), [Decimal("-0.01"), Decimal("123456789012345678901234567890123456.78")]),
    "day": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    "at": (
        pa.timestamp("us", "UTC"),
        [datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)],
    ),
    "raw": (pa.binary(), [b"", b"\xff" * 40]),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in VALUES.items()])
ROWS = st.lists(
    st.fixed_dictionaries({name: st.sampled_from([None, *values]) for name, (_, values) in VALUES.items()}),
    min_size=1,
    max_size=3,
)
Compared = Callable[[Any, Any], Any]
COMPARISONS = [operator.eq, operator.lt, operator.ge]


def table_of(directory: str, files: list[list[dict[str, Any]]]) -> DeltaTable:
    """A table with some files, and the rows of each."""
    path = Path(directory)
    DeltaTable.create(directory, SCHEMA)
    table = FileTable(path, SCHEMA)
    log = TableLog(table, (), "app")
    for number, rows in enumerate(files):
        log.commit(write_files(table, pa.Table.from_pylist(rows, SCHEMA)), number)
    return DeltaTable(directory)


@pytest.mark.parametrize("column", VALUES)
@cases(30)
@given(files=st.lists(ROWS, min_size=1, max_size=3), data=st.data())
def test_a_filter_finds_each_row(column: str, files: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    compared = data.draw(st.sampled_from(COMPARISONS))
    kind, values = VALUES[column]
    # Nobody asks for NaN: Arrow says of the file of 1.0 that it is less, and of 1.0 that it is not.
    asked = [each for each in values if str(each) != "nan"]
    value = pa.scalar(data.draw(st.sampled_from(asked)), kind)
    rows = pa.Table.from_pylist([row for file in files for row in file], SCHEMA)
    condition = compared(pc.field(column), value)

    with tempfile.TemporaryDirectory() as directory:
        dataset = table_of(directory, files).to_pyarrow_dataset()

        assert dataset.to_table(filter=condition).num_rows == rows.filter(condition).num_rows
        for is_null in (pc.field(column).is_null(), pc.field(column).is_valid()):
            assert dataset.to_table(filter=is_null).num_rows == rows.filter(is_null).num_rows


def test_duckdb_finds_each_row() -> None:
    """DuckDB hands its conditions to the dataset, and what that skips it never sees."""
    rows = [
        {"id": number, "open": number % 2 == 0, "name": name, "score": score}
        for number, (name, score) in enumerate([("a", 1.0), (LONG, 2.0), ("b", float("nan"))])
    ]
    with tempfile.TemporaryDirectory() as directory, duckdb.connect() as connection:
        connection.register("found", table_of(directory, [rows]).to_pyarrow_dataset())

        def ids(condition: str) -> list[int]:
            found = connection.execute(f"SELECT id FROM found WHERE {condition} ORDER BY id")  # noqa: S608
            return [number for (number,) in found.fetchall()]

        assert ids("open") == [0, 2]
        assert ids("NOT open") == [1]
        assert ids("name > 'a'") == [1, 2]
        assert ids("name = 'b'") == [2]
        assert ids("score < 5") == [0, 1]


def test_a_file_without_such_rows_is_skipped() -> None:
    """Its fragment is none of those that a filter leaves."""
    low, high = {"id": 1, "name": "a"}, {"id": 2, "name": LONG}
    with tempfile.TemporaryDirectory() as directory:
        dataset = table_of(directory, [[low], [high]]).to_pyarrow_dataset()

        assert len([*dataset.get_fragments(pc.field("id") == 2)]) == 1
        assert len([*dataset.get_fragments(pc.field("name") > "b")]) == 1
        assert len([*dataset.get_fragments(pc.field("name") > LONG + "zz")]) == 1
        assert [*dataset.get_fragments(pc.field("name") > "{")] == []

"""Partitions of Delta tables: a file for each, whose values every reader reads back as they were written."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from endmark.driver.checkpoint import claimed
from endmark.driver.table_log import TableLog
from endmark.engine.delta_files import write_files
from endmark.engine.delta_partitions import codes
from endmark.spark.tables import Target, prepare

KINDS = {
    "text": pa.string(),
    "number": pa.int64(),
    "exact": pa.decimal128(38, 0),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "open": pa.bool_(),
}
VALUES: dict[str, list[Any]] = {
    "text": [
        "/",
        "a=b",
        "..",
        "%2F",
        "a b+c",
        " ",
        'ü"\\\n\x01:*?',
        "\x00",
        "null",
        "__HIVE_DEFAULT_PARTITION__",
        "x" * 300,
        "1",
        "2026-01-02",
        None,
    ],
    "number": [-(2**63), -1, 0, 2**63 - 1, None],
    "exact": [Decimal(10) ** 20, -(Decimal(10) ** 20), Decimal(0), Decimal(-1), None],
    "day": [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31), None],
    "at": [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
        None,
    ],
    "open": [True, False, None],
}


def partitioned_by(directory: Path, *columns: str) -> Target:
    schema = pa.schema([("id", pa.int64()), *((column, KINDS[column]) for column in columns)])
    target = Target("rows", directory / "rows", schema, partition_by=columns)
    with claimed(directory / "checkpoint"):
        prepare({"rows": target}, "app", directory / "checkpoint")
    return target


@pytest.mark.parametrize("column", KINDS)
def test_values_are_read_back_as_they_were_written(tmp_path: Path, column: str) -> None:
    """By delta-rs and by DuckDB; one who asks for a value opens its file alone."""
    target = partitioned_by(tmp_path, column)
    rows = [{"id": number, column: value} for number, value in enumerate(2 * VALUES[column])]

    files = write_files(target.files(), pa.Table.from_pylist(rows, target.schema))
    TableLog(target.files(), (), "app").commit(files, 0)

    assert len(files) == len(VALUES[column])
    table = DeltaTable(str(target.path))
    dataset = table.to_pyarrow_dataset()
    assert sorted(dataset.to_table().to_pylist(), key=lambda row: row["id"]) == rows
    scanned = pa.table(table.scan()).cast(target.schema)
    assert sorted(scanned.to_pylist(), key=lambda row: row["id"]) == rows
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = connection.execute("FROM dataset ORDER BY id").to_arrow_table().cast(target.schema)
        assert found.to_pylist() == rows
        for value in VALUES[column]:
            [(same,)] = connection.execute(
                "SELECT list(id ORDER BY id) FROM dataset WHERE COLUMNS(?) IS NOT DISTINCT FROM ?",
                [column, value],
            ).fetchall()
            assert same == [row["id"] for row in rows if row[column] == value]


def test_an_empty_text_is_null(tmp_path: Path) -> None:
    """As Delta's protocol has it: no value of a partition is empty."""
    target = partitioned_by(tmp_path, "text")
    rows = pa.table({"id": [1, 2, 3], "text": ["", None, "a"]}, schema=target.schema)

    TableLog(target.files(), (), "app").commit(write_files(target.files(), rows), 0)

    found = DeltaTable(str(target.path)).to_pyarrow_table().sort_by("id")
    assert found["text"].to_pylist() == [None, None, "a"]


def test_the_log_says_what_a_file_holds(tmp_path: Path) -> None:
    """Statistics of the columns that are in it, and the values of those that are not."""
    target = partitioned_by(tmp_path, "text", "open")
    rows = pa.table(
        {"id": [3, 1, 2, 7], "text": ["b", "b", "a", "b"], "open": [True, True, None, False]},
        schema=target.schema,
    )

    files = write_files(target.files(), rows)

    found = {tuple(file["partition"].items()): json.loads(file["stats"]) for file in files}
    assert found == {
        (("text", text), ("open", is_open)): {
            "numRecords": count,
            "minValues": {"id": least},
            "maxValues": {"id": most},
            "nullCount": {"id": 0},
        }
        for text, is_open, count, least, most in [
            ("b", "true", 2, 1, 3),
            ("a", None, 1, 2, 2),
            ("b", "false", 1, 7, 7),
        ]
    }


@given(
    st.lists(
        st.tuples(*(st.sampled_from(VALUES[column]) for column in ("text", "number", "open"))), max_size=30
    )
)
def test_rows_have_one_number_if_they_are_equal(rows: list[tuple[Any, ...]]) -> None:
    names = ["text", "number", "open"]
    schema = pa.schema([(name, KINDS[name]) for name in names])
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)

    numbers = codes(table, names).tolist()

    assert len(set(zip(numbers, rows, strict=True))) == len(set(numbers)) == len(set(rows))


@pytest.mark.parametrize("columns", [(), ("text",)])
def test_no_rows_make_no_file(tmp_path: Path, columns: tuple[str, ...]) -> None:
    target = partitioned_by(tmp_path, *columns)
    assert write_files(target.files(), target.schema.empty_table()) == []

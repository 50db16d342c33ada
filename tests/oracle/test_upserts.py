"""Upserts into a Delta table: after each batch, a reader finds each key once, with its newest row."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from endmark.driver.checkpoint import claimed
from endmark.driver.table_log import TableLog
from endmark.engine.delta_files import write_files
from endmark.spark.tables import Target, prepare
from support.cases import cases
from support.upserted_table import SCHEMA, Row, UpsertedTable


@st.composite
def batches(draw: st.DrawFn) -> list[list[Row]]:
    """Changes of groups, none of which goes on behind its last row."""
    ended: set[tuple[int, str]] = set()
    found = []
    for batch in range(draw(st.integers(1, 12))):
        keys = draw(st.sets(st.tuples(st.integers(0, 12), st.sampled_from(["a", "b"])), max_size=8))
        rows = []
        for item, shop in sorted(keys - ended):
            final = draw(st.booleans())
            ended |= {(item, shop)} if final else set()
            country = draw(st.sampled_from(["de", "x/=y", None]))
            row = item, shop, draw(st.integers(0, 9)), country, final, batch
            rows.append(dict(zip(SCHEMA.names, row, strict=True)))
        found.append(rows)
    return found


CUSTOMERS = pa.schema([("number", pa.int64()), ("name", pa.string()), ("country", pa.string())])
Changes = dict[int, Row | None]


class Customers:
    """A table of customers, whose newest rows are upserted and some of whose keys are deleted."""

    def __init__(self, directory: Path, *partition_by: str) -> None:
        self.target = Target(
            "latest:customers", directory / "customers", CUSTOMERS, partition_by=partition_by, key=("number",)
        )
        with claimed(directory / "checkpoint"):
            prepare({"customers": self.target}, "app", directory / "checkpoint")

    def files(self, changes: Changes) -> tuple[list[Any], list[Any]]:
        """The entries of the files that two tasks write, of rows and of deleted keys."""
        (deleted_table,) = self.target.deleted_files().values()
        rows = [row for row in changes.values() if row is not None]
        gone = [{"number": key} for key, row in changes.items() if row is None]
        written = [
            [
                entry
                for share in (of[::2], of[1::2])
                for entry in write_files(table, pa.Table.from_pylist(share, table.schema))
            ]
            for of, table in ((rows, self.target.files()), (gone, deleted_table))
        ]
        return written[0], written[1]

    def commit(self, changes: Changes, batch: int) -> None:
        rows, deleted = self.files(changes)
        TableLog(self.target.files(), self.target.key, "app").commit(rows, batch, deleted)

    def rows(self) -> list[Row]:
        found: list[Row] = DeltaTable(str(self.target.path)).to_pyarrow_table().to_pylist()
        return sorted(found, key=lambda row: row["number"])


@st.composite
def customers(draw: st.DrawFn) -> list[Changes]:
    """Batches of changes, the newest of each key."""
    found = []
    for batch in range(draw(st.integers(1, 12))):
        keys = draw(st.sets(st.integers(0, 12), max_size=8))
        changes: Changes = {}
        for key in sorted(keys):
            row = {
                "number": key,
                "name": f"of {batch}",
                "country": draw(st.sampled_from(["de", "x/=y", None])),
            }
            changes[key] = None if draw(st.integers(0, 3)) == 0 else row
        found.append(changes)
    return found


@cases(18, among=60)
@given(
    batches=customers(),
    partition_by=st.sampled_from([(), ("country",)]),
    full=st.sampled_from([1, 5, 50_000]),
    attempts=st.lists(st.sampled_from(["once", "lost", "repeated"]), min_size=12, max_size=12),
)
def test_a_deleted_key_has_no_row(
    batches: list[Changes], partition_by: tuple[str, ...], full: int, attempts: list[str]
) -> None:
    """All others have their newest row, if attempts at a batch are lost or repeated."""
    expected: dict[int, Row] = {}
    with tempfile.TemporaryDirectory() as directory, patch("endmark.engine.upsert._FULL_ROWS", full):
        table = Customers(Path(directory), *partition_by)
        for number, (changes, attempt) in enumerate(zip(batches, attempts, strict=False)):
            if not changes:
                continue
            if attempt == "lost":
                table.files(changes)
            for _ in range(2 if attempt == "repeated" else 1):
                table.commit(changes, number)
            known = expected | changes
            expected = {key: row for key, row in known.items() if row is not None}

            assert table.rows() == [expected[key] for key in sorted(expected)]


@cases(18, among=60)
@given(
    batches=batches(),
    partition_by=st.sampled_from([(), ("country",), ("shop",), ("country", "item")]),
    full=st.sampled_from([1, 5, 50_000]),
    attempts=st.lists(st.sampled_from(["once", "lost", "repeated"]), min_size=12, max_size=12),
)
def test_each_key_has_its_newest_row(
    batches: list[list[Row]], partition_by: tuple[str, ...], full: int, attempts: list[str]
) -> None:
    """The table has one row of each key, the newest, if an attempt at a batch is lost before it is committed,
    and if a batch comes again afterwards. No file of final groups is ever replaced."""
    expected: dict[tuple[int, str], Row] = {}
    final: set[str] = set()
    with tempfile.TemporaryDirectory() as directory, patch("endmark.engine.upsert._FULL_ROWS", full):
        table = UpsertedTable(Path(directory), *partition_by)
        for number, (rows, attempt) in enumerate(zip(batches, attempts, strict=False)):
            if not rows:
                continue
            if attempt == "lost":
                table.write(rows)
            for _ in range(2 if attempt == "repeated" else 1):
                table.upsert(rows, number)
            expected |= {(row["item"], row["shop"]): row for row in rows}

            assert table.rows() == [expected[key] for key in sorted(expected)]
            assert final <= (final := set(table.files(final=True)))

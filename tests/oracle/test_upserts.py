"""Upserts into a Delta table: after each batch, a reader finds each key once, with its newest row."""

from __future__ import annotations

import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

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


@cases(60, among=60)
@given(
    batches=batches(),
    partition_by=st.sampled_from([(), ("country",), ("shop",), ("country", "item")]),
    full=st.sampled_from([1, 5, 500_000]),
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

"""Evaluates the conditions of a pipeline file as they are written, in a DuckDB of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import duckdb
import pyarrow as pa

from endmark.errors import ConfigError
from endmark.verify.session import Session, name, names

BATCH_ROWS = 20_000
_ROW = "#row"  # no other column has this name


def keep_where(session: Session, table: str, columns: Sequence[str], written: str, field: str) -> None:
    """Make `<table>_kept`: the rows of a table for which a condition is true.

    A condition that fails on a row is not true for it. The optimizer is off, since its knowledge of some rows
    would decide whether the condition fails on others.

    Args:
        session: the session that has the table.
        table: the name of the table, without quotes.
        columns: the columns that the condition may name.
        written: the condition in SQL, as the pipeline file has it.
        field: the field of the pipeline file that has the condition, for the error.

    Raises:
        ConfigError: the text is no condition over these columns.
    """
    duck = alone()
    reader = session.batches(
        'SELECT rowid AS "#row", $columns FROM $table',
        BATCH_ROWS,
        columns=names(columns),
        table=name(table),
    )
    try:
        condition = duckdb.SQLExpression(f"({written}\n) IS TRUE")
        duckdb.SQLExpression(written)  # refuses two expressions, which are a row in parentheses
        duck.from_arrow(reader.schema.empty_table()).filter(duckdb.SQLExpression(f"({written}\n)")).fetchall()
    except duckdb.Error as error:
        raise ConfigError(f"{field}: {error}") from error
    kept = [row for rows in reader for row in _rows_where(duck, rows, condition)]
    found = pa.table({_ROW: pa.array(kept, pa.int64())})
    session.run_on(
        found,
        'CREATE TABLE $kept AS SELECT t.* FROM $table t SEMI JOIN arriving k ON t.rowid = k."#row"',
        kept=name(f"{table}_kept"),
        table=name(table),
    )


@cache
def alone() -> duckdb.DuckDBPyConnection:
    """Open a database for the expressions of a pipeline file, which evaluates them as they are written.

    It keeps no table, and opening one takes 13 ms. So a process has one.
    """
    duck = duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False})
    duck.execute("SET TimeZone = 'UTC'")
    duck.execute("PRAGMA disable_optimizer")
    return duck


def _rows_where(
    duck: duckdb.DuckDBPyConnection, rows: pa.RecordBatch, condition: duckdb.Expression
) -> Iterator[int]:
    """The numbers of the rows for which the condition is true.

    A batch on which the condition fails is halved, until each row on which it fails stands alone.
    """
    if rows.num_rows == 0:
        return
    try:
        holds = duck.from_arrow(pa.Table.from_batches([rows])).select(condition).to_arrow_table().column(0)
    except duckdb.Error:
        if (half := rows.num_rows // 2) == 0:
            return
        yield from _rows_where(duck, rows.slice(0, half), condition)
        yield from _rows_where(duck, rows.slice(half), condition)
    else:
        yield from rows.column(_ROW).filter(holds.combine_chunks()).to_pylist()

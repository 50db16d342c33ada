"""Conditions of a pipeline file, by a DuckDB of their own that evaluates them as they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa

from endmark.errors import ConfigError
from endmark.verify.session import Session, name, names

BATCH_ROWS = 20_000
_ROW = "#row"  # no column is named so


def keep_where(session: Session, table: str, columns: Sequence[str], written: str, field: str) -> None:
    """Make `<table>_kept`: the rows of a table of which a condition is true.

    It is not true of a row on which it fails. The optimizer is off, since what it knows of some rows would
    decide whether the condition fails on others.

    Args:
        session: the database that has the table.
        table: the table's name, without quotes.
        columns: the columns that the condition may name.
        written: the condition in SQL, as the pipeline file has it.
        field: where the condition stands in the pipeline file, for the message.

    Raises:
        ConfigError: it is no condition over these columns.
    """
    with duckdb.connect(config={"threads": 1, "autoinstall_known_extensions": False}) as alone:
        alone.execute("SET TimeZone = 'UTC'")
        alone.execute("PRAGMA disable_optimizer")
        reader = session.batches(
            'SELECT rowid AS "#row", $columns FROM $table',
            BATCH_ROWS,
            columns=names(columns),
            table=name(table),
        )
        try:
            condition = duckdb.SQLExpression(f"({written}\n) IS TRUE")
            duckdb.SQLExpression(written)  # which refuses two expressions in the parentheses
            alone.from_arrow(reader.schema.empty_table()).filter(
                duckdb.SQLExpression(f"({written}\n)")
            ).fetchall()
        except duckdb.Error as error:
            raise ConfigError(f"{field}: {error}") from error
        kept = [row for rows in reader for row in _rows_where(alone, rows, condition)]
    found = pa.table({_ROW: pa.array(kept, pa.int64())})
    session.run_on(
        found,
        'CREATE TABLE $kept AS SELECT t.* FROM $table t SEMI JOIN arriving k ON t.rowid = k."#row"',
        kept=name(f"{table}_kept"),
        table=name(table),
    )


def _rows_where(
    alone: duckdb.DuckDBPyConnection, rows: pa.RecordBatch, condition: duckdb.Expression
) -> Iterator[int]:
    """The rows of which the condition is true. A batch on which it fails is halved, down to single rows."""
    if rows.num_rows == 0:
        return
    try:
        holds = alone.from_arrow(pa.Table.from_batches([rows])).select(condition).to_arrow_table().column(0)
    except duckdb.Error:
        if (half := rows.num_rows // 2) == 0:
            return
        yield from _rows_where(alone, rows.slice(0, half), condition)
        yield from _rows_where(alone, rows.slice(half), condition)
    else:
        yield from rows.column(_ROW).filter(holds.combine_chunks()).to_pylist()

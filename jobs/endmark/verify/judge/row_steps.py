"""Applies a stream's row steps to its rows, in a DuckDB of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from endmark.domain import Domain
from endmark.expressions.row_steps import RowStep
from endmark.pipeline import COORDINATES, Pipeline
from endmark.types import ColumnType
from endmark.verify.judge.conditions import BATCH_ROWS, alone
from endmark.verify.session import Session, fill, name

FILTERED = "filtered"
_FAILED = "failed"
_ROW, _FATE = "#row", "#fate"  # no column has one of these names

_OWN = 'CREATE TABLE $own AS SELECT row_number() OVER () AS "#row", * FROM $rows'

_FATES = """
CREATE TABLE $failed AS SELECT $partition AS "partition", $offset AS "offset"
FROM $own o JOIN arriving s USING ("#row") WHERE s."#fate" = 'failed'
"""

_STEPPED = """
CREATE OR REPLACE TABLE $rows AS
SELECT o.$partition, o.$offset, s."#fate" IS NOT NULL AS "#filtered", $columns
FROM $own o JOIN arriving s USING ("#row") WHERE s."#fate" IS DISTINCT FROM 'failed'
"""

_KEPT_OWN = "(FROM $own o SEMI JOIN $rows r ON o.$partition = r.$partition AND o.$offset = r.$offset)"

# A derived value must be one that a record could bring. The expression fails otherwise.
FIT = {
    Domain.DOUBLE: "isfinite($value)",
    Domain.DATE: "$value BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'",
    Domain.TIMESTAMP: "$value BETWEEN TIMESTAMPTZ '0001-01-01 00:00:00+00' "
    "AND TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'",
}


def step_rows(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Make `failed_<stream>`, and put rows behind row steps into `rows_<stream>`.

    `failed_<stream>` has the places of the rows on which an expression failed. The others stay in
    `rows_<stream>`, with the columns behind the steps. Derived columns are null in a filtered row.
    If the stream has row steps, `own_<stream>` has all rows with the stream's own columns.

    Args:
        session: the session.
        pipeline: the pipeline.
        stream: the name of the stream.
    """
    partition, offset = (name(f"{stream}_{coordinate}") for coordinate in COORDINATES)
    places = {"partition": partition, "offset": offset}
    tables = {part: name(f"{part}_{stream}") for part in ("rows", "own", "failed")}
    steps = pipeline.row_steps_of(stream)
    if not steps:
        session.run('CREATE TABLE $failed ("partition" BIGINT, "offset" BIGINT)', failed=tables["failed"])
        return
    session.run(_OWN, **tables)
    own = pipeline.streams[stream].columns
    untouched = [column for column in own if all(_keeps(step, column) for step in steps)]
    arriving = _arriving(
        session,
        steps,
        {column: kind for column, kind in steps[-1].columns.items() if column not in untouched},
        'SELECT "#row", $columns FROM $own',
        own=tables["own"],
        columns=", ".join(f"{name(f'{stream}_{column}')} AS {name(column)}" for column in own),
    )
    columns = [
        f"o.{shown}" if column in untouched else f"s.{name(column)} AS {shown}"
        for column in steps[-1].columns
        for shown in (name(f"{stream}_{column}"),)
    ]
    session.run_on(arriving, _FATES, **tables, **places)
    session.run_on(arriving, _STEPPED, columns=", ".join(columns), **tables, **places)


def rows_behind(session: Session, steps: Sequence[RowStep], table: str, columns: Sequence[str]) -> pa.Table:
    """Return the `rowid` of each row of a table as `#row`, its `#fate` behind row steps, and derived columns.

    A row that is left has no fate. Derived columns are null in the others.

    Args:
        session: the session that has the table.
        steps: the row steps, over the columns of the table.
        table: the name of the table.
        columns: the columns in front of the steps.
    """
    derived = {column for step in steps for column in step.derived}
    return _arriving(
        session,
        steps,
        {column: kind for column, kind in steps[-1].columns.items() if column in derived},
        'SELECT rowid AS "#row", $columns FROM $table',
        table=name(table),
        columns=", ".join(map(name, columns)),
    )


def _arriving(
    session: Session, steps: Sequence[RowStep], derived: Mapping[str, ColumnType], rows: str, **parts: str
) -> pa.Table:
    """Return the number and the fate of rows behind row steps, and some columns there.

    Args:
        session: the session.
        steps: the row steps.
        derived: the columns to return.
        rows: the SQL of the rows with their `#row`.
        parts: the fragments of `rows`.
    """
    schema = pa.schema(
        [
            (_ROW, pa.int64()),
            (_FATE, pa.string()),
            *((column, kind.arrow) for column, kind in derived.items()),
        ]
    )
    reader = session.batches(rows, BATCH_ROWS, **parts)
    duck = alone()
    found = [_through(duck, steps, pa.Table.from_batches([batch]), schema) for batch in reader]
    return pa.concat_tables([schema.empty_table(), *found])


def own_rows(pipeline: Pipeline, stream: str) -> str:
    """Return the SQL of a table with the stream's own columns of the rows in `rows_<stream>`."""
    if not pipeline.row_steps_of(stream):
        return name(f"rows_{stream}")
    partition, offset = (name(f"{stream}_{coordinate}") for coordinate in COORDINATES)
    tables = {part: name(f"{part}_{stream}") for part in ("own", "rows")}
    return fill(_KEPT_OWN, partition=partition, offset=offset, **tables)


def _keeps(step: RowStep, column: str) -> bool:
    """Return whether a column goes through a step as it is."""
    return column in step.columns and column not in step.derived


def _through(
    duck: duckdb.DuckDBPyConnection, steps: Sequence[RowStep], rows: pa.Table, schema: pa.Schema
) -> pa.Table:
    """Return the number, the fate and the derived columns of each row; a row that is left has no fate.

    Args:
        duck: the database that evaluates the expressions.
        steps: the row steps.
        rows: the rows in front of the steps, with their numbers.
        schema: the columns to return.
    """
    fates: dict[int, str] = {}
    for step in steps:
        rows, lost = _step(duck, step, rows)
        fates |= lost
    others = pa.Table.from_pylist([{_ROW: row, _FATE: fate} for row, fate in fates.items()], schema)
    left = rows.append_column(_FATE, pa.nulls(rows.num_rows, pa.string())).select(schema.names)
    return pa.concat_tables([left, others])


def _step(duck: duckdb.DuckDBPyConnection, step: RowStep, rows: pa.Table) -> tuple[pa.Table, dict[int, str]]:
    """Return the rows behind one step, and the fates of the others by their number."""
    fates: dict[int, str] = {}
    if step.where is not None:
        holds, failed = _values(duck, rows, f"({step.where.text}\n) IS TRUE", ColumnType.BOOLEAN)
        fates = _numbered(rows, [not each for each in holds.to_pylist()], FILTERED)
        fates |= _numbered(rows, failed, _FAILED)
        rows = _without(rows, fates)
    chosen = {column: rows.column(column) for column in rows.column_names}
    lost: dict[int, str] = {}
    for column, derivation in step.derived.items():
        kind = derivation.kind
        value = f"CAST(({derivation.expression.text}\n) AS {kind.duckdb})"
        if kind.domain in FIT:
            fit = fill(FIT[kind.domain], value=value)
            value = f"CASE WHEN coalesce({fit}, true) THEN {value} ELSE error('unfit') END"
        chosen[column], failed = _values(duck, rows, value, kind)
        lost |= _numbered(rows, failed, _FAILED)
    behind = pa.table({column: chosen[column] for column in (_ROW, *step.columns)})
    return _without(behind, lost), fates | lost


def _numbered(rows: pa.Table, those: Sequence[bool], fate: str) -> dict[int, str]:
    """Return the fate of some rows by their number, given a mask of them."""
    return {row: fate for row, one in zip(rows.column(_ROW).to_pylist(), those, strict=True) if one}


def _without(rows: pa.Table, lost: Mapping[int, str]) -> pa.Table:
    return rows.filter(pa.array([row not in lost for row in rows.column(_ROW).to_pylist()], pa.bool_()))


def _values(
    duck: duckdb.DuckDBPyConnection, rows: pa.Table, expression: str, kind: ColumnType
) -> tuple[pa.ChunkedArray, list[bool]]:
    """Return the value of an expression for each row, and a mask of the rows on which it fails.

    Rows on which the expression fails are halved, until each such row stands alone.
    """
    if rows.num_rows == 0:
        return pa.chunked_array([], kind.arrow), []
    try:
        found = duck.from_arrow(rows).select(duckdb.SQLExpression(expression)).to_arrow_table().column(0)
    except duckdb.Error:
        if (half := rows.num_rows // 2) == 0:
            return pa.chunked_array([pa.nulls(1, kind.arrow)]), [True]
        parts = [_values(duck, part, expression, kind) for part in (rows.slice(0, half), rows.slice(half))]
        chunks = [chunk for values, _ in parts for chunk in values.chunks]
        return pa.chunked_array(chunks, kind.arrow), [each for _, failed in parts for each in failed]
    return found, [False] * rows.num_rows

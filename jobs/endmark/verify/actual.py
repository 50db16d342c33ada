"""What is there: the Delta tables, read without Spark."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable
from deltalake.schema import ArrayType, DataType

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.session import Session, name, names

_OTHER_TYPES = {"integer": "INTEGER", "binary": "BLOB"}  # that Delta has, but no stream
_COORDINATES = {"topic": "string", "partition": "integer", "offset": "long"}
DEAD_LETTERS = _COORDINATES | {"reason": "string", "error": "string", "value": "binary"}
PROMISE = {"promise": "string", "promise_partition": "integer", "promise_offset": "long"}
VIOLATIONS = _COORDINATES | {"reason": "string", "event_time": "timestamp", "record": "string"} | PROMISE
PUNCTUATIONS = {"punctuation": "string", "completed_by": "string"}

_FILL = """
UPDATE actual_violations a
SET promise = coalesce(a.promise, e.promise),
    promise_partition = coalesce(a.promise_partition, e.promise_partition),
    promise_offset = coalesce(a.promise_offset, e.promise_offset)
FROM expected_violations e
WHERE a.topic = e.topic AND a."partition" = e."partition" AND a."offset" = e."offset"
"""


def load_tables(session: Session, pipeline: Pipeline, warehouse: Path) -> dict[str, str | None]:
    """Make `actual_results`, `actual_groups`, `actual_running`, `actual_dead_letters`, `actual_violations`
    and `actual_punctuations`.

    A table that does not exist has no rows. Returns, per table, what is wrong with its columns, or None; a
    table with other columns than it should have is not read. There are no groups without an aggregate, nor
    running ones unless it says so.
    """
    groups = {column: str(kind) for column, kind in pipeline.group_columns().items()}
    running = {column: str(kind) for column, kind in pipeline.running_columns().items()}
    schemas = {
        "results": {column: str(kind) for column, kind in pipeline.result_columns().items()},
        **({"groups": groups} if groups else {}),
        **({"running": running} if running else {}),
        "dead_letters": DEAD_LETTERS,
        "violations": VIOLATIONS,
        "punctuations": PUNCTUATIONS,
    }
    paths = {table: warehouse / path for table, path in pipeline.tables.model_dump().items()}
    return {
        table: _load(session, f"actual_{table}", paths[table], columns) for table, columns in schemas.items()
    }


def fill_promises(session: Session, pipeline: Pipeline, warehouse: Path) -> None:
    """Where an earlier version has written violations, which could not say what they broke, take what is not
    said from `expected_violations`."""
    if _was_extended(warehouse / pipeline.tables.violations):
        session.run(_FILL)


def _was_extended(path: Path) -> bool:
    """Whether columns came after the first rows, as the job notes beside each of them."""
    if not DeltaTable.is_deltatable(str(path)):
        return False
    return any("comment" in field.metadata for field in DeltaTable(str(path)).schema().fields)


def _load(session: Session, table: str, path: Path, columns: dict[str, str]) -> str | None:
    defined = ", ".join(f"{name(column)} {_duckdb(kind)}" for column, kind in columns.items())
    session.run("CREATE TABLE $table ($defined)", table=name(table), defined=defined)
    if not DeltaTable.is_deltatable(str(path)):
        return None
    delta = DeltaTable(str(path))
    found = {field.name: _said(field.type) for field in delta.schema().fields}
    if list(found.items()) != list(columns.items()):
        return f"has the columns {_listed(found)}, but should have {_listed(columns)}"
    session.run_on(
        delta.to_pyarrow_dataset(),
        "INSERT INTO $table SELECT $columns FROM arriving",
        table=name(table),
        columns=names(list(columns)),
    )
    return None


def _said(kind: DataType) -> str:
    return f"array<{_said(kind.element_type)}>" if isinstance(kind, ArrayType) else str(kind.type)


def _duckdb(kind: str) -> str:
    if kind.startswith("array<"):
        return f"{_duckdb(kind[len('array<') : -1])}[]"
    return _OTHER_TYPES.get(kind) or ColumnType.parse(kind).duckdb


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{column} {kind}" for column, kind in columns.items())

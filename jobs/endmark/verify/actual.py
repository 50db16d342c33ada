"""What is there: the Delta tables, read without Spark."""

from __future__ import annotations

from pathlib import Path

from deltalake import DeltaTable

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.session import Session, name, names

_OTHER_TYPES = {"integer": "INTEGER", "binary": "BLOB"}  # that Delta has, but no stream
_COORDINATES = {"topic": "string", "partition": "integer", "offset": "long"}
DEAD_LETTERS = _COORDINATES | {"reason": "string", "error": "string", "value": "binary"}
VIOLATIONS = _COORDINATES | {"reason": "string", "event_time": "timestamp", "record": "string"}


def load_tables(session: Session, pipeline: Pipeline, warehouse: Path) -> dict[str, str | None]:
    """Make `actual_results`, `actual_groups`, `actual_dead_letters` and `actual_violations`.

    A table that does not exist has no rows. Returns, per table, what is wrong with its columns, or None; a
    table with other columns than it should have is not read. There are no groups without an aggregate.
    """
    groups = {column: str(kind) for column, kind in pipeline.group_columns().items()}
    schemas = {
        "results": {column: str(kind) for column, kind in pipeline.result_columns().items()},
        **({"groups": groups} if groups else {}),
        "dead_letters": DEAD_LETTERS,
        "violations": VIOLATIONS,
    }
    paths = pipeline.tables.model_dump()
    return {
        table: _load(session, f"actual_{table}", warehouse / paths[table], columns)
        for table, columns in schemas.items()
    }


def _load(session: Session, table: str, path: Path, columns: dict[str, str]) -> str | None:
    defined = ", ".join(f"{name(column)} {_duckdb(kind)}" for column, kind in columns.items())
    session.run("CREATE TABLE $table ($defined)", table=name(table), defined=defined)
    if not DeltaTable.is_deltatable(str(path)):
        return None
    delta = DeltaTable(str(path))
    found = {field.name: str(getattr(field.type, "type", field.type)) for field in delta.schema().fields}
    if list(found.items()) != list(columns.items()):
        return f"has the columns {_listed(found)}, but should have {_listed(columns)}"
    session.run_on(
        delta.to_pyarrow_dataset(),
        "INSERT INTO $table SELECT $columns FROM arriving",
        table=name(table),
        columns=names(list(columns)),
    )
    return None


def _duckdb(kind: str) -> str:
    return _OTHER_TYPES.get(kind) or ColumnType.parse(kind).duckdb


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{column} {kind}" for column, kind in columns.items())

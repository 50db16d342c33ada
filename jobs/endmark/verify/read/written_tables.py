"""Reads the Delta tables that the job has written, without Spark."""

from __future__ import annotations

from deltalake.schema import ArrayType, DataType

from endmark.pipeline import Pipeline
from endmark.pipeline.tables import OWNER, SINCE
from endmark.storage import Location, delta_table, reaching
from endmark.types import ColumnType
from endmark.verify.read.added_columns import AddedColumns
from endmark.verify.session import Session, array, name, names, text

_OTHER_TYPES = {"integer": "INTEGER", "binary": "BLOB"}  # Delta has these types, but no stream has
_COORDINATES = {"topic": "string", "partition": "integer", "offset": "long"}
DEAD_LETTERS = _COORDINATES | {"reason": "string", "error": "string", "value": "binary"}
PROMISE = {"promise": "string", "promise_partition": "integer", "promise_offset": "long"}
VIOLATIONS = _COORDINATES | {"reason": "string", "event_time": "timestamp", "record": "string"} | PROMISE
PUNCTUATIONS = {"punctuation": "string", "completed_by": "string"}


_SPELL = """
UPDATE actual_violations
SET record = CASE WHEN json_valid(record) THEN json(record)::VARCHAR ELSE record END
"""

# The members are those of the present file, in its order. A column that is younger than the row is null.
_ORDER = """
UPDATE actual_violations SET record = json_object($members)::VARCHAR
WHERE topic = ? AND json_valid(record) AND json_type(record) = 'OBJECT'
    AND list_has_all($columns, json_keys(record)) AND list_has_all(json_keys(record), $always)
"""


def load_tables(session: Session, pipeline: Pipeline, warehouse: Location) -> dict[str, str | None]:
    """Load each Delta table into `actual_<table>`, such as `actual_results`.

    A table that does not exist has no rows. `results`, `groups`, `running` and those of further steps are
    loaded if the pipeline writes them. A table with wrong columns stays empty.

    Args:
        session: the session that gets the tables.
        pipeline: the pipeline.
        warehouse: the directory of the Delta tables.

    Returns:
        For each loaded table the problem with its columns, or `None`.
    """
    schemas = {
        **{
            role: {column: str(kind) for column, kind in pipeline.outputs.columns_of(role).items()}
            for role in pipeline.outputs.tables_by_role
        },
        "dead_letters": DEAD_LETTERS,
        "violations": VIOLATIONS,
        "punctuations": PUNCTUATIONS,
    }
    paths = {table: warehouse / path for table, path in pipeline.outputs.directories.items()}
    return {
        table: _load(session, f"actual_{table}", paths[table], columns) for table, columns in schemas.items()
    }


def first_batches(pipeline: Pipeline, warehouse: Location) -> dict[str, int]:
    """Return the first batch of each table that is younger than its checkpoint, by the kind of its rows."""
    found = {}
    for role, directory in pipeline.outputs.directories.items():
        delta = delta_table(warehouse / directory)
        if delta is not None and (since := delta.metadata().configuration.get(SINCE)) is not None:
            found[role] = int(since)
    return found


def checkpoint_id(pipeline: Pipeline, warehouse: Location) -> str | None:
    """Return the id of the checkpoint that writes the tables; `None` if no table says it."""
    deltas = (delta_table(warehouse / directory) for directory in pipeline.outputs.directories.values())
    owners = (delta.metadata().configuration.get(OWNER) for delta in deltas if delta is not None)
    return next((owner for owner in owners if owner is not None), None)


def spell_records(session: Session, pipeline: Pipeline, added: AddedColumns) -> None:
    """Spell the records of `actual_violations` as DuckDB writes JSON, like the expected ones."""
    session.run(_SPELL)
    for stream, declared in pipeline.streams.items():
        columns = list(pipeline.stream_columns(pipeline.flow.taker_of(stream)))
        members = (f"{text(column)}, json_extract(record, {text(f'/{column}')})" for column in columns)
        session.run(
            _ORDER,
            [declared.topic],
            members=", ".join(members),
            columns=array(columns),
            always=array(column for column in columns if column not in added.columns(stream)),
        )


def _load(session: Session, table: str, path: Location, columns: dict[str, str]) -> str | None:
    defined = ", ".join(f"{name(column)} {_duckdb(kind)}" for column, kind in columns.items())
    session.run("CREATE TABLE $table ($defined)", table=name(table), defined=defined)
    if (delta := delta_table(path)) is None:
        return None
    found = {field.name: _type_name(field.type) for field in delta.schema().fields}
    if found != columns:
        return f"has the columns {_listed(found)}, but should have {_listed(columns)}"
    with reaching(path):
        session.run_on(
            delta.to_pyarrow_dataset(),
            "INSERT INTO $table SELECT $columns FROM arriving",
            table=name(table),
            columns=names(list(columns)),
        )
    return None


def _type_name(kind: DataType) -> str:
    return f"array<{_type_name(kind.element_type)}>" if isinstance(kind, ArrayType) else str(kind.type)


def _duckdb(kind: str) -> str:
    if kind.startswith("array<"):
        return f"{_duckdb(kind[len('array<') : -1])}[]"
    return _OTHER_TYPES.get(kind) or ColumnType.parse(kind).duckdb


def _listed(columns: dict[str, str]) -> str:
    return ", ".join(f"{column} {kind}" for column, kind in columns.items())

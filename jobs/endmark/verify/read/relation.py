"""Reads the part of R that a stream asks for, through SQLAlchemy into DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from endmark.databases import database_url, require_files, shown_url
from endmark.domain import Domain
from endmark.errors import ConfigError, MissingPartError
from endmark.pipeline import Lookup, Pipeline, Relation
from endmark.pipeline.lookup_columns import Column
from endmark.relation.backend import backend_of
from endmark.relation.queries import quoted
from endmark.types import ColumnType
from endmark.verify.session import Session, fill, name

CHUNK_ROWS = 50_000

_SQL_TYPES: dict[Domain, type[sa.types.TypeEngine[Any]]] = {
    Domain.LONG: sa.BigInteger,
    Domain.DOUBLE: sa.Double,
    Domain.STRING: sa.String,
    Domain.BOOLEAN: sa.Boolean,
    Domain.DATE: sa.Date,
    Domain.TIMESTAMP: sa.DateTime,
}

_IN_UTC = {"mysql": "SET time_zone = '+00:00'", "postgresql": "SET TIME ZONE 'UTC'"}

_ASKED = "CREATE OR REPLACE TABLE $asked AS $all"

_ASKING = "SELECT DISTINCT $key FROM $rows"

_KEEP = """
INSERT INTO $relation BY NAME SELECT * FROM arriving $asked
"""

_REPEATED = """
SELECT $key, count(*) AS times FROM $relation WHERE $present GROUP BY $key HAVING count(*) > 1 LIMIT 1
"""


def load_relations(session: Session, pipeline: Pipeline) -> None:
    """Make `relation_<relation>` for each lookup.

    The table has R's columns as `<relation>_<column>`. It has the rows whose keys `rows_<stream>` has (for a
    union, those of its members), or the relations by whose columns R is asked. If a key has columns of
    several of them, any values go together. A column that a row step behind a join or a lookup derives
    restricts nothing.

    Raises:
        MissingPartError: the database or the table cannot be read.
        ConfigError: a value is not of its column's declared type, or a key of a `many_to_one` lookup repeats.
    """
    for lookup in pipeline.lookups:
        _load(session, pipeline, lookup)


def _load(session: Session, pipeline: Pipeline, lookup: Lookup) -> None:
    relation = pipeline.relations[lookup.relation]
    table = name(f"relation_{lookup.relation}")
    columns = {f"{lookup.relation}_{column}": kind for column, kind in relation.columns.items()}
    asked = _asked(session, pipeline, lookup)
    session.create(f"relation_{lookup.relation}", columns)
    for chunk in _chunks(relation, lookup.relation):
        session.run_on(chunk, _KEEP, asked=asked, relation=table)
    if lookup.cardinality == "many_to_many":
        return
    distinct = [*relation.key, *([] if lookup.as_of is None else [lookup.as_of.relation])]
    columns_of_one = [name(f"{lookup.relation}_{column}") for column in distinct]
    present = " AND ".join(f"{column} IS NOT NULL" for column in columns_of_one)
    for repeated in session.run(_REPEATED, relation=table, key=", ".join(columns_of_one), present=present):
        times = repeated.pop("times")
        shown = ", ".join(
            f"{column}={value}" for column, value in zip(distinct, repeated.values(), strict=True)
        )
        raise ConfigError(
            f"relations.{lookup.relation}: key {shown} occurs {times} times in table {relation.table!r}, "
            "but a row has one match at most"
        )


def _asked(session: Session, pipeline: Pipeline, lookup: Lookup) -> str:
    """Make tables of the values by which R is asked; return joins that keep the rows with these values."""
    joins = []
    for origin in sorted({column.origin for column in pipeline.asked_by(lookup).key}):
        columns = [column.name for column in pipeline.asked_by(lookup).key if column.origin == origin]
        if origin not in pipeline.relations and not _are_read(pipeline, origin, columns):
            continue  # a row step behind a join or a lookup derives a column, of which no value is known yet
        pairs = [
            (column.name, name(f"{lookup.relation}_{theirs}"))
            for column, theirs in _pairs(pipeline, lookup)
            if column.origin == origin
        ]
        table, key = name(f"asked_{origin}"), ", ".join(theirs for _, theirs in pairs)
        # The rows of a union are made later, from those of its members.
        kind = "relation" if origin in pipeline.relations else "rows"
        asking = [
            fill(
                _ASKING,
                key=", ".join(f"{name(f'{member}_{ours}')} AS {theirs}" for ours, theirs in pairs),
                rows=name(f"{kind}_{member}"),
            )
            for member in pipeline.flow.members_of(origin)
        ]
        session.run(_ASKED, asked=table, all=" UNION ".join(asking))
        joins.append(f"SEMI JOIN {table} USING ({key})")
    return " ".join(joins)


def _are_read(pipeline: Pipeline, stream: str, columns: Sequence[str]) -> bool:
    return stream in pipeline.inputs and set(columns) <= pipeline.stream_columns(stream).keys()


def lookup_key(pipeline: Pipeline, lookup: Lookup) -> list[tuple[str, str]]:
    """Return pairs of a column by which R is asked and the matching one of R, as tables name them."""
    return [
        (name(column.in_results), name(f"{lookup.relation}_{theirs}"))
        for column, theirs in _pairs(pipeline, lookup)
    ]


def _pairs(pipeline: Pipeline, lookup: Lookup) -> list[tuple[Column, str]]:
    asked, key = pipeline.asked_by(lookup), pipeline.relations[lookup.relation].key
    return list(zip(asked.key, key, strict=True))


def _chunks(relation: Relation, prefix: str) -> Iterator[pa.Table]:
    wanted = [sa.column(quoted(column), _sql_type(kind)) for column, kind in relation.columns.items()]
    backend = backend_of(relation.url)
    url = database_url(relation.url, f"relations.{prefix}.url")
    require_files(url, f"relations.{prefix}.url")
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            if utc := _IN_UTC.get(backend):
                connection.execute(sa.text(utc))
            query = sa.select(*wanted).select_from(sa.table(quoted(relation.table)))
            result = connection.execute(query, execution_options={"stream_results": True})
            for rows in result.partitions(CHUNK_ROWS):
                yield _to_arrow(list(zip(*rows, strict=True)), relation, prefix)
    except sa.exc.SQLAlchemyError as error:
        # The error shows `orig` alone, since the full text may hold the password of the URL.
        cause = getattr(error, "orig", None) or error
        raise MissingPartError(
            f"relations.{prefix}: cannot read table {relation.table!r} at {shown_url(engine.url)}: {cause}"
        ) from error
    except (ValueError, TypeError) as error:
        # SQLAlchemy reads SQLite's dates from text while it fetches rows.
        raise ConfigError(
            f"relations.{prefix}: table {relation.table!r} holds a value that is not of its column's "
            f"declared type: {error}"
        ) from error
    finally:
        engine.dispose()


def _sql_type(kind: ColumnType) -> sa.types.TypeEngine[Any]:
    if kind.domain is Domain.DECIMAL:
        return sa.Numeric(kind.precision, kind.scale)
    return _SQL_TYPES[kind.domain]()


def _to_arrow(values: list[Any], relation: Relation, prefix: str) -> pa.Table:
    arrays = {}
    for (column, kind), cells in zip(relation.columns.items(), values, strict=True):
        try:
            arrays[f"{prefix}_{column}"] = pa.array(cells, kind.arrow)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise ConfigError(
                f"relations.{prefix}.columns.{column}: table {relation.table!r} holds a value that is no "
                f"{kind}: {error}"
            ) from error
    return pa.table(arrays)

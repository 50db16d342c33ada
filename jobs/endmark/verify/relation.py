"""Reads R, as far as the stream asks for it, through SQLAlchemy into DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from endmark.errors import ConfigError, MissingPartError
from endmark.pipeline import Pipeline, Relation
from endmark.types import ColumnType, Kind
from endmark.verify.session import Session, name

CHUNK_ROWS = 50_000

_SQL_TYPES: dict[Kind, type[sa.types.TypeEngine[Any]]] = {
    Kind.LONG: sa.BigInteger,
    Kind.DOUBLE: sa.Double,
    Kind.STRING: sa.String,
    Kind.BOOLEAN: sa.Boolean,
    Kind.DATE: sa.Date,
    Kind.TIMESTAMP: sa.DateTime,
}

_ASKED = """
CREATE TABLE asked AS SELECT DISTINCT $key AS key FROM $rows
"""

_KEEP = """
INSERT INTO relation SELECT a.* FROM arriving a SEMI JOIN asked ON a.$key = asked.key
"""

_REPEATED = """
SELECT $key AS key, count(*) AS times FROM relation GROUP BY ALL HAVING count(*) > 1 LIMIT 1
"""


def load_relation(session: Session, pipeline: Pipeline) -> None:
    """Make the table `relation`: R's columns as `<relation>_<column>`, for keys in `rows_<stream>`.

    Raises:
        MissingPartError: the database or the table cannot be read.
        ConfigError: a column is of another type than declared, or the key is not unique.
    """
    lookup = pipeline.lookup
    relation = pipeline.relations[lookup.relation]
    columns = {f"{lookup.relation}_{column}": kind for column, kind in relation.columns.items()}
    key = name(f"{lookup.relation}_{relation.key}")
    session.run(_ASKED, key=name(f"{lookup.stream}_{lookup.key}"), rows=name(f"rows_{lookup.stream}"))
    session.create("relation", columns)
    for chunk in _chunks(relation, lookup.relation):
        session.run_on(chunk, _KEEP, key=key)
    for repeated in session.run(_REPEATED, key=key):
        raise ConfigError(
            f"relations.{lookup.relation}: key {relation.key}={repeated['key']} occurs {repeated['times']} "
            f"times in table {relation.table!r}, but a lookup needs a unique key"
        )


def _chunks(relation: Relation, prefix: str) -> Iterator[pa.Table]:
    wanted = [sa.column(column, _sql_type(kind)) for column, kind in relation.columns.items()]
    engine = sa.create_engine(relation.url)
    try:
        with engine.connect().execution_options(stream_results=True) as connection:
            result = connection.execute(sa.select(*wanted).select_from(sa.table(relation.table)))
            for rows in result.partitions(CHUNK_ROWS):
                yield _to_arrow(list(zip(*rows, strict=True)), relation, prefix)
    except sa.exc.SQLAlchemyError as error:
        # `orig` alone, since the full text may hold what the URL holds.
        cause = getattr(error, "orig", None) or error
        raise MissingPartError(
            f"relations.{prefix}: cannot read table {relation.table!r} at "
            f"{engine.url.render_as_string(hide_password=True)}: {cause}"
        ) from error
    except (ValueError, TypeError) as error:
        # SQLite's dates are text, which SQLAlchemy reads as they are fetched.
        raise ConfigError(
            f"relations.{prefix}: table {relation.table!r} holds a value that is not of its column's "
            f"declared type: {error}"
        ) from error
    finally:
        engine.dispose()


def _sql_type(kind: ColumnType) -> sa.types.TypeEngine[Any]:
    if kind.kind is Kind.DECIMAL:
        return sa.Numeric(kind.precision, kind.scale)
    return _SQL_TYPES[kind.kind]()


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

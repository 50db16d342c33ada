"""Reads the definitions of master tables: their primary keys, and the types of their columns."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from endmark.databases import database_url, shown_url
from endmark.errors import ConfigError, MissingPartError
from endmark.pipeline.sources import Relation
from endmark.relation.backend import backend_of
from endmark.relation.definition import Definition, definition_of
from endmark.relation.fitness import holds, require_fit
from endmark.relation.values import DOUBLE_DIGITS
from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from endmark.relation.backend import Backend
    from endmark.relation.definition import Column

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_BOOLEAN = re.compile(r"bool(ean)?|tinyint\(1\)", re.IGNORECASE)
_DIGITS = re.compile(r"\((\d+)(?:, *(\d+))?\)")
_USUAL = (DOUBLE_DIGITS, 2)  # of SQLite's decimals that say nothing of their digits


@dataclass
class DraftRelation:
    """A relation of the pipeline file.

    Args:
        name: the relation's name.
        table: the table.
        key: the columns of the primary key.
        columns: the types of the columns.
        left_out: the columns that the relation does not have, with the reason.
        unfit: why a job refuses the table as it is, and what mends it; `None` if it does not.
    """

    name: str
    table: str
    key: tuple[str, ...]
    columns: dict[str, ColumnType]
    left_out: dict[str, str]
    unfit: str | None = None

    @property
    def added(self) -> dict[str, ColumnType]:
        """The columns that a lookup adds to rows: all but the key."""
        return {name: kind for name, kind in self.columns.items() if name not in self.key}


def relations_at(url: str, tables: Sequence[str] = ()) -> list[DraftRelation]:
    """Return the tables of a database that can be relations.

    Args:
        url: the URL of the database.
        tables: the tables to read; all of the database if there are none.

    Raises:
        ConfigError: the text is no URL, or a table is missing or has no primary key.
        MissingPartError: the database does not answer, or its driver is not installed.
    """
    parsed = database_url(url, "--database")
    if parsed.get_backend_name() == "sqlite" and parsed.database and not Path(parsed.database).exists():
        raise ConfigError(f"--database: there is no file {parsed.database}; correct the path")
    with _connected(parsed) as connection:
        inspector = sa.inspect(connection)
        there = inspector.get_table_names()
        if views := [table for table in tables if table in inspector.get_view_names()]:
            raise ConfigError(
                f"--tables: {', '.join(views)}: a view has no primary key; leave it out, and declare it by "
                "hand with the columns that identify its rows"
            )
        if missing := [table for table in tables if table not in there]:
            raise ConfigError(
                f"--tables: {shown_url(parsed)} has no table {', '.join(missing)}; there are: "
                f"{', '.join(there) or 'none'}"
            )
        found = [
            _relation(connection, table, inspector.get_pk_constraint(table)["constrained_columns"])
            for table in tables or there
        ]
    if unfit := [each.table for each in found if not each.key and each.table in tables]:
        raise ConfigError(
            f"--tables: {', '.join(unfit)}: there is no primary key of columns that a relation can have; "
            "leave the table out, and declare it by hand with a key that has an index"
        )
    return [each for each in found if each.key]


@contextmanager
def _connected(url: sa.URL) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url)
    try:
        with engine.connect() as connection:
            yield connection
    except (sa.exc.DBAPIError, OSError) as error:
        cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
        raise MissingPartError(
            f"cannot read the tables at {shown_url(url)}: {cause}; start the database, or correct --database"
        ) from error
    finally:
        engine.dispose()


def _relation(connection: sa.Connection, table: str, key: Collection[str]) -> DraftRelation:
    backend = backend_of(connection.engine.url)
    there = definition_of(connection, table) if _NAME.fullmatch(table) else Definition({}, (), is_view=False)
    kinds = {
        name: _kind(column, backend) if _NAME.fullmatch(name) else None
        for name, column in there.columns.items()
    }
    columns = {name: kind for name, kind in kinds.items() if kind is not None}
    able = all(columns.get(name) not in (None, ColumnType.DOUBLE) for name in key)
    left_out = {
        name: f"no type holds {there.columns[name].type}" for name, kind in kinds.items() if kind is None
    }
    found = DraftRelation(table, table, tuple(key) if able else (), columns, left_out)
    if found.key:
        found.unfit = _unfit(found, there, connection)
    return found


def _unfit(found: DraftRelation, there: Definition, connection: sa.Connection) -> str | None:
    """Return why a job refuses a table, such as one whose key has an index by another collation."""
    url = str(connection.engine.url)
    relation = Relation(url=url, table=found.table, key=found.key, columns=found.columns)
    try:
        require_fit(relation, there, connection.dialect)
    except ConfigError as error:
        return str(error)
    return None


def _kind(column: Column, backend: Backend) -> ColumnType | None:
    """Return the type that a relation declares for a column of a table; `None` if no type holds it."""
    kinds = [
        *([ColumnType.BOOLEAN] if _BOOLEAN.fullmatch(column.type) else []),
        ColumnType.LONG,
        ColumnType.DOUBLE,
        ColumnType.STRING,
        ColumnType.TIMESTAMP,
        ColumnType.DATE,
        *_decimal(column.type, backend),
        ColumnType.decimal(20, 0),  # of a BIGINT UNSIGNED, whose type in MySQL names no digits
    ]
    return next((kind for kind in kinds if holds(column, kind, backend)), None)


def _decimal(written: str, backend: Backend) -> list[ColumnType]:
    digits = _DIGITS.search(written)
    precision, scale = (int(digits[1]), int(digits[2] or 0)) if digits else _USUAL
    if backend == "sqlite":  # it keeps doubles, which have no more digits
        precision, scale = min(precision, DOUBLE_DIGITS), min(scale, DOUBLE_DIGITS)
    try:
        return [ColumnType.decimal(precision, scale)]
    except ValueError:
        return []

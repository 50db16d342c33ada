"""Reads the definition of a table: the types of its columns, and its indexes that can find a key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.relation.backend import backend_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_MYSQL_COLUMNS = """
SELECT column_name, column_type, collation_name FROM information_schema.columns
WHERE table_schema = DATABASE() AND table_name = :table ORDER BY ordinal_position
"""
# The name is null for an expression, and for a column of which only the beginning is indexed.
_MYSQL_INDEXES = """
SELECT index_name, non_unique = 0, CASE WHEN sub_part IS NULL THEN column_name END, NULL
FROM information_schema.statistics
WHERE table_schema = DATABASE() AND table_name = :table AND index_type = 'BTREE'
ORDER BY index_name, seq_in_index
"""
# In SQLite and PostgreSQL a statement may choose the collation of a column, but an index has its own.
_SQLITE_COLUMNS = "SELECT name, upper(type), NULL FROM pragma_table_xinfo(:table) ORDER BY cid"
_SQLITE_INDEXES = """
SELECT l.name, l."unique", x.name, upper(x.coll)
FROM pragma_index_list(:table) l, pragma_index_xinfo(l.name) x
WHERE x.key AND NOT l.partial
UNION ALL SELECT '', 1, name, 'BINARY' FROM pragma_table_xinfo(:table) WHERE pk AND upper(type) = 'INTEGER'
    AND (SELECT count(*) FROM pragma_table_xinfo(:table) WHERE pk) = 1
"""
_POSTGRESQL_COLUMNS = """
SELECT attname, format_type(atttypid, atttypmod), NULL FROM pg_attribute
WHERE attrelid = to_regclass(quote_ident(:table)) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
# The name is null for an expression.
_POSTGRESQL_INDEXES = """
SELECT c.relname, i.indisunique, a.attname, l.collname
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam AND m.amname = 'btree'
CROSS JOIN LATERAL unnest(CAST(i.indkey AS int2[]), CAST(i.indcollation AS oid[]))
    WITH ORDINALITY AS k(attribute, collation_id, position)
LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attribute AND k.attribute > 0
LEFT JOIN pg_collation l ON l.oid = k.collation_id
WHERE i.indrelid = to_regclass(quote_ident(:table)) AND i.indisvalid AND i.indpred IS NULL
    AND k.position <= i.indnkeyatts
ORDER BY c.relname, k.position
"""
_COLUMNS = {"sqlite": _SQLITE_COLUMNS, "mysql": _MYSQL_COLUMNS, "postgresql": _POSTGRESQL_COLUMNS}
_INDEXES = {"sqlite": _SQLITE_INDEXES, "mysql": _MYSQL_INDEXES, "postgresql": _POSTGRESQL_INDEXES}
# MariaDB writes how it stores a column behind the type, such as `datetime /* mariadb-5.3 */`.
_COMMENT = re.compile(r" +/\*.*\*/")
_VIEWS = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'view' AND lower(name) = lower(:table)",
    "mysql": "SELECT 1 FROM information_schema.views WHERE table_schema = DATABASE() AND table_name = :table",
    "postgresql": "SELECT 1 FROM pg_class WHERE oid = to_regclass(quote_ident(:table)) AND relkind = 'v'",
}


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Args:
        type: the type as the database writes it; in capitals for SQLite.
        collation: the collation in MySQL and MariaDB; `None` for other databases, and for other types than
            text.
    """

    type: str
    collation: str | None


@dataclass(frozen=True)
class Index:
    """An index by whole columns.

    Args:
        unique: whether no two rows have the same values in `columns`.
        columns: the indexed columns, up to the first expression.
        collations: the collation of each column in the index; `None` for MySQL and MariaDB, and for other
            types than text in PostgreSQL.
    """

    unique: bool
    columns: tuple[str, ...]
    collations: tuple[str | None, ...]


@dataclass(frozen=True)
class Definition:
    """The columns and indexes of a table or view. One that does not exist has no columns."""

    columns: dict[str, Column]
    indexes: tuple[Index, ...]
    is_view: bool

    def finding(self, key: tuple[str, ...]) -> list[Index]:
        """Return the indexes that begin with the columns of the key, in the order of the key."""
        return [index for index in self.indexes if index.columns[: len(key)] == key]

    def is_unique(self, key: tuple[str, ...]) -> bool:
        """Return whether an index ensures that no two rows have the same key."""
        return any(index.unique and set(index.columns) <= set(key) for index in self.indexes)


def columns_of(connection: sa.Connection, table: str) -> dict[str, Column]:
    """Read the columns of a table, by name; none if there is no such table."""
    rows = connection.execute(sa.text(_COLUMNS[backend_of(connection.engine.url)]), {"table": table})
    return {name: Column(_COMMENT.sub("", kind), collation) for name, kind, collation in rows}


def definition_of(connection: sa.Connection, table: str) -> Definition:
    """Read the columns and indexes of a table or view."""
    backend, name = backend_of(connection.engine.url), {"table": table}
    indexes = tuple(_indexes(connection.execute(sa.text(_INDEXES[backend]), name)))
    # A view has no index. Other tables are not asked, since each batch of a job reads the definition.
    is_view = not indexes and connection.execute(sa.text(_VIEWS[backend]), name).first() is not None
    return Definition(columns_of(connection, table), indexes, is_view)


def _indexes(rows: Iterable[Any]) -> Iterable[Index]:
    found: dict[str, list[Any]] = {}
    for name, *column in rows:
        found.setdefault(name, []).append(column)
    for columns in found.values():
        names, collations = [], []
        for _, name, collation in columns:
            if name is None:
                break
            names.append(name)
            collations.append(collation)
        # A part of a unique index is not unique by itself.
        unique = bool(columns[0][0]) and len(names) == len(columns)
        yield Index(unique, tuple(names), tuple(collations))

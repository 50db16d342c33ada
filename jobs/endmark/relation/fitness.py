"""Whether a table can be read as a pipeline file declares it, each value as it is and equal keys as equal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from endmark.errors import ConfigError
from endmark.relation.values import DOUBLE_DIGITS
from endmark.types import Kind

if TYPE_CHECKING:
    import sqlalchemy as sa

    from endmark.pipeline import Relation
    from endmark.relation.definition import Column, Definition
    from endmark.types import ColumnType

# They compare texts by their code points alone, blanks at the end included. MySQL has its own since 8.0.17.
_EXACT_MARIADB, _EXACT_MYSQL = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"

_TEXT = r"(var)?char\(\d+\)|(tiny|medium|long)?text"
_MYSQL: dict[Kind, str] = {
    Kind.LONG: r"(tiny|small|medium)?int(\(\d+\))?( unsigned)?( zerofill)?|bigint(\(\d+\))?",
    Kind.DOUBLE: r"double( unsigned)?",
    Kind.STRING: _TEXT,
    Kind.BOOLEAN: r"tinyint\(1\)",
    Kind.DATE: r"date",
    Kind.TIMESTAMP: r"(datetime|timestamp)(\(\d\))?",
    Kind.DECIMAL: r"decimal\((\d+),(\d+)\)( unsigned)?( zerofill)?",
}
# By SQLite's rules of affinity: what a column makes of the values that are put into it.
_SQLITE: dict[Kind, str] = {
    Kind.LONG: r".*INT.*",
    Kind.DOUBLE: r"(?!.*INT).*(REAL|FLOA|DOUB).*",
    Kind.STRING: r"(?!.*INT).*(CHAR|CLOB|TEXT).*",
    Kind.BOOLEAN: r"BOOL(EAN)?|.*INT.*",
    Kind.DATE: r"DATE|(?!.*INT).*(CHAR|CLOB|TEXT).*",
    Kind.TIMESTAMP: r"DATETIME|TIMESTAMP|(?!.*INT).*(CHAR|CLOB|TEXT).*",
    Kind.DECIMAL: r"(DECIMAL|NUMERIC)(\(\d+(, *\d+)?\))?|REAL|.*DOUBLE.*",
}
_INSTEAD = {
    Kind.LONG: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.STRING: "VARCHAR(n)",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "DATETIME(6)",
}


def exact_collation(dialect: sa.Dialect) -> str:
    """The collation of a server whose connections have this dialect that takes no two keys for one."""
    return _EXACT_MARIADB if getattr(dialect, "is_mariadb", False) else _EXACT_MYSQL


def require_fit(relation: Relation, there: Definition, dialect: sa.Dialect) -> None:
    """
    Args:
        dialect: of a connection to the database.

    Raises:
        ConfigError: a column is missing, or of a type whose values could change on the way; or the key
            has no index, or one that equates different keys. The text says what mends it.
    """
    name, sqlite = f"relation {relation.table!r}", dialect.name == "sqlite"
    if missing := [column for column in relation.columns if column not in there.columns]:
        raise ConfigError(f"{name}: no column {', '.join(missing)}; there are {', '.join(there.columns)}")
    for column, kind in relation.columns.items():
        declared = there.columns[column]
        if not _holds(declared, kind, sqlite=sqlite):
            raise ConfigError(
                f"{name}: column {column!r} is {declared.type or 'of no type'}, which {kind} could not hold "
                f"unchanged; declare it as it is, or make it {_INSTEAD.get(kind.kind, str(kind).upper())}"
            )
        if not sqlite and column in relation.key and kind.kind is Kind.STRING:
            _require_exact(relation, column, declared, exact_collation(dialect))
    _require_index(relation, there, sqlite=sqlite)


def _holds(declared: Column, kind: ColumnType, *, sqlite: bool) -> bool:
    found = re.fullmatch((_SQLITE if sqlite else _MYSQL)[kind.kind], declared.type)
    if not found or kind.kind is not Kind.DECIMAL:
        return found is not None
    if sqlite:
        return kind.precision <= DOUBLE_DIGITS
    digits, scale = int(found[1]), int(found[2])
    return scale <= kind.scale and digits - scale <= kind.precision - kind.scale


def _require_exact(relation: Relation, column: str, declared: Column, exact: str) -> None:
    if declared.collation != exact:
        raise ConfigError(
            f"relation {relation.table!r}: column {column!r} is compared by {declared.collation}, which "
            "takes for one what are several keys, such as 'a' and 'A', or 'a' and 'a '; "
            f"ALTER TABLE {relation.table} MODIFY {column} {declared.type.upper()} CHARACTER SET utf8mb4 "
            f"COLLATE {exact} mends it"
        )


def _require_index(relation: Relation, there: Definition, *, sqlite: bool) -> None:
    indexes = there.finding(relation.key)
    if sqlite:
        indexes = [index for index in indexes if set(index.collations[: len(relation.key)]) == {"BINARY"}]
    if not indexes:
        key = ", ".join(f"{name} COLLATE BINARY" if sqlite else name for name in relation.key)
        raise ConfigError(
            f"relation {relation.table!r}: no index begins with the key, so each page would be looked for in "
            f"the whole table; CREATE INDEX {relation.table}_key ON {relation.table} ({key}) mends it"
        )

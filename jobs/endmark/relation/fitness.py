"""Checks that a table can be read as declared: values do not change, and an index finds each key."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from endmark.domain import DECIMAL_DIGITS, Domain
from endmark.errors import ConfigError
from endmark.relation.backend import backend_of
from endmark.relation.charsets import CHARSETS, charset_of
from endmark.relation.values import DOUBLE_DIGITS

if TYPE_CHECKING:
    import sqlalchemy as sa

    from endmark.pipeline import Relation
    from endmark.relation.backend import Backend
    from endmark.relation.definition import Column, Definition
    from endmark.types import ColumnType

# These collations compare texts by their code points alone, including blanks at the end. MySQL has its own
# since 8.0.17. Under any other one, the database may take different keys for equal, and its order of keys is
# not ours.
_EXACT_MARIADB, _EXACT_MYSQL = "utf8mb4_nopad_bin", "utf8mb4_0900_bin"

# The digits of the greatest BIGINT UNSIGNED, which is beyond a long.
_UNSIGNED_DIGITS = 20
_UNSIGNED = r"bigint(\(\d+\))? unsigned( zerofill)?"
_TEXT = r"(var)?char\(\d+\)|(tiny|medium|long)?text"
_MYSQL: dict[Domain, str] = {
    Domain.LONG: r"(tiny|small|medium)?int(\(\d+\))?( unsigned)?( zerofill)?|bigint(\(\d+\))?",
    Domain.DOUBLE: r"double( unsigned)?",
    Domain.STRING: _TEXT,
    Domain.BOOLEAN: r"tinyint\(1\)",
    Domain.DATE: r"date",
    Domain.TIMESTAMP: r"(datetime|timestamp)(\(\d\))?",
    Domain.DECIMAL: rf"decimal\((\d+),(\d+)\)( unsigned)?( zerofill)?|{_UNSIGNED}",
}
# The database orders or compares these otherwise than their values, so no key has them. It orders an ENUM by
# the places of its texts, compares JSON by its parts, and finds the year 2005 by 5.
_MYSQL_BESIDE_THE_KEY: dict[Domain, str] = {
    Domain.LONG: r"year(\(4\))?",
    Domain.STRING: r"(enum|set)\(.*\)|json",
}
# The patterns follow SQLite's rules of affinity, which say how a column converts the values put into it.
_SQLITE: dict[Domain, str] = {
    Domain.LONG: r".*INT.*",
    Domain.DOUBLE: r"(?!.*INT).*(REAL|FLOA|DOUB).*",
    Domain.STRING: r"(?!.*INT).*(CHAR|CLOB|TEXT).*",
    Domain.BOOLEAN: r"BOOL(EAN)?|.*INT.*",
    Domain.DATE: r"DATE|(?!.*INT).*(CHAR|CLOB|TEXT).*",
    Domain.TIMESTAMP: r"DATETIME|TIMESTAMP|(?!.*INT).*(CHAR|CLOB|TEXT).*",
    Domain.DECIMAL: r"(DECIMAL|NUMERIC)(\(\d+(, *\d+)?\))?|REAL|.*DOUBLE.*",
}
_POSTGRESQL: dict[Domain, str] = {
    Domain.LONG: r"smallint|integer|bigint",
    Domain.DOUBLE: r"double precision",
    Domain.STRING: r"text|character varying(\(\d+\))?",
    Domain.BOOLEAN: r"boolean",
    Domain.DATE: r"date",
    Domain.TIMESTAMP: r"timestamp(\(\d\))? with(out)? time zone",
    Domain.DECIMAL: r"numeric\((\d+),(\d+)\)",
}
_TYPES = {"sqlite": _SQLITE, "mysql": _MYSQL, "postgresql": _POSTGRESQL}
# The collations that compare texts by their bytes. Statements name them in SQLite and PostgreSQL; in MySQL
# the columns must have such a collation themselves.
_COLLATIONS = {"sqlite": "BINARY", "postgresql": "C"}
_INSTEAD: dict[Domain, str] = {
    Domain.LONG: "BIGINT",
    Domain.DOUBLE: "DOUBLE",
    Domain.STRING: "VARCHAR(n)",
    Domain.BOOLEAN: "BOOLEAN",
    Domain.DATE: "DATE",
    Domain.TIMESTAMP: "DATETIME(6)",
}
_INSTEAD_IN_POSTGRESQL = {
    Domain.DOUBLE: "DOUBLE PRECISION",
    Domain.STRING: "TEXT",
    Domain.TIMESTAMP: "TIMESTAMP",
}


def exact_collation(dialect: sa.Dialect) -> str:
    """Return the collation of MySQL or MariaDB under which different texts always differ."""
    return _EXACT_MARIADB if getattr(dialect, "is_mariadb", False) else _EXACT_MYSQL


def compared_by(relation: Relation, backend: Backend) -> dict[str, str]:
    """Return the collations that statements name for key columns, whatever collation the table has."""
    if backend not in _COLLATIONS:
        return {}
    texts = [name for name in relation.key if relation.columns[name].domain is Domain.STRING]
    return dict.fromkeys(texts, _COLLATIONS[backend])


def require_fit(relation: Relation, there: Definition, dialect: sa.Dialect) -> None:
    """Refuse a table that cannot be read as the pipeline declares it.

    Args:
        relation: the declaration of the table in the pipeline file.
        there: the columns and indexes that the table has in the database.
        dialect: the dialect of a connection to the database, which tells MariaDB from MySQL.

    Raises:
        ConfigError: a column is missing, or has a type whose values could change on the way. Or the key has
            no index, or a character set that is not known. The text says what mends it.
    """
    name, backend = f"relation {relation.table!r}", backend_of(relation.url)
    if missing := [column for column in relation.columns if column not in there.columns]:
        raise ConfigError(
            f"{name}: no column {', '.join(missing)}; there are {', '.join(there.columns)}; give the table "
            "the columns that the file declares, and start the job again"
        )
    for column, kind in relation.columns.items():
        declared = there.columns[column]
        if not holds(declared, kind, backend):
            raise ConfigError(
                f"{name}: column {column!r} is {declared.type or 'of no type'}, which {kind} could not hold "
                f"unchanged; {_advice(declared, backend)}make it {_instead(kind, backend)}"
            )
        if column in relation.key and _fits_beside_the_key(declared, kind, backend):
            raise ConfigError(
                f"{name}: column {column!r} of the key is {declared.type}, which the database orders or "
                f"compares otherwise than its values; make it {_instead(kind, backend)}, or name another key"
            )
        if backend == "mysql" and column in relation.key and kind.domain is Domain.STRING:
            _require_charset(relation, column, declared, exact_collation(dialect))
    if not there.is_view:
        _require_index(relation, there, backend)


def folded(relation: Relation, there: Definition, dialect: sa.Dialect) -> dict[str, str]:
    """Return the collations of key columns that MySQL or MariaDB does not compare by their bytes.

    The database may take different texts of such a column for equal, such as 'a' and 'A', or 'a' and 'a '.

    Args:
        relation, there, dialect: the arguments of `require_fit`.
    """
    exact = exact_collation(dialect)
    collations = {name: there.columns[name].collation for name in relation.key if name in there.columns}
    return {name: each for name, each in collations.items() if each is not None and each != exact}


def why_unpaged(relation: Relation, there: Definition, dialect: sa.Dialect) -> str | None:
    """Return why a relation is read by lists of keys alone, and what mends it; `None` if it has pages.

    Args:
        relation, there, dialect: the arguments of `require_fit`.
    """
    name = f"relation {relation.table!r}"
    if there.is_view:
        return f"{name} is a view, which is read by lists of keys alone; name its table instead to read pages"
    if not (collations := folded(relation, there, dialect)):
        return None
    columns = ", ".join(f"{column!r} by {collation}" for column, collation in collations.items())
    changes = ", ".join(
        _made_exact(column, there.columns[column], exact_collation(dialect)) for column in collations
    )
    return (
        f"{name} is read by lists of keys alone, since the database compares column {columns}, whose order "
        f"of keys is not known here; ALTER TABLE {relation.table} {changes} brings pages back"
    )


def holds(declared: Column, kind: ColumnType, backend: Backend) -> bool:
    """Return whether a column of a table can be declared as a type, so that no value changes on the way."""
    if _fits_beside_the_key(declared, kind, backend):
        return True
    found = re.fullmatch(_TYPES[backend][kind.domain], declared.type)
    if not found or kind.domain is not Domain.DECIMAL:
        return found is not None
    if backend == "sqlite":
        return kind.precision <= DOUBLE_DIGITS
    digits, scale = (int(found[1]), int(found[2])) if found[1] else (_UNSIGNED_DIGITS, 0)
    return scale <= kind.scale and digits - scale <= kind.precision - kind.scale


def _fits_beside_the_key(declared: Column, kind: ColumnType, backend: Backend) -> bool:
    """Return whether a column can be declared as a type beside the key, and in no key."""
    pattern = _MYSQL_BESIDE_THE_KEY.get(kind.domain) if backend == "mysql" else None
    return pattern is not None and re.fullmatch(pattern, declared.type, re.DOTALL) is not None


def _advice(declared: Column, backend: Backend) -> str:
    """Return how the column can be declared, as the beginning of an advice; empty if no type can hold it."""
    if backend == "mysql" and re.fullmatch(_UNSIGNED, declared.type):
        return f"declare it decimal({_UNSIGNED_DIGITS},0), or "
    decimal = re.fullmatch(r"(?:decimal|numeric)\((\d+),\d+\)[a-z ]*", declared.type)
    if decimal and int(decimal[1]) > DECIMAL_DIGITS:
        return ""
    patterns = [*_TYPES[backend].values(), *(_MYSQL_BESIDE_THE_KEY.values() if backend == "mysql" else ())]
    known = any(re.fullmatch(pattern, declared.type, re.DOTALL) for pattern in patterns)
    return "declare it as it is, or " if known else ""


def _instead(kind: ColumnType, backend: Backend) -> str:
    instead = _INSTEAD | (_INSTEAD_IN_POSTGRESQL if backend == "postgresql" else {})
    return instead.get(kind.domain, str(kind).upper())


def _require_charset(relation: Relation, column: str, declared: Column, exact: str) -> None:
    charset = charset_of(declared.collation or exact)
    if charset not in CHARSETS:
        raise ConfigError(
            f"relation {relation.table!r}: column {column!r} has the character set {charset}, so it is not "
            f"known which texts the database would refuse to look for; a key may have {', '.join(CHARSETS)}; "
            f"ALTER TABLE {relation.table} {_made_exact(column, declared, exact)} mends it"
        )


def _made_exact(column: str, declared: Column, exact: str) -> str:
    """Return the change of a column, for ALTER TABLE, after which different texts always differ."""
    return f"MODIFY {column} {declared.type.upper()} CHARACTER SET utf8mb4 COLLATE {exact}"


def _require_index(relation: Relation, there: Definition, backend: Backend) -> None:
    compared = compared_by(relation, backend)
    if any(
        all(
            index.collations[at] == compared.get(name, index.collations[at])
            for at, name in enumerate(relation.key)
        )
        for index in there.finding(relation.key)
    ):
        return
    key = ", ".join(
        f'{name} COLLATE "{compared[name]}"' if name in compared else name for name in relation.key
    )
    raise ConfigError(
        f"relation {relation.table!r}: no index begins with the key, so each page would be looked for in "
        f"the whole table; CREATE INDEX {relation.table}_key ON {relation.table} ({key}) mends it"
    )

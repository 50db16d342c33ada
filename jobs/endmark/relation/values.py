"""Converts columns between Arrow and a database driver, without rounding, cutting or guessing."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from endmark.domain import Domain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from endmark.relation.backend import Backend
    from endmark.types import ColumnType

# SQLite keeps decimals as doubles. All decimals of up to 15 digits are different doubles.
DOUBLE_DIGITS = 15


class NotOfTypeError(ValueError):
    """A value is not of its column's declared type."""


def from_driver(values: Sequence[Any], kind: ColumnType, backend: Backend) -> pa.Array:
    """Make a column of a driver's values, in which `None` becomes null: 5 M numbers or 10 M strings a second.

    Args:
        values: the values of one column.
        kind: the column's type.
        backend: the kind of database.

    Raises:
        NotOfTypeError: a value is not exactly one of `kind`.
    """
    if backend == "mysql" and kind.domain is Domain.DECIMAL:
        # Integers are those of a BIGINT UNSIGNED. Arrow would make no array of 1 and 2^63.
        values = [Decimal(value) if type(value) is int else value for value in values]
    try:
        return _read(values, kind, backend)
    except (pa.ArrowException, OverflowError, NotOfTypeError) as error:
        # Arrow's errors often name no value, and a column of two types has one error for all values.
        if (wrong := next((each for each in values if not _is_read(each, kind, backend)), None)) is None:
            raise NotOfTypeError(f"a value is no {kind}: {error}") from error
        raise NotOfTypeError(f"{wrong!r} is no {kind}") from error


def _read(values: Sequence[Any], kind: ColumnType, backend: Backend) -> pa.Array:
    read, given = _READ_OTHERWISE[backend].get(kind.domain, _READ[kind.domain])
    # Arrow first chooses the type by the values, since pa.array(values, int64) would cut 1.5 to 1.
    column = pa.array(values)
    if pa.types.is_null(column.type):
        return column.cast(kind.arrow)
    if not any(fits(column.type) for fits in given):
        raise NotOfTypeError(f"it has values of type {column.type}")
    return read(column, kind)


def _is_read(value: Any, kind: ColumnType, backend: Backend) -> bool:
    try:
        _read([value], kind, backend)
    except (pa.ArrowException, OverflowError, NotOfTypeError):
        return False
    return True


def from_text(column: pa.Array, kind: ColumnType) -> pa.Array:
    """Make a column of the text that MySQL and MariaDB send.

    Raises:
        NotOfTypeError: a text is not exactly one of `kind`.
    """
    try:
        return _WRITTEN.get(kind.domain, _cast)(column, kind)
    except pa.ArrowException as error:
        raise NotOfTypeError(f"a value is no {kind}: {error}") from error


def to_driver(column: pa.Array, kind: ColumnType, backend: Backend) -> list[Any]:
    """Return the values of a key column as parameters that compare like the database's own values.

    Args:
        column: the key column.
        kind: the column's type.
        backend: the kind of database.
    """
    if kind.domain is Domain.TIMESTAMP:
        column = column.cast(pa.timestamp("us"))  # drivers would write a time zone, which no column has
    if backend == "sqlite" and kind.domain in (Domain.DATE, Domain.TIMESTAMP):
        column = column.cast(pa.string())
    if backend == "sqlite" and kind.domain is Domain.DECIMAL:
        column = column.cast(pa.string()).cast(pa.float64())
    values: list[Any] = column.to_pylist()
    return values


def _cast(column: pa.Array, kind: ColumnType) -> pa.Array:
    return column.cast(kind.arrow)


def _truth(column: pa.Array, kind: ColumnType) -> pa.Array:
    truth = column.cast(pa.bool_())
    return _same(column, truth.cast(column.type), truth, kind)


def _in_calendar(
    read: Callable[[pa.Array, ColumnType], pa.Array], column: pa.Array, kind: ColumnType
) -> pa.Array:
    """Read texts of times, and refuse those before the year 1, which no table can have."""
    if len(early := pc.filter(column, pc.starts_with(column, "0000"))):
        raise NotOfTypeError(f"{early[0].as_py()!r} is no {kind}")
    return read(column, kind)


def _utc(column: pa.Array, kind: ColumnType) -> pa.Array:
    return pc.assume_timezone(column.cast(pa.timestamp("us")), "UTC").cast(kind.arrow)


def _counted(column: pa.Array, kind: ColumnType) -> pa.Array:
    # The way through text is exact; Arrow's own conversion can be off by one bit.
    decimals = column.cast(pa.float64()).cast(pa.string()).cast(kind.arrow)
    return _same(column, decimals.cast(pa.string()).cast(pa.float64()), decimals, kind)


def _same(given: pa.Array, again: pa.Array, read: pa.Array, kind: ColumnType) -> pa.Array:
    """Return `read`, and refuse values that the conversion has changed.

    Args:
        given: the values before the conversion.
        again: the converted values, converted back.
        read: the converted values.
        kind: the type of the column, for the error.
    """
    changed = pc.filter(given, pc.not_equal(given, again))
    if len(changed):
        raise NotOfTypeError(f"{changed[0].as_py()!r} is no {kind}")
    return read


_Reading = tuple["Callable[[pa.Array, ColumnType], pa.Array]", "Sequence[Callable[[pa.DataType], bool]]"]
# For each kind of column, the function that converts it, and the Arrow types that the driver's values may
# have.
_READ: dict[Domain, _Reading] = {
    Domain.LONG: (_cast, [pa.types.is_int64]),
    Domain.DOUBLE: (_cast, [pa.types.is_float64]),
    Domain.STRING: (_cast, [pa.types.is_string]),
    Domain.BOOLEAN: (_truth, [pa.types.is_int64]),
    Domain.DATE: (_cast, [pa.types.is_date32]),
    Domain.TIMESTAMP: (_utc, [pa.types.is_timestamp]),
    Domain.DECIMAL: (_cast, [pa.types.is_decimal]),
}
_SQLITE: dict[Domain, _Reading] = {
    Domain.DATE: (_cast, [pa.types.is_string]),
    Domain.TIMESTAMP: (_utc, [pa.types.is_string]),
    Domain.DECIMAL: (_counted, [pa.types.is_float64, pa.types.is_int64]),
}
_POSTGRESQL: dict[Domain, _Reading] = {Domain.BOOLEAN: (_cast, [pa.types.is_boolean])}
_READ_OTHERWISE: dict[Backend, dict[Domain, _Reading]] = {
    "sqlite": _SQLITE,
    "mysql": {},
    "postgresql": _POSTGRESQL,
}
_WRITTEN: dict[Domain, Callable[[pa.Array, ColumnType], pa.Array]] = {
    Domain.BOOLEAN: lambda column, kind: _truth(column.cast(pa.int64()), kind),
    Domain.DATE: partial(_in_calendar, _cast),
    Domain.TIMESTAMP: partial(_in_calendar, _utc),
}

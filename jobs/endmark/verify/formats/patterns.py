"""Reads punctuations that do not name one value of each key column, strictly and one at a time.

They are few. The rest of `verify` is SQL, which also decides which rows and keys a punctuation matches.
Python reads the punctuations themselves, since a JSON object with unknown members is no table.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from endmark.domain import Domain
from endmark.types import ColumnType, Spelling

MARK = "$punctuation"
_SPELLED = {
    Domain.DATE: re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}"),
    Domain.TIMESTAMP: re.compile(
        r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
        r"(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00)"
    ),
    Domain.DECIMAL: re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?"),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = {
    Spelling.SECONDS: timedelta(seconds=1),
    Spelling.MILLISECONDS: timedelta(milliseconds=1),
    Spelling.MICROSECONDS: timedelta(microseconds=1),
}
_ENDS = {"from", "to", "from_open", "to_open"}


@dataclass(frozen=True)
class Bound:
    """The restriction of one column by a punctuation: some values, or an interval.

    Args:
        among: the values; `None` for an interval.
        low: the lower end of the interval; `None` is unbounded.
        high: the upper end of the interval; `None` is unbounded.
        low_open: whether the lower end itself does not belong to the interval.
        high_open: the same for the upper end.
    """

    among: frozenset[Any] | None = None
    low: Any = None
    high: Any = None
    low_open: bool = False
    high_open: bool = False


class _UnsoundError(ValueError):
    """The record is no punctuation."""


def read(
    value: bytes, declared: Mapping[str, ColumnType], punctuated_on: tuple[str, ...]
) -> dict[str, Bound] | None:
    """Return the restrictions of a punctuation by column; `None` if the record is no punctuation.

    Args:
        value: the bytes of the record.
        declared: the columns of the stream, with their types.
        punctuated_on: the columns that a punctuation may restrict.
    """
    try:
        record = json.loads(value.decode(), object_pairs_hook=_members, parse_constant=_refuse)
        patterns = record[MARK] if isinstance(record, dict) and list(record) == [MARK] else None
        if not isinstance(patterns, dict) or not patterns or not patterns.keys() <= declared.keys():
            return None
        bounds = {column: _bound(pattern, declared[column]) for column, pattern in patterns.items()}
    except (ValueError, OverflowError, RecursionError):  # an offset may lead out of the years 1 to 9999
        return None
    restricted = {column: bound for column, bound in bounds.items() if bound is not None}
    return restricted if restricted.keys() <= set(punctuated_on) else None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise _UnsoundError("a member stands twice")
    return dict(pairs)


def _refuse(constant: str) -> None:
    raise _UnsoundError(constant)


def _bound(pattern: Any, kind: ColumnType) -> Bound | None:
    """The restriction of a pattern; `None` for a pattern that matches anything."""
    match pattern:
        case {"equals": value} if len(pattern) == 1:
            return Bound(among=frozenset([value_of(value, kind)]))
        case {"one_of": list(values)} if len(pattern) == 1:
            return Bound(among=frozenset(value_of(value, kind) for value in values))
        case {"nothing": True} if len(pattern) == 1:
            return Bound(among=frozenset())
        case {"anything": True} if len(pattern) == 1:
            return None
        case {"between": dict(ends)} if len(pattern) == 1 and ends.keys() <= _ENDS:
            return _between(ends, kind)
    raise _UnsoundError("a pattern is none of the five")


def _between(ends: dict[str, Any], kind: ColumnType) -> Bound:
    opened = {}
    for end in ("from", "to"):
        opened[end] = ends.get(f"{end}_open", False)
        if type(opened[end]) is not bool or (f"{end}_open" in ends and end not in ends):
            raise _UnsoundError("an end that is open is there, and is so by true")
    low, high = (value_of(ends[end], kind) if end in ends else None for end in ("from", "to"))
    return Bound(None, low, high, opened["from"], opened["to"])


def value_of(cell: Any, kind: ColumnType) -> Any:
    """Return the value of a column that a JSON value spells.

    Raises:
        ValueError: it spells none.
    """
    if kind.spelling:
        return number_of(cell, kind.spelling)
    match kind.domain, cell:
        case Domain.LONG, int() if type(cell) is int and -(2**63) <= cell < 2**63:
            return cell
        case Domain.BOOLEAN, bool():
            return cell
        case Domain.DOUBLE, int() | float() if type(cell) is not bool:
            return _finite(cell)
        case Domain.STRING, str():
            cell.encode()
            return cell
        case Domain.DATE | Domain.TIMESTAMP | Domain.DECIMAL, str() if _SPELLED[kind.domain].fullmatch(cell):
            return _spelled(cell, kind)
    raise _UnsoundError(f"{cell!r} is no {kind}")


def number_of(cell: Any, spelling: Spelling) -> Any:
    """Return the value of a column that a JSON number spells.

    Raises:
        ValueError: it is no such number.
        OverflowError: the number leads out of the years 1 to 9999.
    """
    if spelling is Spelling.FLOAT and type(cell) in (int, float):
        found = _finite(cell)
        struct.pack("<f", found)  # raises OverflowError for a number that rounds to infinity
        return found
    if type(cell) is not int or (spelling is Spelling.INT and not -(2**31) <= cell < 2**31):
        raise _UnsoundError(f"{cell!r} is no {spelling}")
    if spelling is Spelling.DAYS:
        return date.fromordinal(date(1970, 1, 1).toordinal() + cell)
    return cell if spelling is Spelling.INT else _EPOCH + cell * _UNITS[spelling]


def _finite(number: float) -> float:
    try:
        found = float(number)
    except OverflowError:
        raise _UnsoundError("beyond all doubles") from None
    if found - found != 0:
        raise _UnsoundError("beyond all doubles")
    return found


def _spelled(cell: str, kind: ColumnType) -> date | datetime | Decimal:
    if kind.domain is Domain.DATE:
        return date.fromisoformat(cell)
    if kind.domain is Domain.TIMESTAMP:
        return datetime.fromisoformat(cell).astimezone(UTC)
    scaled = Fraction(cell) * 10**kind.scale
    # A zero counts as a digit, as in rows.
    if len(cell.partition(".")[2]) > kind.scale or abs(scaled) >= 10**kind.precision:
        raise _UnsoundError(f"{cell} is no {kind}")
    return Decimal(f"{scaled.numerator}E-{kind.scale}")

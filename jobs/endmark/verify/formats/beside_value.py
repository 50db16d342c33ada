"""Reads the columns that a record has beside its value: from its key, its headers and its timestamp."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from endmark.domain import Domain
from endmark.pipeline import Stream
from endmark.pipeline.record_parts import Origin
from endmark.types import ColumnType, Spelling
from endmark.verify.formats.members import Pairs, columns_of, read
from endmark.verify.formats.patterns import MARK

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_PATTERNS = {
    Domain.LONG: re.compile("-?(0|[1-9][0-9]*)"),
    Domain.DOUBLE: re.compile("-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]+)?"),
    Domain.STRING: re.compile("(?s:.*)"),
    Domain.BOOLEAN: re.compile("true|false"),
    Domain.DATE: re.compile(_DAY),
    Domain.TIMESTAMP: re.compile(
        f"{_DAY}T[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}([.][0-9]{{1,6}})?"
        "(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9]|[+-]18:00)"
    ),
    Domain.DECIMAL: re.compile("-?(0|[1-9][0-9]*)([.][0-9]+)?"),
}
_UNITS = {
    Spelling.SECONDS: timedelta(seconds=1),
    Spelling.MILLISECONDS: timedelta(milliseconds=1),
    Spelling.MICROSECONDS: timedelta(microseconds=1),
}
# A value of each domain, in place of one that is not there.
_ANY: dict[Domain, Any] = {
    Domain.LONG: 0,
    Domain.DOUBLE: 0.0,
    Domain.STRING: "",
    Domain.BOOLEAN: False,
    Domain.DATE: "2000-01-01",
    Domain.TIMESTAMP: "2000-01-01T00:00:00Z",
    Domain.DECIMAL: "0",
}


def beside_value(record: Mapping[str, Any], declared: Stream) -> tuple[dict[str, Any], str | None]:
    """Return the columns of a record beside its value, as JSON, and the reason of the first unfit part.

    An unfit part gives any value, so that the record's value can be judged by itself. The reason is `None` if
    all parts are fit. A null is left out.

    Args:
        record: the `key`, `headers` and `timestamp` of the record.
        declared: the stream.
    """
    found, reasons = {}, []
    for reason, column, text in _texts(record, declared):
        kind = declared.columns[column]
        if text is None and kind.nullable:
            continue
        found[column] = _ANY[Domain.LONG if kind.spelling else kind.domain]
        try:
            if text is None:
                raise ValueError(f"{column} is missing")
            found[column] = _value(kind, text)
        except (ValueError, OverflowError):
            reasons.append(reason)
    return found, next(iter(sorted(reasons, key=_ORDER.index)), None)


_ORDER = ("bad_key", "bad_header", "bad_timestamp")


def _texts(record: Mapping[str, Any], declared: Stream) -> Iterator[tuple[str, str, bytes | None]]:
    """Yield, for each column beside the value, the reason if it is unfit, its name, and its text."""
    key, headers, time = record["key"], record["headers"] or [], record["timestamp"]
    members = _members(key, declared)
    for column, part in declared.parts.items():
        match part.origin:
            case Origin.KEY if part.path:
                yield "bad_key", column, members.get(column)
            case Origin.KEY:
                yield "bad_key", column, key
            case Origin.HEADER:
                values = [header["value"] for header in headers if header["name"] == part.path[0]]
                yield "bad_header", column, values[-1] if values else None
            case Origin.TIMESTAMP:
                yield "bad_timestamp", column, _time(time)


_UNREADABLE = b"\xff"  # no value of any column


def _members(key: bytes | None, declared: Stream) -> dict[str, bytes | None]:
    """Return the texts of the columns in a key of JSON; they are unreadable if the key is none."""
    paths = {
        column: part.path
        for column, part in declared.parts.items()
        if part.origin is Origin.KEY and part.path
    }
    if key is None or not paths:
        return {}
    try:
        document = read(key)
        if not isinstance(document, Pairs) or any(member == MARK for member, _ in document):
            return dict.fromkeys(paths, _UNREADABLE)
        found = columns_of(document, paths, ignoring=True)
    except (ValueError, RecursionError):
        return dict.fromkeys(paths, _UNREADABLE)
    return {column: _text(declared.columns[column], value) for column, value in found.items()}


def _text(kind: ColumnType, value: Any) -> bytes | None:
    """Return a JSON value as a text of its column; one of another JSON type is unreadable."""
    if value is None:
        return None
    quoted = kind.spelling is None and kind.domain not in (Domain.LONG, Domain.DOUBLE, Domain.BOOLEAN)
    if isinstance(value, str) and quoted:
        return value.encode()
    if isinstance(value, bool):
        return str(value).lower().encode() if kind.domain is Domain.BOOLEAN else _UNREADABLE
    numbers = (int, float) if kind.domain is Domain.DOUBLE else (int,)
    return repr(value).encode() if type(value) in numbers and not quoted else _UNREADABLE


def _time(milliseconds: int | None) -> bytes | None:
    """Return a record's timestamp as text; `None` for a record without one."""
    if milliseconds in (None, -1):
        return None
    try:
        time = _EPOCH + timedelta(milliseconds=milliseconds or 0)
    except OverflowError:
        return _UNREADABLE
    return time.isoformat(timespec="microseconds").replace("+00:00", "Z").encode()


def _value(kind: ColumnType, text: bytes) -> Any:
    """Return a text as the JSON value that a record would have in a column.

    Raises:
        ValueError: it is no value of the column.
        OverflowError: it is out of range.
    """
    told = text.decode("utf-8")
    written = Domain.DOUBLE if kind.spelling is Spelling.FLOAT else Domain.LONG
    if not _PATTERNS[written if kind.spelling else kind.domain].fullmatch(told):
        raise ValueError(told)
    if kind.spelling is not None:
        return _number(kind.spelling, told)
    match kind.domain:
        case Domain.LONG:
            return _within(int(told), 63)
        case Domain.DOUBLE:
            return _finite(float(told))
        case Domain.BOOLEAN:
            return told == "true"
        case Domain.DATE:
            date.fromisoformat(told)
        case Domain.TIMESTAMP:
            datetime.fromisoformat(told).astimezone(UTC)
        case Domain.DECIMAL:
            whole, _, places = told.lstrip("-").partition(".")
            if len(places) > kind.scale or len(whole.lstrip("0")) > kind.precision - kind.scale:
                raise ValueError(told)
    return told


def _number(spelling: Spelling, told: str) -> Any:
    if spelling is Spelling.FLOAT:
        struct.pack("<f", _finite(float(told)))  # raises for one that rounds to infinity in 32 bits
        return float(told)
    number = int(told)
    if spelling is Spelling.INT:
        return _within(number, 31)
    if spelling is Spelling.DAYS:
        date(1970, 1, 1) + timedelta(days=number)
    else:
        _EPOCH + number * _UNITS[spelling]
    return number


def _within(number: int, bits: int) -> int:
    if not -(2**bits) <= number < 2**bits:
        raise ValueError(number)
    return number


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError(number)
    return number

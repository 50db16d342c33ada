"""The fate of a record, by a strict reading of JSON in plain Python."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import numpy as np

from endmark.domain import Domain
from endmark.pipeline import Stream
from endmark.types import ColumnType, Spelling
from endmark.verify.formats.patterns import Bound, read
from support.numbers import UNITS

DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-](\d\d):[0-5]\d)", re.ASCII)
MOST_OFF = timedelta(hours=18)
NUMBER = re.compile(r"-?(?P<whole>0|[1-9]\d*)(\.(?P<places>\d+))?", re.ASCII)
Key = tuple[Any, ...]


class Members(list[tuple[str, Any]]):
    """A JSON object as its members in order, doubled ones included."""


@dataclass(frozen=True)
class Promise:
    """A punctuation that is not written as one value of each key column: what it says of some of them."""

    bounds: tuple[tuple[str, Bound], ...]

    def named(self, on: tuple[str, ...]) -> list[Key]:
        """The keys that it names."""
        if not self.speaks_of(on):
            return []
        values = [dict(self.bounds).get(column, Bound()).among for column in on]
        if None in values or (len(on) > 1 and any(len(each or ()) != 1 for each in values)):
            return []
        return list(zip(*(sorted(each or ()) for each in values), strict=True))

    def speaks_of(self, on: tuple[str, ...]) -> bool:
        """Return whether it restricts no other columns than these."""
        return all(column in on for column, _ in self.bounds)

    def is_heartbeat(self, column: str) -> bool:
        """True if it rules out all times of this column up to one, and says nothing else."""
        bound = dict(self.bounds).get(column)
        return len(self.bounds) == 1 and bound is not None and bound.among is None and bound.low is None

    def matches(self, key: dict[str, Any]) -> bool:
        return all(within(key[column], bound) for column, bound in self.bounds)


def within(value: Any, bound: Bound) -> bool:
    """Return whether a pattern matches a value."""
    if bound.among is not None:
        return value in bound.among
    above = bound.low is None or value > bound.low or (value == bound.low and not bound.low_open)
    below = bound.high is None or value < bound.high or (value == bound.high and not bound.high_open)
    return above and below


def fate(
    stream: Stream, value: bytes | None, on: tuple[str, ...] | None = None
) -> dict[str, Any] | Key | Promise | Literal["dead letter"]:
    """The columns of a row, the key that a punctuation closes, what it says otherwise, or that it is a dead
    letter. The key is `on`, all that the stream is punctuated on unless said. Patterns are read by `verify`,
    which shares no code with the engine."""
    try:
        document = json.loads(
            (value or b"").decode("utf-8"),
            object_pairs_hook=Members,
            parse_constant=_refuse,
            parse_int=lambda digits: int(digits[:1_000]),
        )
    except (ValueError, RecursionError):
        return "dead letter"
    match document:
        case [("$punctuation", Members() as patterns)] if isinstance(document, Members):
            bounds = Members((name, _bound(pattern)) for name, pattern in patterns)
            key = stream.punctuated_on if on is None else on
            named = key if set(key) <= set(stream.punctuated_on) else ()
            closed = _columns({name: stream.columns[name] for name in named}, bounds)
            return tuple(closed.values()) if closed else _promise(stream, value)
        case Members():
            if stream.extra == "ignore":
                document = _counting(stream, document)
            return _columns(stream.columns, document) or "dead letter"
    return "dead letter"


def _promise(stream: Stream, value: bytes | None) -> Promise | Literal["dead letter"]:
    bounds = read(value or b"", stream.columns, tuple(stream.columns))
    if bounds is None:
        return "dead letter"
    promise = Promise(tuple(sorted(bounds.items(), key=lambda pair: pair[0])))
    allowed = stream.punctuated_on and promise.speaks_of(stream.punctuated_on)
    heartbeat = stream.format != "debezium" and promise.is_heartbeat(stream.event_time.column)
    return promise if allowed or heartbeat else "dead letter"


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _bound(pattern: Any) -> Any:
    match pattern:
        case [("equals", value)] if isinstance(pattern, Members):
            return value
    return None


def _counting(stream: Stream, members: Members) -> Members:
    """The members that count where others are ignored; all do beside a punctuation or half a character."""
    try:
        json.dumps(members, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return members
    marked = any(name in ("$punctuation", "__deleted") for name, _ in members)
    return Members((name, cell) for name, cell in members if marked or name in stream.columns)


def _columns(kinds: dict[str, ColumnType], members: Members) -> dict[str, Any] | None:
    found = dict(members)
    if len(found) < len(members) or not found.keys() <= kinds.keys():
        return None
    columns: dict[str, Any] = {}
    for name, kind in kinds.items():
        cell = found.get(name)
        columns[name] = None if cell is None else _read(kind, cell)
        if columns[name] is None and not (kind.nullable and cell is None):
            return None
    return columns


def _read(kind: ColumnType, cell: Any) -> Any:
    if kind.spelling:
        return _read_number(kind.spelling, cell)
    match kind.domain, cell:
        case Domain.LONG, int() if type(cell) is int and -(2**63) <= cell < 2**63:
            return cell
        case Domain.DOUBLE, int() | float() if type(cell) is not bool:
            return _finite(cell)
        case Domain.BOOLEAN, bool():
            return cell
        case _, str():
            return _read_text(kind, cell)
    return None


def _read_number(spelling: Spelling, cell: Any) -> Any:
    if spelling is Spelling.FLOAT:
        found = None if type(cell) not in (int, float) else _finite(cell)
        with np.errstate(over="ignore"):
            return found if found is not None and math.isfinite(np.float32(found)) else None
    if type(cell) is not int:
        return None
    try:
        match spelling:
            case Spelling.INT:
                return cell if np.iinfo(np.int32).min <= cell <= np.iinfo(np.int32).max else None
            case Spelling.DAYS:
                return date(1970, 1, 1) + timedelta(days=cell)
        return datetime(1970, 1, 1, tzinfo=UTC) + cell * UNITS[spelling]
    except OverflowError:
        return None


def _read_text(kind: ColumnType, cell: str) -> Any:
    try:
        match kind.domain:
            case Domain.STRING:
                return cell if cell == cell.encode("utf-8", "ignore").decode() else None
            case Domain.DATE:
                return date.fromisoformat(cell) if DAY.fullmatch(cell) else None
            case Domain.TIMESTAMP:
                return _instant(cell)
            case Domain.DECIMAL:
                return _decimal(kind, cell)
    except (ValueError, OverflowError):
        return None
    return None


def _instant(cell: str) -> datetime | None:
    if not INSTANT.fullmatch(cell):
        return None
    time = datetime.fromisoformat(cell)
    return time.astimezone(UTC) if abs(time.utcoffset() or timedelta()) <= MOST_OFF else None


def _decimal(kind: ColumnType, cell: str) -> Decimal | None:
    found = NUMBER.fullmatch(cell)
    if not found or len(found["places"] or "") > kind.scale:
        return None
    return Decimal(cell) if len(found["whole"].lstrip("0")) <= kind.precision - kind.scale else None


def _finite(number: float) -> float | None:
    try:
        return float(number) if math.isfinite(float(number)) else None
    except OverflowError:
        return None

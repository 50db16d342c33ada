"""Says which Avro types give a column, and makes their values the JSON that a column is read from.

A value that its column cannot hold becomes a JSON value of the right type that the column cannot hold,
either.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from endmark.domain import Domain
from endmark.types import ColumnType, Spelling
from endmark.verify.formats.avro_schema import ZONED, Type
from endmark.verify.formats.members import DELETED
from endmark.verify.formats.reasons import UnreadableError

if TYPE_CHECKING:
    from endmark.pipeline import Stream

ColumnsByPath = Mapping[tuple[str, ...], str]  # columns, by the names of the nested fields that lead to them
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IMPOSSIBLE = "no value"
_TIMES = {
    "timestamp-millis": (Domain.TIMESTAMP, Spelling.MILLISECONDS, 1000),
    "timestamp-micros": (Domain.TIMESTAMP, Spelling.MICROSECONDS, 1),
    "date": (Domain.DATE, Spelling.DAYS, 1),
}


def narrowed(wanted: ColumnsByPath, member: str | None) -> ColumnsByPath:
    """Return the columns within one member, by the names that lead to them from there."""
    return {path[1:]: column for path, column in wanted.items() if path[0] == member}


def members_of(written: Type, wanted: ColumnsByPath) -> list[str | None]:
    """Return the member that each field of a record is; `None` for one that leads to no column."""
    own, members = [name for name, _, _ in written.fields], {path[0] for path in wanted}
    found: list[str | None] = []
    for name, aliases, _ in written.fields:
        others = [alias for alias in aliases if alias in members and alias not in [*own, *found]]
        found.append(name if name in members else next(iter(others), None))
    return found


def require_columns(written: Type, wanted: ColumnsByPath, declared: Stream) -> None:
    """Refuse a schema that does not give the columns.

    Raises:
        UnreadableError: it does not. The text is the reason.
    """
    if declared.extra != "ignore" and _has_others(written, wanted):
        raise UnreadableError("unknown_field")
    named = zip(members_of(written, wanted), written.fields, strict=True)
    if any(member is None and name == DELETED for member, (name, _, _) in named):
        raise UnreadableError("unknown_field")
    for path, column in wanted.items():
        if (why := lack_of(written, path, declared.columns[column])) is not None:
            raise UnreadableError(why)


def _has_others(written: Type, wanted: ColumnsByPath) -> bool:
    """Return whether a field of a type leads to no column."""
    if () in wanted:
        return False
    members = members_of(written, wanted)
    return (
        None in members
        or any(_has_others(each, wanted) for each in written.inner if written.kind == "union")
        or any(
            _has_others(kind, narrowed(wanted, member))
            for member, (_, _, kind) in zip(members, written.fields, strict=True)
        )
    )


def lack_of(written: Type, path: tuple[str, ...], wanted: ColumnType) -> str | None:
    """Return the reason why a type does not give a column; `None` if it does."""
    if written.kind == "union":
        return next(filter(None, (lack_of(each, path, wanted) for each in written.inner)), None)
    if written.kind == "null":
        return None
    if not path:
        return None if _fits(written, wanted) else "wrong_type"
    if written.kind != "record":
        return "wrong_type"
    for member, (_, _, kind) in zip(members_of(written, {path: ""}), written.fields, strict=True):
        if member == path[0]:
            return lack_of(kind, path[1:], wanted)
    return None if wanted.nullable else "missing_field"


def _fits(written: Type, wanted: ColumnType) -> bool:
    kind, logical = written.kind, written.logical
    if logical == ZONED and wanted.domain is Domain.TIMESTAMP:
        return wanted.spelling is None
    kinds = {
        Domain.LONG: ("int", "long"),
        Domain.DOUBLE: ("int", "long", "float", "double"),
        Domain.STRING: ("enum", "string", "bytes"),
        Domain.BOOLEAN: ("boolean",),
        Domain.DECIMAL: ("bytes", "fixed"),
        Domain.DATE: ("int", "long"),
        Domain.TIMESTAMP: ("int", "long"),
    }
    if kind == "null" or kind not in kinds[wanted.domain]:
        return kind == "null"
    if wanted.domain in (Domain.DECIMAL, Domain.STRING):
        if wanted.domain is Domain.STRING:
            return logical != "decimal"
        return logical == "decimal" and written.scale <= wanted.scale
    if wanted.domain in (Domain.DATE, Domain.TIMESTAMP):
        domain, unit, _ = _TIMES.get(logical or "", (None, None, 0))
        said = domain is wanted.domain and wanted.spelling in (None, unit)
        return said or (logical is None and wanted.spelling is not None)
    return True


def json_of(written: Type, value: Any, wanted: ColumnType) -> Any:
    """Return a value as a producer of JSON would have sent it."""
    match wanted.domain:
        case Domain.STRING | Domain.TIMESTAMP if isinstance(value, bytes):
            try:
                return value.decode("utf-8")
            except UnicodeDecodeError:
                raise UnreadableError("not_utf8") from None
        case Domain.DECIMAL:
            return (
                _decimal(int.from_bytes(value, "big", signed=True), written.scale) if value else _IMPOSSIBLE
            )
        case Domain.DATE | Domain.TIMESTAMP if wanted.spelling is None:
            return _time(written, value)
    return value


def _decimal(unscaled: int, scale: int) -> str:
    if abs(unscaled) >= 10**38:
        return _IMPOSSIBLE
    return f"{Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale)):f}"


def _time(written: Type, value: int) -> str:
    try:
        if written.logical == "date":
            return (_EPOCH.date() + timedelta(days=value)).isoformat()
        found = _EPOCH + timedelta(microseconds=value * _TIMES[written.logical or ""][2])
    except OverflowError:
        return _IMPOSSIBLE
    return found.isoformat().replace("+00:00", "Z")

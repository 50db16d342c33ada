"""Reads Avro records strictly and one value after the other.

A row becomes the flat JSON that a producer of JSON would have sent. A value that its column cannot hold
becomes a JSON value of the right type that the column cannot hold, either.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from endmark.domain import Domain
from endmark.pipeline import Stream
from endmark.types import ColumnType, Spelling
from endmark.verify import framed
from endmark.verify.framed import Schemas
from endmark.verify.members import DELETED
from endmark.verify.patterns import MARK
from endmark.verify.reasons import UnreadableError

_Wanted = Mapping[tuple[str, ...], str]  # columns, by the names of the nested fields that lead to them

PUNCTUATION = "endmark.Punctuation"
_PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IMPOSSIBLE = "no value"
_ZONED = "zoned-timestamp"
_TIMES = {
    "timestamp-millis": (Domain.TIMESTAMP, Spelling.MILLISECONDS, 1000),
    "timestamp-micros": (Domain.TIMESTAMP, Spelling.MICROSECONDS, 1),
    "date": (Domain.DATE, Spelling.DAYS, 1),
}
_KINDS_OF_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "uuid": "string fixed",
    "decimal": "bytes fixed",
    "duration": "fixed",
    _ZONED: "string",
}
_CONNECT_TIMES = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.NanoTimestamp": "timestamp-nanos",
    "io.debezium.time.ZonedTimestamp": _ZONED,
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_LOGICAL_LONGS = (
    *("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"),
    *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
)


class _BadSchemaError(Exception):
    pass


class MalformedError(Exception):
    """The bytes are no value of their schema."""


@dataclass
class Type:
    """A type whose names are resolved.

    Attributes:
        parts: the number of types in it, with itself.
        empty: whether its values have no bytes.
    """

    kind: str
    name: str = ""
    logical: str | None = None
    scale: int = 0
    size: int = 0
    symbols: list[str] = field(default_factory=list)
    fields: list[tuple[str, list[str], Type]] = field(default_factory=list)
    inner: list[Type] = field(default_factory=list)
    parts: int = 1
    empty: bool = False

    def __post_init__(self) -> None:
        within = [*self.inner, *(kind for _, _, kind in self.fields)]
        self.parts += sum(each.parts for each in within)
        self.empty = self.kind == "null" or (self.kind == "fixed" and self.size == 0)
        if self.kind == "record":
            self.empty = all(each.empty for each in within)
        if self.parts > 10_000:
            raise _BadSchemaError


def read_record(schemas: Schemas, value: bytes, declared: Stream) -> dict[str, Any] | bytes:
    """Return a row as its members, or a punctuation as JSON.

    Raises:
        UnreadableError: the record is neither. The text is the reason.
    """
    reader, written = opened(schemas, value)
    try:
        if written.name == PUNCTUATION:
            return read_punctuation(reader, written)
        return read_row(reader, written, declared, ends=True)
    except MalformedError:
        raise UnreadableError("malformed") from None


def opened(schemas: Schemas, value: bytes) -> tuple[Reader, Type]:
    """Return a reader at the beginning of a record's value, and its type, which is a record.

    Raises:
        UnreadableError: the record has no such type. The text is the reason.
    """
    schema, body = framed.opened(schemas, value)
    try:
        outermost = _schema(schema.text)
    except _BadSchemaError:
        raise UnreadableError("bad_schema") from None
    reader = Reader(body)
    written = outermost
    if outermost.kind == "union":
        try:
            written = outermost.inner[reader.index(outermost.inner)]
        except MalformedError:
            raise UnreadableError("malformed") from None
    if written.kind != "record":
        raise UnreadableError("bad_schema")
    return reader, written


def read_punctuation(reader: Reader, written: Type) -> bytes:
    """Return a punctuation as JSON.

    Raises:
        UnreadableError: the type is not that of punctuations. The text is the reason.
        MalformedError: the bytes are no value of it.
    """
    if not any(name == "punctuation" and kind.kind == "string" for name, _, kind in written.fields):
        raise UnreadableError("bad_schema")
    found = _values(reader, written, {("punctuation",): "punctuation"})["punctuation"]
    if not reader.ended:
        raise MalformedError
    text = None if found is None else json_of(*found, ColumnType.STRING)
    return f'{{"{MARK}": {text}}}'.encode()


def read_row(reader: Reader, written: Type, declared: Stream, *, ends: bool) -> dict[str, Any]:
    """Return a row as its members.

    Args:
        reader: stands at the row.
        written: its type.
        declared: the stream.
        ends: whether the record must end with the row.

    Raises:
        UnreadableError: the type does not give the columns, or a text is no UTF-8. The text is the reason.
        MalformedError: the bytes are no value of the type.
    """
    wanted: _Wanted = {path: name for name, path in declared.value_paths.items()}
    _require(written, wanted, declared)
    raw = _values(reader, written, wanted)
    if ends and not reader.ended:
        raise MalformedError
    columns = declared.columns
    return {name: None if got is None else json_of(*got, columns[name]) for name, got in raw.items()}


def read_column(reader: Reader, written: Type, path: tuple[str, ...], wanted: ColumnType) -> Any:
    """Return a value within a record as a producer of JSON would have sent it; `None` for null.

    Raises:
        UnreadableError: the type does not give the column, or a text is no UTF-8. The text is the reason.
    """
    if (why := _lack(written, path, wanted)) is not None:
        raise UnreadableError(why)
    found = _values(reader, written, {path: "it"})["it"]
    return None if found is None else json_of(*found, wanted)


def _values(reader: Reader, written: Type, wanted: _Wanted) -> dict[str, tuple[Type, Any] | None]:
    """Read a value; return the types and values of the columns in it, and `None` for null."""
    if written.kind == "union":
        return _values(reader, written.inner[reader.index(written.inner)], wanted)
    if () in wanted or written.kind != "record":
        return dict.fromkeys(wanted.values(), reader.value(written))
    found: dict[str, tuple[Type, Any] | None] = {}
    for member, (_, _, kind) in zip(_members(written, wanted), written.fields, strict=True):
        found |= _values(reader, kind, _within(wanted, member))
    return found


def _within(wanted: _Wanted, member: str | None) -> _Wanted:
    return {path[1:]: column for path, column in wanted.items() if path[0] == member}


def _members(written: Type, wanted: _Wanted) -> list[str | None]:
    """Return the member that each field of a record is; `None` for one that leads to no column."""
    own, members = [name for name, _, _ in written.fields], {path[0] for path in wanted}
    found: list[str | None] = []
    for name, aliases, _ in written.fields:
        others = [alias for alias in aliases if alias in members and alias not in [*own, *found]]
        found.append(name if name in members else next(iter(others), None))
    return found


def _require(written: Type, wanted: _Wanted, declared: Stream) -> None:
    """Refuse a schema that does not give the columns.

    Raises:
        UnreadableError: it does not. The text is the reason.
    """
    if declared.extra != "ignore" and _has_others(written, wanted):
        raise UnreadableError("unknown_field")
    named = zip(_members(written, wanted), written.fields, strict=True)
    if any(member is None and name == DELETED for member, (name, _, _) in named):
        raise UnreadableError("unknown_field")
    for path, column in wanted.items():
        if (why := _lack(written, path, declared.columns[column])) is not None:
            raise UnreadableError(why)


def _has_others(written: Type, wanted: _Wanted) -> bool:
    """Return whether a field of a type leads to no column."""
    if () in wanted:
        return False
    members = _members(written, wanted)
    return (
        None in members
        or any(_has_others(each, wanted) for each in written.inner if written.kind == "union")
        or any(
            _has_others(kind, _within(wanted, member))
            for member, (_, _, kind) in zip(members, written.fields, strict=True)
        )
    )


def _lack(written: Type, path: tuple[str, ...], wanted: ColumnType) -> str | None:
    """Return the reason why a type does not give a column; `None` if it does."""
    if written.kind == "union":
        return next(filter(None, (_lack(each, path, wanted) for each in written.inner)), None)
    if written.kind == "null":
        return None
    if not path:
        return None if _fits(written, wanted) else "wrong_type"
    if written.kind != "record":
        return "wrong_type"
    for member, (_, _, kind) in zip(_members(written, {path: ""}), written.fields, strict=True):
        if member == path[0]:
            return _lack(kind, path[1:], wanted)
    return None if wanted.nullable else "missing_field"


def _fits(written: Type, wanted: ColumnType) -> bool:
    kind, logical = written.kind, written.logical
    if logical == _ZONED and wanted.domain is Domain.TIMESTAMP:
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


class Reader:
    """Reads values one after the other.

    Args:
        value: the bytes.
        at: the place of the first byte to read.
    """

    def __init__(self, value: bytes, at: int = 0) -> None:
        self._value = value
        self._at = at

    @property
    def ended(self) -> bool:
        """True if no byte is left."""
        return self._at == len(self._value)

    def copy(self) -> Reader:
        """Return another reader at the same place."""
        return Reader(self._value, self._at)

    def index(self, among: list[Any]) -> int:
        """Read which of a list follows."""
        if not 0 <= (found := self._int()) < len(among):
            raise MalformedError
        return found

    def value(self, written: Type) -> tuple[Type, Any] | None:
        """Read a value; return its type, which is no union, and the value. `None` stands for null.

        Texts are bytes. Lists, maps and records are read, but not returned.
        """
        match written.kind:
            case "null":
                return None
            case "union":
                return self.value(written.inner[self.index(written.inner)])
            case "record":
                for _, _, kind in written.fields:
                    self.value(kind)
                return written, None
            case "array" | "map":
                self._blocks(written)
                return written, None
        return written, self._plain(written)

    def _plain(self, written: Type) -> Any:
        readers: dict[str, Callable[[], Any]] = {
            "boolean": lambda: (False, True)[self._byte(2)],
            "int": self._int,
            "long": self._long,
            "float": lambda: struct.unpack("<f", self._bytes(4))[0],
            "double": lambda: struct.unpack("<d", self._bytes(8))[0],
            "bytes": lambda: self._bytes(self._long()),
            "string": lambda: self._bytes(self._long()),
            "fixed": lambda: self._bytes(written.size),
            "enum": lambda: written.symbols[self.index(written.symbols)],
        }
        return readers[written.kind]()

    def _byte(self, values: int) -> int:
        if (found := self._bytes(1)[0]) >= values:
            raise MalformedError
        return found

    def _blocks(self, written: Type) -> None:
        (inner,) = written.inner
        while count := self._long():
            if count < 0:
                self._bytes(self._long())
                continue
            if written.kind == "array" and inner.empty:
                continue
            if count > len(self._value) - self._at:  # each of them has a byte
                raise MalformedError
            for _ in range(count):
                if written.kind == "map":
                    self._bytes(self._long())
                self.value(inner)

    def _bytes(self, length: int) -> bytes:
        if not 0 <= length <= len(self._value) - self._at:
            raise MalformedError
        self._at += length
        return self._value[self._at - length : self._at]

    def _int(self) -> int:
        if not -(2**31) <= (found := self._long()) < 2**31:
            raise MalformedError
        return found

    def _long(self) -> int:
        found = 0
        for place in range(10):
            (byte,) = self._bytes(1)
            found += (byte % 128) << (7 * place)
            if byte < 128:
                if found.bit_length() > 64:
                    break
                return found // 2 if found % 2 == 0 else -(found + 1) // 2
        raise MalformedError


@lru_cache(1_000)
def _schema(text: str) -> Type:
    try:
        return _Names().type(json.loads(text), "", 0)
    except (ValueError, RecursionError):
        raise _BadSchemaError from None


class _Names:
    """The named types of a schema; those that are not complete yet are `None`."""

    def __init__(self) -> None:
        self._known: dict[str, Type | None] = {}

    def type(self, node: Any, namespace: str, level: int) -> Type:
        if level > 64:
            raise _BadSchemaError
        if isinstance(node, list) and node:
            inner = [self.type(each, namespace, level + 1) for each in node]
            if any(each.kind == "union" for each in inner):
                raise _BadSchemaError
            return Type("union", inner=inner)
        if isinstance(node, dict) and isinstance(node.get("type"), dict | list):
            return self.type(node["type"], namespace, level + 1)
        kind = node.get("type") if isinstance(node, dict) else node
        if not isinstance(kind, str):
            raise _BadSchemaError
        if isinstance(node, dict) and kind in ("record", "error", "enum", "fixed"):
            return self._named(node, namespace, level)
        if isinstance(node, dict) and kind in ("array", "map"):
            inner = [self.type(node.get("items" if kind == "array" else "values"), namespace, level + 1)]
            return Type(kind, inner=inner)
        if kind in _PRIMITIVE:
            logical, scale = _logical(node) if isinstance(node, dict) else (None, 0)
            return Type(kind, logical=logical, scale=scale)
        found = self._known.get(_full(kind, namespace), self._known.get(kind))
        if found is None:
            raise _BadSchemaError
        return found

    def _named(self, node: dict[str, Any], namespace: str, level: int) -> Type:
        own, within = node.get("name"), node.get("namespace", namespace)
        if not (isinstance(own, str) and own and isinstance(within, str)):
            raise _BadSchemaError
        name, kind = _full(own, within), node["type"]
        logical, scale = _logical(node)
        symbols, size, fields = node.get("symbols"), node.get("size"), node.get("fields")
        match kind:
            case "enum":
                if not (isinstance(symbols, list) and all(isinstance(each, str) for each in symbols)):
                    raise _BadSchemaError
                found = Type(kind, name, symbols=symbols)
            case "fixed":
                if type(size) is not int or not 0 <= size < 2**31:
                    raise _BadSchemaError
                found = Type(kind, name, logical, scale, size)
            case _:
                self._known[name] = None
                if not isinstance(fields, list):
                    raise _BadSchemaError
                inner = [self._field(each, name.rpartition(".")[0], level) for each in fields]
                if len({own for own, _, _ in inner}) < len(inner):
                    raise _BadSchemaError
                found = Type("record", name, fields=inner)
        self._known[name] = found
        return found

    def _field(self, node: Any, namespace: str, level: int) -> tuple[str, list[str], Type]:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise _BadSchemaError
        aliases = node.get("aliases")
        known = [each for each in aliases if isinstance(each, str)] if isinstance(aliases, list) else []
        return node["name"], known, self.type(node.get("type"), namespace, level + 1)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _logical(node: dict[str, Any]) -> tuple[str | None, int]:
    """Return the logical type and the scale of a type, by Avro's name or else by that of Kafka Connect."""
    logical, scale = _own_logical(node)
    name = node.get("connect.name")
    if node.get("logicalType") in _possible(node) or not isinstance(name, str):
        return logical, scale
    if (found := _CONNECT_TIMES.get(name)) is not None and found in _possible(node):
        return found, 0
    return (name if name.startswith("io.debezium.time.") else None), 0


def _possible(node: dict[str, Any]) -> tuple[str, ...]:
    """Return the logical types that a type may have."""
    if node["type"] == "long":
        return _LOGICAL_LONGS
    return tuple(name for name, kinds in _KINDS_OF_LOGICAL.items() if node["type"] in kinds.split())


def _own_logical(node: dict[str, Any]) -> tuple[str | None, int]:
    """Return Avro's logical type, which it ignores if it does not fit, and the scale."""
    logical, precision, scale = node.get("logicalType"), node.get("precision"), node.get("scale", 0)
    if not isinstance(logical, str):
        return None, 0
    if node["type"] == "long":
        return (logical if logical in _LOGICAL_LONGS else None), 0
    if node["type"] not in _KINDS_OF_LOGICAL.get(logical, "").split():
        return None, 0
    if logical != "decimal":
        return logical, 0
    sound = type(precision) is int and type(scale) is int and 0 <= scale <= precision
    return ("decimal", scale) if sound else (None, 0)

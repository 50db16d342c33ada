"""Resolves the names and logical types of an Avro schema."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_PRIMITIVE = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
ZONED = "zoned-timestamp"
_KINDS_OF_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "uuid": "string fixed",
    "decimal": "bytes fixed",
    "duration": "fixed",
    ZONED: "string",
}
_CONNECT_TIMES = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "timestamp-millis",
    "io.debezium.time.MicroTimestamp": "timestamp-micros",
    "io.debezium.time.NanoTimestamp": "timestamp-nanos",
    "io.debezium.time.ZonedTimestamp": ZONED,
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_LOGICAL_LONGS = (
    *("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"),
    *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
)


class BadSchemaError(Exception):
    """The text is no schema of Avro."""


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
            raise BadSchemaError


@lru_cache(1_000)
def schema_of(text: str) -> Type:
    """Return the outermost type of a schema in JSON.

    Raises:
        BadSchemaError: the text is no schema.
    """
    try:
        return _Names().type(json.loads(text), "", 0)
    except (ValueError, RecursionError):
        raise BadSchemaError from None


class _Names:
    """The named types of a schema; those that are not complete yet are `None`."""

    def __init__(self) -> None:
        self._known: dict[str, Type | None] = {}

    def type(self, node: Any, namespace: str, level: int) -> Type:
        if level > 64:
            raise BadSchemaError
        if isinstance(node, list) and node:
            inner = [self.type(each, namespace, level + 1) for each in node]
            if any(each.kind == "union" for each in inner):
                raise BadSchemaError
            return Type("union", inner=inner)
        if isinstance(node, dict) and isinstance(node.get("type"), dict | list):
            return self.type(node["type"], namespace, level + 1)
        kind = node.get("type") if isinstance(node, dict) else node
        if not isinstance(kind, str):
            raise BadSchemaError
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
            raise BadSchemaError
        return found

    def _named(self, node: dict[str, Any], namespace: str, level: int) -> Type:
        own, within = node.get("name"), node.get("namespace", namespace)
        if not (isinstance(own, str) and own and isinstance(within, str)):
            raise BadSchemaError
        name, kind = _full(own, within), node["type"]
        logical, scale = _logical(node)
        symbols, size, fields = node.get("symbols"), node.get("size"), node.get("fields")
        match kind:
            case "enum":
                if not (isinstance(symbols, list) and all(isinstance(each, str) for each in symbols)):
                    raise BadSchemaError
                found = Type(kind, name, symbols=symbols)
            case "fixed":
                if type(size) is not int or not 0 <= size < 2**31:
                    raise BadSchemaError
                found = Type(kind, name, logical, scale, size)
            case _:
                self._known[name] = None
                if not isinstance(fields, list):
                    raise BadSchemaError
                inner = [self._field(each, name.rpartition(".")[0], level) for each in fields]
                if len({own for own, _, _ in inner}) < len(inner):
                    raise BadSchemaError
                found = Type("record", name, fields=inner)
        self._known[name] = found
        return found

    def _field(self, node: Any, namespace: str, level: int) -> tuple[str, list[str], Type]:
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            raise BadSchemaError
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

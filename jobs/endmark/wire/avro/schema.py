"""Avro schemas of writers: the types that they declare.

Names are resolved, so a type that stands at two places is in the tree twice. A schema comes from a registry
that others write to. So a type that contains itself, or that has too many parts, is refused here, and no code
behind it recurses without an end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

_MOST_LEVELS = 64
_MOST_TYPES = 10_000  # in one schema, counted again at each place where a name stands
_MOST_FIXED = 2**31 - 1  # bytes
_LEAST = {
    "null": 0,
    "boolean": 1,
    "int": 1,
    "long": 1,
    "float": 4,
    "double": 8,
    "bytes": 1,
    "string": 1,
}  # the fewest bytes of a value of each primitive type
ZONED = "zoned-timestamp"  # a time with its zone as text, which Avro has no name for
_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        *("time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos"),
        *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
    ),
    "string": ("uuid", ZONED),
    "bytes": ("decimal",),
    "fixed": ("decimal", "uuid", "duration"),
}


_DEBEZIUM_TIME, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."
_OF_CONNECT = {
    f"{_DEBEZIUM_TIME}Date": "date",
    f"{_DEBEZIUM_TIME}Timestamp": "timestamp-millis",
    f"{_DEBEZIUM_TIME}MicroTimestamp": "timestamp-micros",
    f"{_DEBEZIUM_TIME}NanoTimestamp": "timestamp-nanos",
    f"{_DEBEZIUM_TIME}ZonedTimestamp": ZONED,
    f"{_CONNECT}Date": "date",
    f"{_CONNECT}Time": "time-millis",
    f"{_CONNECT}Timestamp": "timestamp-millis",
}  # the logical types by their names in Kafka Connect, as its converter of Avro writes them


class AvroSchemaError(ValueError):
    """A text is no Avro schema that can be read; the error says why."""


@dataclass(frozen=True)
class AvroField:
    """A field of a record."""

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class AvroType:
    """A type of Avro. As text, it is the name that an error has for it.

    Args:
        kind: `null`, `boolean`, `int`, `long`, `float`, `double`, `bytes`, `string`, `fixed`, `enum`,
            `union`, `array`, `map` or `record`.
        least: the fewest bytes of a value. If it is 0, each value has none.
        name: the full name of a record, an enum or a fixed; empty for others.
        logical: the logical type, of Avro or else of Kafka Connect; `None` without one, or if the type cannot
            have it.
        scale: the digits of a decimal after the point.
        size: the bytes of a fixed.
        symbols: the symbols of an enum.
        fields: the fields of a record.
        inner: the branches of a union; the one type of the items of an array, or of the values of a map.
        types: the number of types in this one, with itself.
    """

    kind: str
    least: int
    name: str = ""
    logical: str | None = None
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    fields: tuple[AvroField, ...] = ()
    inner: tuple[AvroType, ...] = ()
    types: int = 1

    def __str__(self) -> str:
        if self.kind == "union":
            return " or ".join(map(str, self.inner))
        scale = f", scale {self.scale}" if self.logical == "decimal" else ""
        return f"{self.kind} ({self.logical}{scale})" if self.logical else self.kind


def parse(text: str) -> AvroType:
    """Return the type that a schema declares.

    Args:
        text: the schema, as JSON.

    Raises:
        AvroSchemaError: the text is no schema that can be read.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AvroSchemaError(f"it is no JSON: {error}") from None
    return _Parser().type(document, "", 0)


class _Parser:
    def __init__(self) -> None:
        self._names: dict[str, AvroType | None] = {}  # `None` is for a record whose fields are being read

    def type(self, node: Any, namespace: str, level: int) -> AvroType:
        if level > _MOST_LEVELS:
            raise AvroSchemaError(f"it is more than {_MOST_LEVELS} levels deep")
        match node:
            case str():
                found = self._named(node, namespace)
            case [_, *_]:
                found = self._union(node, namespace, level)
            case {"type": dict() | list()}:
                found = self.type(node["type"], namespace, level + 1)
            case {"type": str()}:
                found = self._declared(cast("dict[str, Any]", node), namespace, level)
            case _:
                raise AvroSchemaError(f"{type(node).__name__} of JSON stands where a type should be")
        if found.types > _MOST_TYPES:
            raise AvroSchemaError(f"it has more than {_MOST_TYPES:,} types")
        return found

    def _named(self, name: str, namespace: str) -> AvroType:
        if name in _LEAST:
            return AvroType(name, _LEAST[name])
        full = _full(name, namespace)
        if full not in self._names and name in self._names:  # as Java's parser does it
            full = name
        if full not in self._names:
            raise AvroSchemaError(f"it does not declare {full[:80]!r}")
        if (found := self._names[full]) is None:
            raise AvroSchemaError(f"{full!r} contains itself")
        return found

    def _union(self, node: list[Any], namespace: str, level: int) -> AvroType:
        inner = tuple(self.type(branch, namespace, level + 1) for branch in node)
        if any(branch.kind == "union" for branch in inner):
            raise AvroSchemaError("a union stands in a union")
        return AvroType("union", 1 + min(each.least for each in inner), inner=inner, types=_types(inner))

    def _declared(self, node: dict[str, Any], namespace: str, level: int) -> AvroType:
        match kind := node["type"]:
            case "record" | "error":
                return self._record(node, namespace, level)
            case "enum":
                symbols = node.get("symbols")
                if not isinstance(symbols, list) or not all(isinstance(each, str) for each in symbols):
                    raise AvroSchemaError("an enum has no list of symbols")
                return self._keep(AvroType("enum", 1, _full_of(node, namespace), symbols=tuple(symbols)))
            case "fixed":
                size = node.get("size")
                if type(size) is not int or not 0 <= size <= _MOST_FIXED:
                    raise AvroSchemaError(f"{str(size)[:80]} is no size of a fixed")
                name, logical = _full_of(node, namespace), _logical(node)
                return self._keep(AvroType("fixed", size, name, logical, _scale(node), size))
            case "array" | "map":
                key = "items" if kind == "array" else "values"
                if key not in node:
                    raise AvroSchemaError(f"a type {kind} has no {key}")
                inner = (self.type(node[key], namespace, level + 1),)
                return AvroType(kind, 1, inner=inner, types=_types(inner))
            case _ if kind in _LEAST:
                return AvroType(kind, _LEAST[kind], logical=_logical(node), scale=_scale(node))
        return self._named(kind, namespace)

    def _record(self, node: dict[str, Any], namespace: str, level: int) -> AvroType:
        name = _full_of(node, namespace)
        self._names[name] = None
        within = name.rpartition(".")[0]
        declared, fields = node.get("fields"), []
        if not isinstance(declared, list):
            raise AvroSchemaError(f"{name!r} has no list of fields")
        for each in declared:
            match each:
                case {"name": str() as own, "type": kind}:
                    given = each.get("aliases")
                    aliases = given if isinstance(given, list) else []
                    known = tuple(alias for alias in aliases if isinstance(alias, str))
                    fields.append(AvroField(own, self.type(kind, within, level + 1), known))
                case _:
                    raise AvroSchemaError(f"a field of {name!r} has no name or no type")
        if len({field.name for field in fields}) < len(fields):
            raise AvroSchemaError(f"{name!r} has two fields of one name")
        inner = tuple(field.type for field in fields)
        least = sum(each.least for each in inner)
        return self._keep(AvroType("record", least, name, fields=tuple(fields), types=_types(inner)))

    def _keep(self, found: AvroType) -> AvroType:
        self._names[found.name] = found
        return found


def _types(inner: tuple[AvroType, ...]) -> int:
    return 1 + sum(each.types for each in inner)


def _full_of(node: dict[str, Any], namespace: str) -> str:
    """Return the full name of a type that a node declares."""
    name, own = node.get("name"), node.get("namespace", namespace)
    if not isinstance(name, str) or not name or not isinstance(own, str):
        raise AvroSchemaError(f"a type {node['type']} has no name")
    return _full(name, own)


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _logical(node: dict[str, Any]) -> str | None:
    """Return the logical type of a node. Avro ignores one that does not fit its type."""
    logical = node.get("logicalType")
    if logical not in _LOGICAL.get(node["type"], ()):
        return _logical_of_connect(node)
    if logical == "decimal":
        precision, scale = node.get("precision"), node.get("scale", 0)
        if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision:
            return None
    return str(logical)


def _logical_of_connect(node: dict[str, Any]) -> str | None:
    """Return the logical type that Kafka Connect names, whose converter writes Avro's own for a few only."""
    name = node.get("connect.name")
    logical = _OF_CONNECT.get(name) if isinstance(name, str) else None
    if logical in _LOGICAL.get(node["type"], ()):
        return logical
    # Other times of Debezium, such as a time of the day in nanoseconds, are no times that a column has.
    return name if isinstance(name, str) and name.startswith(_DEBEZIUM_TIME) else None


def _scale(node: dict[str, Any]) -> int:
    return int(node.get("scale", 0)) if _logical(node) == "decimal" else 0

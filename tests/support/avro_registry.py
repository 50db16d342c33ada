"""Records of Avro as fastavro writes them, and a registry whose schemas a process knows without asking it."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro

from endmark.domain import Domain
from endmark.schemas import registry as schema_registry
from endmark.schemas.registry import Schema, SchemaRegistry
from endmark.types import ColumnType

PUNCTUATION = json.loads((Path(__file__).parents[2] / "schemas" / "punctuation.v1.avsc").read_text())
MARK = "$punctuation"
Way = tuple[str, ...]
# The fields of an envelope beside its images and its op.
ENVELOPE: dict[str, Any] = {
    "source": {"version": "3.0.0.Final", "ts_ms": 1767225600000, "snapshot": "false", "pos": 1154},
    "transaction": {"id": "7", "total_order": 1},
    "ts_ms": 1767225600001,
}
# A registry that no process has. Its schemas are put where a process keeps those that it has asked for.
NOWHERE = "http://localhost:1"


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def connected(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a type as Kafka Connect's converter writes one of Connect's or Debezium's."""
    return {"type": kind, "connect.version": 1, "connect.name": name, **more}


def encoded(schema: Any, value: Any) -> bytes:
    """Return a value as fastavro writes it, without a frame."""
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return written.getvalue()


def framed(number: int, value: bytes) -> bytes:
    """Return a value in Confluent's framing."""
    return b"\0" + number.to_bytes(4, "big", signed=True) + value


def punctuation(patterns: Mapping[str, Any]) -> bytes:
    """Return a punctuation, without a frame."""
    return encoded(PUNCTUATION, {"punctuation": json.dumps(patterns)})


def registered(schema: Any) -> int:
    """Make a schema known to this process; return its id."""
    text = json.dumps(schema)
    number = zlib.crc32(text.encode()) - 2**31
    schemas, _ = schema_registry._cached(SchemaRegistry(NOWHERE))
    schemas[number] = Schema(text)
    return number


def from_json(document: Mapping[str, Any], columns: Mapping[Way, ColumnType]) -> bytes:
    """Return a row or a punctuation of JSON, framed, by a schema of its own in `NOWHERE`.

    Args:
        document: the row or the punctuation.
        columns: the types of columns, by the names of the nested members that lead to them.
    """
    if MARK in document:
        return framed(registered(PUNCTUATION), punctuation(document[MARK]))
    schema, value = _record(document, columns, ())
    return framed(registered(schema), encoded(schema, value))


def change_from_json(
    op: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    columns: Mapping[Way, ColumnType],
) -> bytes:
    """Return Debezium's envelope of row images of JSON, framed, by a schema of its own in `NOWHERE`."""
    images = {
        member: ("null", None) if image is None else _record(image, columns, (), name=member.capitalize())
        for member, image in (("before", before), ("after", after))
    }
    kinds = {
        member: ["null"] if found is None else ["null", kind] for member, (kind, found) in images.items()
    }
    values = {member: found for member, (_, found) in images.items()}
    schema = envelope_schema(kinds["before"], kinds["after"])
    return framed(registered(schema), encoded(schema, values | ENVELOPE | {"op": op}))


def envelope_schema(before: Any, after: Any) -> dict[str, Any]:
    """Return the schema of an envelope as Debezium 3 and Confluent's converter write it, given its images."""

    def declared(name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind} | ({"default": None} if isinstance(kind, list) else {})

    source = {"version": "string", "ts_ms": "long", "snapshot": ["null", "string"], "pos": "long"}
    block = {"id": "string", "total_order": "long"}
    of_source, of_block = (
        [declared(name, kind) for name, kind in fields.items()] for fields in (source, block)
    )
    fields = {
        "before": before,
        "after": after,
        "source": {"type": "record", "name": "Source", "fields": of_source, "connect.name": "shop.Source"},
        "transaction": ["null", {"type": "record", "name": "block", "fields": of_block}],
        "op": "string",
        "ts_ms": ["null", "long"],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": "shop.table",
        "fields": [declared(name, kind) for name, kind in fields.items()],
        "connect.version": 2,
        "connect.name": "shop.table.Envelope",
    }


def _record(
    members: Mapping[str, Any], columns: Mapping[Way, ColumnType], place: Way, *, name: str = "Row"
) -> tuple[Any, dict[str, Any]]:
    """Return a type for an object of JSON at a place, and its value as fastavro takes it."""
    found = {member: _typed(value, columns, (*place, member), name) for member, value in members.items()}
    fields = [{"name": member, "type": kind} for member, (kind, _) in found.items()]
    # A name is declared once.
    schema = {"type": "record", "name": "_".join((name, *place)), "namespace": "shop", "fields": fields}
    return schema, {member: value for member, (_, value) in found.items()}


def _typed(value: Any, columns: Mapping[Way, ColumnType], place: Way, name: str) -> tuple[Any, Any]:
    """Return a type for a value of JSON, and the value as fastavro takes it."""
    if isinstance(value, dict) and any(path[: len(place)] == place for path in columns):
        return _record(value, columns, place, name=name)
    kind = columns.get(place)
    found = _plainly(value) if kind is None or not isinstance(value, str) else _of_text(value, kind)
    return (["null", found[0]], found[1]) if kind is not None and kind.nullable else found


def _plainly(value: Any) -> tuple[Any, Any]:
    match value:
        case None:
            return "null", None
        case bool():
            return "boolean", value
        case int() if -(2**63) <= value < 2**63:
            return "long", value
        case int() | float():
            return "double", float(value)
        case str():
            return "string", value
    return {"type": "array", "items": "string"}, [json.dumps(each) for each in value]


def _of_text(value: str, kind: ColumnType) -> tuple[Any, Any]:
    try:
        match kind.domain:
            case Domain.DECIMAL:
                return logical("bytes", "decimal", precision=38, scale=kind.scale), Decimal(value)
            case Domain.DATE:
                return logical("int", "date"), date.fromisoformat(value)
            case Domain.TIMESTAMP:
                return logical("long", "timestamp-micros"), datetime.fromisoformat(value)
    except (ValueError, ArithmeticError):
        pass
    return "string", value

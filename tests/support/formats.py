"""Records of JSON streams, said in another format."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any
from xml.sax.saxutils import escape

from endmark.pipeline import Stream
from endmark.punctuation import wire_json
from endmark.types import ColumnType
from support import xml_promises
from support.avro_registry import change_from_json, from_json
from support.numbers import numbered
from support.record_parts import in_parts
from support.verify_world import Record

MARK = "$punctuation"
NO_RECORD = Record("", 0, None)
# As Debezium 3 writes it for MySQL.
SOURCE = {
    "version": "3.0.0.Final",
    "connector": "mysql",
    "name": "shop",
    "ts_ms": 1767225600000,
    "snapshot": "false",
    "db": "shop",
    "sequence": None,
    "table": "bids",
    "server_id": 1,
    "file": 'binlog "1"',
    "pos": 1154,
    "row": 0,
    "query": None,
}
SCHEMA = {
    "type": "struct",
    "fields": [{"type": "struct", "fields": [{"type": "int64", "optional": False}], "field": "after"}],
    "name": "shop.bids.Envelope",
}


def said(records: Iterable[Record], streams: Mapping[str, Stream]) -> list[Record]:
    """The records in the formats of their streams, without what a format cannot say.

    A record that is no row and no punctuation on columns of its stream stays as it is.
    """
    formats = {stream.topic: stream for stream in streams.values()}
    found: list[Record] = []
    for place, record in enumerate(records):
        stream = formats.get(record.topic)
        found += [record] if stream is None else _said(record, stream, place)
    return found


def _said(record: Record, stream: Stream, place: int) -> list[Record]:
    """The records that say a row or a punctuation in the way of a stream."""
    try:
        document = json.loads(record.value or b"")
    except ValueError:
        return [record]
    if not isinstance(document, dict) or not document.get(MARK, {}).keys() <= stream.columns.keys():
        return [record]
    document = numbered(document, stream.columns)
    if MARK not in document:
        record, document = in_parts(record, document, stream, zlib.crc32(b"%d" % place))
    return [replace(record, value=value) for value in _values(document, stream, place)]


def _values(document: dict[str, Any], stream: Stream, place: int) -> list[bytes | None]:
    if stream.format == "json":
        return [json.dumps(document, ensure_ascii=place % 2 == 0).encode()]
    if stream.format == "avro":
        return [from_json(document, _by_path(stream))]
    return [xml(document, stream)] if stream.format == "xml" else _captured(document, stream, place)


def _by_path(stream: Stream) -> dict[tuple[str, ...], ColumnType]:
    return {path: stream.columns[name] for name, path in stream.value_paths.items()}


def xml(document: Mapping[str, Any], stream: Stream) -> bytes:
    """A row or a punctuation."""
    if MARK in document:
        domains = {name: kind.spelled for name, kind in stream.columns.items()}
        return xml_promises.encode(wire_json.decode(json.dumps(document).encode(), "s", domains), domains)
    return f"<record>{''.join(_element(name, value) for name, value in document.items())}</record>".encode()


def _element(name: str, value: Any) -> str:
    """XML has no null, so nothing stands for it. An object or a list nests, as no declared column may."""
    match value:
        case None:
            return f"<{name}> </{name}>"
        case dict():
            inner = "".join(_element(member, each) for member, each in value.items())
            return f'<{name} kind="object">{inner}</{name}>'
        case list():
            return f"<{name}>{''.join(_element(name, each) for each in value)}</{name}>"
    return f"<{name}> {escape(value if isinstance(value, str) else json.dumps(value))}\n</{name}>"


def _captured(document: dict[str, Any], stream: Stream, place: int) -> list[bytes | None]:
    """Every kind of envelope in turn; a punctuation on the primary key is a deletion and its tombstone."""
    if MARK not in document:
        op = ("c", "r", "u")[place % 3]
        return [_change(op, None if op != "u" else document, document, stream, place)]
    named = {name: each.get("equals") for name, each in document[MARK].items()}
    if None in named.values() or not set(named) <= set(stream.punctuated_on):
        return [] if stream.format == "debezium" else [from_json(document, _by_path(stream))]
    _, before = in_parts(NO_RECORD, dict.fromkeys(stream.columns) | {"seller_id": 1} | named, stream, 0)
    return [_change("d", before, None, stream, place), None]


def _change(
    op: str, before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, stream: Stream, place: int
) -> bytes:
    if stream.format == "debezium_avro":
        return change_from_json(op, before, after, _by_path(stream))
    return envelope(op, before, after, wrapped=place % 2 == 0, shuffled=place % 5 == 0)


def envelope(
    op: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    wrapped: bool = False,
    shuffled: bool = False,
) -> bytes:
    """Return Debezium's record of a change; `shuffled` gives it an order that Debezium does not use."""
    found = {"before": before, "after": after, "source": SOURCE, "transaction": None, "op": op, "ts_ms": 1}
    if shuffled:
        found = dict(reversed(found.items()))
    document = {"schema": SCHEMA, "payload": found} if wrapped else found
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

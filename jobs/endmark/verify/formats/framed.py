"""The common part of the formats whose records are read with the schemas of their writers.

A format has one function that reads a record. All else that `verify` asks of it follows from that function.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from endmark.pipeline import Stream
from endmark.schemas.registry import Schema, SchemaFile, SchemaRegistry, UnknownSchemaError
from endmark.verify.formats.patterns import MARK
from endmark.verify.formats.reasons import UnreadableError

Schemas = SchemaFile | SchemaRegistry
# Such a function returns a row as its members, a deletion as a punctuation of members, another punctuation as
# JSON, and `None` for a record without effect. For any other record it raises UnreadableError, whose text is
# the reason.
ReadRecord = Callable[[Schemas, bytes, Stream], dict[str, Any] | bytes | None]

_HEAD = 5  # bytes: a zero, and the id of the schema


def flat(read: ReadRecord, schemas: Schemas, value: bytes, declared: Stream) -> bytes | None:
    """Return the row or punctuation of a record as flat JSON; `None` for any other record."""
    try:
        found = read(schemas, value, declared)
    except UnreadableError:
        return None
    return json.dumps(found, ensure_ascii=False).encode() if isinstance(found, dict) else found


def reason(read: ReadRecord, schemas: Schemas, value: bytes, declared: Stream) -> str:
    """Return the reason why a record is a dead letter, for one that is.

    Raises:
        UnreadableError: the record cannot be read to its end. The text is the reason.
    """
    found = read(schemas, value, declared)
    if found is None or isinstance(found, bytes) or MARK in found:
        return "bad_punctuation"
    return _reason_of_row(found, declared)


def is_skipped(read: ReadRecord, schemas: Schemas, value: bytes, declared: Stream) -> bool:
    """Return whether a record has no effect."""
    try:
        return read(schemas, value, declared) is None
    except UnreadableError:
        return False


def opened(schemas: Schemas, value: bytes) -> tuple[Schema, bytes]:
    """Return the schema of a record, and the bytes behind its id.

    Raises:
        UnreadableError: the record is empty, has no id, or one that is unknown. The text is the reason.
    """
    if not value:
        raise UnreadableError("empty")
    number = 0
    if schemas.framed:
        if len(value) < _HEAD or value[0] != 0:
            raise UnreadableError("malformed")
        number, value = int.from_bytes(value[1:_HEAD], "big", signed=True), value[_HEAD:]
    try:
        return schemas.schema(number), value
    except UnknownSchemaError:
        raise UnreadableError("unknown_schema") from None


def _reason_of_row(row: Mapping[str, Any], declared: Stream) -> str:
    for column, kind in declared.columns.items():
        if not kind.nullable and row.get(column) is None:
            return "missing_field"
    return "bad_value"

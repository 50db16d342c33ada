"""Reads Avro records strictly.

A row becomes the flat JSON that a producer of JSON would have sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from endmark.types import ColumnType
from endmark.verify.formats import framed
from endmark.verify.formats.avro_columns import (
    ColumnsByPath,
    json_of,
    lack_of,
    members_of,
    narrowed,
    require_columns,
)
from endmark.verify.formats.avro_reader import MalformedError, Reader
from endmark.verify.formats.avro_schema import BadSchemaError, Type, schema_of
from endmark.verify.formats.patterns import MARK
from endmark.verify.formats.reasons import UnreadableError

if TYPE_CHECKING:
    from endmark.pipeline import Stream
    from endmark.verify.formats.framed import Schemas

PUNCTUATION = "endmark.Punctuation"


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
        outermost = schema_of(schema.text)
    except BadSchemaError:
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
    wanted: ColumnsByPath = {path: name for name, path in declared.value_paths.items()}
    require_columns(written, wanted, declared)
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
    if (why := lack_of(written, path, wanted)) is not None:
        raise UnreadableError(why)
    found = _values(reader, written, {path: "it"})["it"]
    return None if found is None else json_of(*found, wanted)


def _values(reader: Reader, written: Type, wanted: ColumnsByPath) -> dict[str, tuple[Type, Any] | None]:
    """Read a value; return the types and values of the columns in it, and `None` for null."""
    if written.kind == "union":
        return _values(reader, written.inner[reader.index(written.inner)], wanted)
    if () in wanted or written.kind != "record":
        return dict.fromkeys(wanted.values(), reader.value(written))
    found: dict[str, tuple[Type, Any] | None] = {}
    for member, (_, _, kind) in zip(members_of(written, wanted), written.fields, strict=True):
        found |= _values(reader, kind, narrowed(wanted, member))
    return found

"""Reads Protobuf records strictly and one at a time, by Google's library.

The library reads a message with the fields alone that count, so that it looks into no others. Each of its
fields says whether a record has it. A row becomes the flat JSON that a producer of JSON would have sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.message import DecodeError

from endmark.domain import Domain
from endmark.pipeline import Stream
from endmark.schemas.proto_compiler import ProtoSchemaError, compile_schema
from endmark.schemas.registry import Schema
from endmark.types import ColumnType
from endmark.verify.formats import framed
from endmark.verify.formats.framed import Schemas
from endmark.verify.formats.members import DELETED
from endmark.verify.formats.patterns import MARK
from endmark.verify.formats.reasons import UnreadableError

_PUNCTUATION = "endmark.Punctuation"
_TIME = ".google.protobuf.Timestamp"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_IMPOSSIBLE = "no value"
_F = FieldDescriptorProto
_SIGNED = {_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_SINT32, _F.TYPE_SINT64, _F.TYPE_SFIXED32, _F.TYPE_SFIXED64}
_INTEGERS = _SIGNED | {_F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_FIXED32, _F.TYPE_FIXED64}
_FITS = {
    Domain.LONG: _INTEGERS,
    Domain.DOUBLE: _INTEGERS | {_F.TYPE_FLOAT, _F.TYPE_DOUBLE},
    Domain.STRING: {_F.TYPE_STRING, _F.TYPE_BYTES, _F.TYPE_ENUM},
    Domain.BOOLEAN: {_F.TYPE_BOOL},
    Domain.DECIMAL: {_F.TYPE_STRING},
    Domain.DATE: {_F.TYPE_STRING},
    Domain.TIMESTAMP: {_F.TYPE_STRING},
}
_READ_AS = {_F.TYPE_ENUM: _F.TYPE_INT32, _F.TYPE_STRING: _F.TYPE_BYTES, _F.TYPE_MESSAGE: _F.TYPE_BYTES}
_Paths = Mapping[tuple[str, ...], str]


class _Schema:
    """The messages and enums of a file by their full names with a dot in front."""

    def __init__(self, schema: Schema) -> None:
        files = FileDescriptorSet.FromString(compile_schema(schema.text, schema.imports)).file
        self.file = files[-1]
        self.messages: dict[str, tuple[DescriptorProto, bool]] = {}
        self.enums: dict[str, Any] = {}
        for file in files:
            self._add(file, f".{file.package}" if file.package else "", file.syntax == "proto3")

    def _add(self, scope: Any, name: str, implicit: bool) -> None:
        nested = scope.message_type if isinstance(scope, FileDescriptorProto) else scope.nested_type
        for each in nested:
            self.messages[f"{name}.{each.name}"] = each, implicit
            self._add(each, f"{name}.{each.name}", implicit)
        self.enums |= {f"{name}.{each.name}": each for each in scope.enum_type}


@lru_cache(1_000)
def _schema(schema: Schema) -> _Schema:
    return _Schema(schema)


def read_record(schemas: Schemas, value: bytes, declared: Stream) -> dict[str, Any] | bytes:
    """Return a row as its members, or a punctuation as JSON.

    Raises:
        UnreadableError: the record is neither. The text is the reason.
    """
    schema, value = _opened(schemas, value)
    name, value = _message(schema, value, framed=schemas.framed)
    if name == f".{_PUNCTUATION}":
        return _punctuation(schema, value)
    paths: _Paths = {path: column for column, path in declared.value_paths.items()}
    is_marked = DELETED in _fields(schema, name) and not _within(paths, DELETED)
    if is_marked or (declared.extra != "ignore" and _has_others(schema, name, paths)):
        raise UnreadableError("unknown_field")
    for path, column in paths.items():
        _require(schema, name, path, declared.columns[column])
    return _row(schema, name, paths, declared.columns, value)


def _opened(schemas: Schemas, value: bytes) -> tuple[_Schema, bytes]:
    """Return the schema of a record, and what follows its id."""
    schema, body = framed.opened(schemas, value)
    try:
        return _schema(schema), body
    except ProtoSchemaError:
        raise UnreadableError("bad_schema") from None


def _message(schema: _Schema, value: bytes, *, framed: bool) -> tuple[str, bytes]:
    """Return the name of a record's message, with a dot in front, and its bytes."""
    indexes, value = _indexes(value) if framed else ([0], value)
    nested, name = schema.file.message_type, f".{schema.file.package}" if schema.file.package else ""
    for index in indexes:
        if not 0 <= index < len(nested):
            raise UnreadableError("malformed")
        name, nested = f"{name}.{nested[index].name}", nested[index].nested_type
    return name, value


def _punctuation(schema: _Schema, value: bytes) -> bytes:
    name, path = f".{_PUNCTUATION}", ("punctuation",)
    field = _fields(schema, name).get("punctuation")
    if field is None or field.type != _F.TYPE_STRING:
        raise UnreadableError("bad_schema")
    found = _row(schema, name, {path: "it"}, {"it": ColumnType.STRING}, value)["it"]
    return f'{{"{MARK}": {found}}}'.encode()


def _indexes(value: bytes) -> tuple[list[int], bytes]:
    """Return the indexes of a message, and what follows them."""
    count, value = _zigzag(value)
    if not 0 <= count <= 32:
        raise UnreadableError("malformed")
    found = []
    for _ in range(count):
        index, value = _zigzag(value)
        found.append(index)
    return found or [0], value


def _zigzag(value: bytes) -> tuple[int, bytes]:
    found = 0
    for place, byte in enumerate(value[:10]):
        found += (byte % 128) << (7 * place)
        if byte < 128:
            if found >= 2**64:
                break
            return found // 2 if found % 2 == 0 else -(found + 1) // 2, value[place + 1 :]
    raise UnreadableError("malformed")


def _fields(schema: _Schema, name: str) -> dict[str, FieldDescriptorProto]:
    return {each.name: each for each in schema.messages[name][0].field}


def _within(paths: _Paths, name: str) -> dict[tuple[str, ...], str]:
    return {path[1:]: column for path, column in paths.items() if path[:1] == (name,)}


def _is_message(field: FieldDescriptorProto) -> bool:
    return bool(field.type == _F.TYPE_MESSAGE and field.label != _F.LABEL_REPEATED)


def _has_others(schema: _Schema, name: str, paths: _Paths) -> bool:
    """Return whether a field of a message leads to no column."""
    if () in paths:
        return False
    return any(
        not (inner := _within(paths, field))
        or (_is_message(each) and _has_others(schema, each.type_name, inner))
        for field, each in _fields(schema, name).items()
    )


def _require(schema: _Schema, name: str, path: tuple[str, ...], wanted: ColumnType) -> None:
    """Refuse a message that does not give a column."""
    field = _fields(schema, name).get(path[0])
    if field is None:
        if not wanted.nullable:
            raise UnreadableError("missing_field")
    elif len(path) > 1:
        if not _is_message(field):
            raise UnreadableError("wrong_type")
        _require(schema, field.type_name, path[1:], wanted)
    elif field.label == _F.LABEL_REPEATED or not _takes(field, wanted):
        raise UnreadableError("wrong_type")


def _takes(field: FieldDescriptorProto, wanted: ColumnType) -> bool:
    if wanted.domain in (Domain.DATE, Domain.TIMESTAMP) and wanted.spelling is not None:
        return field.type in _INTEGERS
    if wanted.domain is Domain.TIMESTAMP and field.type_name == _TIME:
        return True
    return field.type in _FITS[wanted.domain]


def _row(
    schema: _Schema, name: str, paths: _Paths, columns: Mapping[str, ColumnType], value: bytes
) -> dict[str, Any]:
    try:
        message = _reader(schema, name, tuple(sorted(paths.items()))).FromString(value)
    except DecodeError:
        raise UnreadableError("malformed") from None
    return {
        column: _value(schema, name, path, message, columns[column])
        for path, column in paths.items()
        if path[0] in _fields(schema, name)
    }


def _value(schema: _Schema, name: str, path: tuple[str, ...], message: Any, wanted: ColumnType) -> Any:
    """Return the value of a column as a producer of JSON would have sent it; `None` for null."""
    field, (_, implicit) = _fields(schema, name)[path[0]], schema.messages[name]
    there, here = message.HasField(field.name), getattr(message, field.name)
    if not there and not (implicit and field.type != _F.TYPE_MESSAGE and not field.HasField("oneof_index")):
        return None
    if len(path) > 1:
        known = path[1] in _fields(schema, field.type_name)
        return _value(schema, field.type_name, path[1:], here, wanted) if known else None
    if field.type_name == _TIME:
        return _time(here.seconds, here.nanos)
    if field.type == _F.TYPE_ENUM:
        names = {each.number: each.name for each in reversed(schema.enums[field.type_name].value)}
        return names.get(here, str(here))
    return _text(here) if isinstance(here, bytes) else here


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise UnreadableError("not_utf8") from None


def _time(seconds: int, nanos: int) -> str:
    if not 0 <= nanos < 10**9:
        return _IMPOSSIBLE
    try:
        found = _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        return _IMPOSSIBLE
    return found.isoformat().replace("+00:00", "Z")


@lru_cache(1_000)
def _reader(schema: _Schema, name: str, paths: tuple[tuple[tuple[str, ...], str], ...]) -> Any:
    """Return the class of a message with the fields alone that count, each of which may be missing."""
    file = FileDescriptorProto(name="read.proto", package="read", syntax="proto2")
    _pruned(schema, name, dict(paths), file.message_type.add(name="Row"), ".read.Row")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("read.Row"))


def _pruned(schema: _Schema, name: str, paths: _Paths, into: DescriptorProto, at: str) -> None:
    groups: dict[int, int] = {}
    for field in schema.messages[name][0].field:
        inner = _within(paths, field.name)
        if field.type == _F.TYPE_GROUP or (not inner and not field.HasField("oneof_index")):
            continue
        own = into.field.add(name=field.name, number=field.number, label=_F.LABEL_OPTIONAL)
        own.type = _READ_AS.get(field.type, field.type)
        if field.HasField("oneof_index"):
            if field.oneof_index not in groups:
                groups[field.oneof_index] = len(groups)
                into.oneof_decl.add(name=f"group_{len(groups)}")
            own.oneof_index = groups[field.oneof_index]
        if field.type == _F.TYPE_MESSAGE and inner:
            own.type, own.type_name = field.type, f"{at}.{field.name}_"
            inner = {("seconds",): "", ("nanos",): ""} if () in inner else inner  # the column is a time
            below = into.nested_type.add(name=f"{field.name}_")
            _pruned(schema, field.type_name, inner, below, own.type_name)

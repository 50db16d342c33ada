"""Schemas of Protobuf: the messages of a file by name, and by the indexes in Confluent's framing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.schemas.proto_compiler import compile_schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

    from endmark.schemas.registry import Schema

# The kinds of types, as a `FieldDescriptorProto` numbers them.
_KINDS = (
    *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group"),
    *("message", "bytes", "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64"),
)
_REPEATED = 3
VARINT, WIDE, SIZED, GROUP, END, NARROW = range(6)
_WIRES = {"fixed64": WIDE, "sfixed64": WIDE, "double": WIDE, "fixed32": NARROW, "sfixed32": NARROW}
_WIRES |= {"float": NARROW, "string": SIZED, "bytes": SIZED, "message": SIZED, "group": GROUP}


@dataclass(frozen=True)
class ProtoField:
    """A field of a message. As text, it is the name that an error has for its type.

    Args:
        name: its name.
        number: its number in records.
        kind: its type, such as `sint32`, `enum` or `message`.
        type_name: the full name of its message or its enum; empty for other types.
        repeated: whether it is a list or a map.
        optional: whether a record without it has null there, and not the default of its type.
        oneof: the number of the group of fields of which a record has one; -1 without such a group.
    """

    name: str
    number: int
    kind: str
    type_name: str = ""
    repeated: bool = False
    optional: bool = True
    oneof: int = -1

    def __str__(self) -> str:
        return f"{'repeated ' if self.repeated else ''}{self.type_name or self.kind}"

    @property
    def wire(self) -> int:
        """The way in which records write its values, as the lowest bits of their tags say it."""
        return _WIRES.get(self.kind, VARINT)


@dataclass(frozen=True)
class ProtoMessage:
    """A message.

    Args:
        name: its full name.
        fields: its fields.
    """

    name: str
    fields: tuple[ProtoField, ...]


class ProtoSchema:
    """The messages and enums of a compiled file and of all that it imports.

    Args:
        schema: the schema, as in `.proto` files.

    Raises:
        ProtoSchemaError: the text is no schema.
    """

    def __init__(self, schema: Schema) -> None:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        files = FileDescriptorSet.FromString(compile_schema(schema.text, schema.imports)).file
        self._file = files[-1]
        self._messages: dict[str, ProtoMessage] = {}
        self._enums: dict[str, dict[int, str]] = {}
        for file in files:
            within = f".{file.package}." if file.package else "."
            for each in file.message_type:
                self._add(each, within, file)
            self._add_enums(file.enum_type, within)

    def message(self, name: str) -> ProtoMessage:
        """Return a message, given its full name with a dot in front."""
        return self._messages[name]

    def symbols(self, name: str) -> dict[int, str]:
        """Return the names of an enum's numbers, given its full name with a dot in front."""
        return self._enums[name]

    def at(self, indexes: Sequence[int]) -> ProtoMessage | None:
        """Return a message by its index and those of the messages around it, the outermost first.

        `None` stands for no message.
        """
        messages, name = self._file.message_type, f".{self._file.package}" if self._file.package else ""
        for index in indexes:
            if not 0 <= index < len(messages):
                return None
            name += f".{messages[index].name}"
            messages = messages[index].nested_type
        return self._messages.get(name)

    def _add(self, message: DescriptorProto, within: str, file: FileDescriptorProto) -> None:
        name = within + message.name
        fields = tuple(_fields(message, implicit=file.syntax == "proto3"))
        self._messages[name] = ProtoMessage(name[1:], fields)
        for each in message.nested_type:
            self._add(each, f"{name}.", file)
        self._add_enums(message.enum_type, f"{name}.")

    def _add_enums(self, enums: Sequence[object], within: str) -> None:
        for each in enums:
            numbers: dict[int, str] = {}
            for value in each.value:  # type: ignore[attr-defined]
                numbers.setdefault(value.number, value.name)
            self._enums[within + each.name] = numbers  # type: ignore[attr-defined]


def _fields(message: DescriptorProto, *, implicit: bool) -> Iterator[ProtoField]:
    """Yield the fields of a message; `implicit` is whether a plain field is never null."""
    each: FieldDescriptorProto
    for each in message.field:
        kind = _KINDS[each.type - 1]
        in_group = each.HasField("oneof_index")
        optional = not implicit or in_group or kind in ("message", "group")
        yield ProtoField(
            each.name,
            each.number,
            kind,
            each.type_name,
            each.label == _REPEATED,
            optional,
            each.oneof_index if in_group else -1,
        )

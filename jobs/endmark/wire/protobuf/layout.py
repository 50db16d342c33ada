"""Layouts of Protobuf's messages: how the fields of one writer's message become columns of a stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from endmark.domain import Domain
from endmark.wire.json.shape import DELETED
from endmark.wire.protobuf.schema import SIZED
from endmark.wire.rejection import UnreadableError, undeclared_mark

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.types import ColumnType
    from endmark.wire.protobuf.schema import ProtoField, ProtoMessage, ProtoSchema

    Path = tuple[str, ...]

TIMESTAMP = ".google.protobuf.Timestamp"
INTEGERS = frozenset(
    [f"{sign}{width}" for sign in ("int", "uint", "sint", "fixed", "sfixed") for width in (32, 64)]
)
_NUMBERS = INTEGERS | {"float", "double"}
_TAKES = {
    Domain.LONG: INTEGERS,
    Domain.DOUBLE: _NUMBERS,
    Domain.STRING: frozenset(["string", "bytes", "enum"]),
    Domain.BOOLEAN: frozenset(["bool"]),
    Domain.DECIMAL: frozenset(["string"]),
    Domain.DATE: frozenset(["string"]),
    Domain.TIMESTAMP: frozenset(["string"]),
}


@dataclass
class Leaf:
    """A field that is a column.

    Args:
        field: the field.
        column: the name of the column.
    """

    field: ProtoField
    column: str


@dataclass
class Node:
    """A message on the way to columns.

    Args:
        path: the names of the fields that lead to it.
        leaves: its fields that are columns, by number.
        nodes: its fields with messages that have columns or are one, by number.
        times: the column that it is, if it is a time.
        clears: for the number of each field in a group of which a record has one, the numbers of those others
            in the group that are above. The way in which it is written is beside it.
    """

    path: Path
    leaves: dict[int, Leaf] = field(default_factory=dict)
    nodes: dict[int, tuple[ProtoField, Node]] = field(default_factory=dict)
    times: str | None = None
    clears: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict)


class ProtoLayout:
    """The columns that one type of messages has.

    Args:
        schema: the schema of the message.
        message: the message.
        columns: the columns to read; those that are not nullable have a value.
        paths: for each column the names of the nested fields that lead to it.
        ignoring: whether the message may have fields that are no columns.

    Attributes:
        root: the fields to read.
        extra: whether the message has fields that are no columns.
        named: the name of each column's field, for errors.

    Raises:
        UnreadableError: the message does not give the columns.
    """

    def __init__(
        self,
        schema: ProtoSchema,
        message: ProtoMessage,
        columns: Mapping[str, ColumnType],
        paths: Mapping[str, Path],
        *,
        ignoring: bool,
    ) -> None:
        self._schema = schema
        self.columns = columns
        self.named = {name: ".".join(path) for name, path in paths.items()}
        wanted = {path: name for name, path in paths.items()}
        unknown = self._unknown(message, wanted)
        self.extra = unknown is not None
        if self.extra and not ignoring:
            raise UnreadableError(
                "unknown_field",
                f"field {unknown!r} is not declared; declared are {', '.join(self.named.values())}",
            )
        if any(each.name == DELETED for each in message.fields) and not _below(wanted, DELETED):
            raise undeclared_mark()
        self.root = self._node(message, wanted, ())

    def symbols(self, written: ProtoField) -> dict[int, str]:
        """Return the names of the numbers of a field's enum."""
        return self._schema.symbols(written.type_name)

    def _unknown(self, message: ProtoMessage, wanted: Mapping[Path, str]) -> str | None:
        """Return the first field of a message that leads to no column, as a path; `None` if there is none."""
        for each in message.fields:
            inner = _below(wanted, each.name)
            if not inner:
                return each.name
            if () not in inner and each.kind == "message" and not each.repeated:
                found = self._unknown(self._schema.message(each.type_name), inner)
                if found is not None:
                    return f"{each.name}.{found}"
        return None

    def _node(self, message: ProtoMessage, wanted: Mapping[Path, str], path: Path) -> Node:
        node, fields = Node(path), {each.name: each for each in message.fields}
        for name in {way[0]: None for way in wanted}:
            inner = _below(wanted, name)
            if (written := fields.get(name)) is None:
                self._require_nullable(inner)
            elif () in inner:
                self._add_column(node, written, inner[()], (*path, name))
            elif written.kind != "message" or written.repeated:
                column = next(iter(inner.values()))
                raise UnreadableError(
                    "wrong_type", f"field {self.named[column]!r} must be in a message, but that is {written}"
                )
            else:
                within = self._node(self._schema.message(written.type_name), inner, (*path, name))
                node.nodes[written.number] = written, within
        read = node.leaves.keys() | node.nodes.keys()
        for each in message.fields:
            others = (other for other in message.fields if other.oneof == each.oneof and other is not each)
            cleared = tuple(other.number for other in others if other.number in read)
            if each.oneof >= 0 and each.kind != "group" and cleared:
                node.clears[each.number] = each.wire, cleared
        return node

    def _require_nullable(self, lacking: Mapping[Path, str]) -> None:
        for column in lacking.values():
            if not self.columns[column].nullable:
                raise UnreadableError("missing_field", f"the schema has no field {self.named[column]!r}")

    def _add_column(self, node: Node, written: ProtoField, column: str, path: Path) -> None:
        kind = self.columns[column]
        if written.type_name == TIMESTAMP and not written.repeated and _is_time(kind):
            message = self._schema.message(TIMESTAMP)
            leaves = {each.number: Leaf(each, f"{column}.{each.name}") for each in message.fields}
            node.nodes[written.number] = written, Node(path, leaves, times=column)
        elif takes(kind, written):
            node.leaves[written.number] = Leaf(written, column)
        else:
            raise UnreadableError(
                "wrong_type", f"field {self.named[column]!r} must be readable as {kind}, but is {written}"
            )


def takes(kind: ColumnType, written: ProtoField) -> bool:
    """Return whether a column takes the values of a field that is no message."""
    if written.repeated:
        return False
    if kind.spelling is not None and kind.domain in (Domain.DATE, Domain.TIMESTAMP):
        return written.kind in INTEGERS
    return written.kind in _TAKES[kind.domain]


def _is_time(kind: ColumnType) -> bool:
    return kind.domain is Domain.TIMESTAMP and kind.spelling is None


def _below(wanted: Mapping[Path, str], name: str) -> dict[Path, str]:
    """Return the columns that are in one field."""
    return {path[1:]: column for path, column in wanted.items() if path[0] == name}


__all__ = ["SIZED", "TIMESTAMP", "Leaf", "Node", "ProtoLayout", "takes"]

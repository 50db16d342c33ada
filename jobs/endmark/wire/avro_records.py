"""Parses Avro records of declared columns a column at a time, and punctuations that come as their own record.

A record in Confluent's framing begins with a zero byte and the id of its schema, in four bytes. Other streams
have one schema for all records. A schema is a record, or a union of records. One of them may be
`endmark.Punctuation`, whose only field is the text of a punctuation in JSON. All other records are rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.schema_registry import UnknownSchemaError
from endmark.wire.avro_cursor import PAD, Cursor
from endmark.wire.avro_layout import PUNCTUATION, Layout, punctuation_layout
from endmark.wire.avro_schema import AvroSchemaError, parse
from endmark.wire.json_records import MARK, JsonParser
from endmark.wire.merging import merged, placed
from endmark.wire.rejection import Rejection, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from endmark.state.search import Ints
    from endmark.types import ColumnType
    from endmark.wire.avro_members import Path
    from endmark.wire.avro_schema import AvroType
    from endmark.wire.json_records import Parsed

_FRAME = 5  # bytes: a zero, and the id of the schema
_OPENING = f'{{"{MARK}": '.encode()


class WriterSchemas(Protocol):
    """The schemas by which a stream's records are written."""

    @property
    def framed(self) -> bool:
        """True if each record has the id of its schema."""
        ...

    def text(self, number: int, /) -> str:
        """Return a schema as JSON, given its id; a stream without ids has one schema for any number.

        Raises:
            UnknownSchemaError: there is no schema of this id.
            EndmarkError: the schema cannot be had now.
        """
        ...

    def name(self, number: int, /) -> str:
        """Return the name of a schema, for errors."""
        ...


class AvroParser:
    """Parses the records of one stream.

    Args:
        columns: all columns of the stream, which punctuations name.
        punctuated_on: the columns that punctuations may restrict.
        stream: the name of the stream, for errors.
        schemas: the schemas of the writers.
        key: the columns of the key that a punctuation may name.
        heartbeat_on: the column that a heartbeat may restrict; `None` if the stream has no heartbeats.
        ignoring: whether a writer's schema may have other fields, which are left out.
        paths: for each column of a row the names of the nested fields that lead to it. Those that are not
            nullable have a value. `None`: a row has all columns, by their names.
    """

    def __init__(
        self,
        columns: Mapping[str, ColumnType],
        punctuated_on: Sequence[str],
        stream: str,
        schemas: WriterSchemas,
        *,
        key: Sequence[str],
        heartbeat_on: str | None = None,
        ignoring: bool = False,
        paths: Mapping[str, Path] | None = None,
    ) -> None:
        self._paths = {name: (name,) for name in columns} if paths is None else paths
        self._columns = {name: columns[name] for name in self._paths}
        self._schemas = schemas
        self._ignoring = ignoring
        of_value = {name: (name,) for name in self._paths}
        self._flat = JsonParser(
            columns, punctuated_on, stream, key=key, heartbeat_on=heartbeat_on, paths=of_value
        )
        self._none = self._flat.parse(pa.array([], pa.binary()))
        self._layouts: dict[int, tuple[AvroType, list[Branch | UnreadableError]]] = {}

    def parse(self, values: pa.Array) -> Parsed:
        """Parse the records in a binary array. No record raises: bad ones are in `rejections`.

        Raises:
            EndmarkError: a schema cannot be had now.
        """
        offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
        start, end = offsets[:-1].astype(np.int64), offsets[1:].astype(np.int64)
        data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
        found = _Found(values, np.concatenate([data, np.zeros(PAD, np.uint8)]), start, end)
        found.reject(np.flatnonzero(end == start), "empty", "the record has no value")
        there = np.flatnonzero(end > start)
        for number, at in self._by_schema(found, there):
            self._read(found, number, at)
        return merged([*found.pieces, replace(self._none, rejections=found.rejections)])

    def _by_schema(self, found: _Found, there: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield the id of each schema, and the positions of its records, which then begin behind the id."""
        if not self._schemas.framed:
            yield 0, there
            return
        start = found.start[there]
        framed = (found.end[there] - start >= _FRAME) & (found.data[start] == 0)
        why = "a record begins with a zero byte and the id of its schema in four bytes, this one does not"
        found.reject(there[~framed], "malformed", why)
        there, start = there[framed], start[framed]
        numbers = found.data[start[:, None] + np.arange(1, _FRAME)].view(">i4")[:, 0]
        found.start[there] += _FRAME
        if not len(there):
            return
        order = np.argsort(numbers, kind="stable")
        ids, first = np.unique(numbers[order], return_index=True)
        yield from zip(ids.tolist(), np.split(there[order], first[1:]), strict=True)

    def _read(self, found: _Found, number: int, at: Ints) -> None:
        """Read the records at some positions, which have one schema."""
        if not len(at):
            return
        try:
            written, branches = self._layouts_of(number)
        except UnreadableError as why:
            found.reject(at, why.reason, f"{self._schemas.name(number)}: {why}")
            return
        cursor = Cursor(found.data, found.start[at], found.end[at])
        branch = np.zeros(len(at), np.int64)
        if written.kind == "union":
            branch = cursor.index(cursor.rows, len(branches))
            torn = "the record begins with the number of no branch"
            found.reject(at[cursor.malformed], "malformed", f"{self._schemas.name(number)}: {torn}")
        for place, layout in enumerate(branches):
            rows = np.flatnonzero((branch == place) & ~cursor.malformed)
            if isinstance(layout, UnreadableError):
                found.reject(at[rows], layout.reason, f"{self._schemas.name(number)}: {layout}")
            elif len(rows):
                self._read_branch(found, layout, number, cursor, at[rows], rows)

    def _read_branch(
        self, found: _Found, layout: Branch, number: int, cursor: Cursor, at: Ints, rows: Ints
    ) -> None:
        columns = layout.layout.read(cursor, rows)
        for place, reason, error in columns.defects:
            found.reject(at[place : place + 1], reason, f"{self._schemas.name(number)}: {error}")
        sound, at = columns.batch.filter(pa.array(columns.sound)), at[columns.sound]
        if layout.punctuates:
            texts = pc.binary_join_element_wise(_OPENING, sound.column(0).cast(pa.binary()), b"}", b"")
            found.pieces.append(placed(self._flat.parse(texts), at, found.values))
            return
        extra = len(at) if layout.layout.extra else 0
        found.pieces.append(replace(self._none, rows=sound, row_at=at, extra=extra))

    def _layouts_of(self, number: int) -> tuple[AvroType, list[Branch | UnreadableError]]:
        """Return what `layouts` returns for the schema of an id.

        Raises:
            UnreadableError: no record of the schema can be read.
        """
        if (known := self._layouts.get(number)) is None:
            try:
                text = self._schemas.text(number)
            except UnknownSchemaError as why:
                raise UnreadableError("unknown_schema", str(why)) from None
            known = layouts(text, self._columns, self._paths, ignoring=self._ignoring)
            self._layouts[number] = known
        return known


def layouts(
    schema: str, columns: Mapping[str, ColumnType], paths: Mapping[str, Path], *, ignoring: bool
) -> tuple[AvroType, list[Branch | UnreadableError]]:
    """Return a schema, and the layout of each of its branches, or the reason why it has none.

    Args:
        schema: the schema, as JSON.
        columns: the columns of rows.
        paths: for each column the names of the nested fields that lead to it.
        ignoring: whether rows may have fields that are no columns.

    Raises:
        UnreadableError: the text is no schema that can be read.
    """
    try:
        written = parse(schema)
    except AvroSchemaError as why:
        raise UnreadableError("bad_schema", str(why)) from None
    branches = written.inner if written.kind == "union" else (written,)
    return written, [_branch(each, columns, paths, ignoring=ignoring) for each in branches]


def _branch(
    written: AvroType, columns: Mapping[str, ColumnType], paths: Mapping[str, Path], *, ignoring: bool
) -> Branch | UnreadableError:
    try:
        if written.kind != "record":
            raise UnreadableError("bad_schema", f"a row is a record, this is {written}")
        if written.name == PUNCTUATION:
            return Branch(punctuation_layout(written), punctuates=True)
        return Branch(Layout(written, columns, paths, ignoring=ignoring), punctuates=False)
    except UnreadableError as why:
        return why


@dataclass(frozen=True)
class Branch:
    """The layout of one type of records, which are rows or punctuations."""

    layout: Layout
    punctuates: bool


@dataclass
class _Found:
    """The records of one array, and what is found among them.

    Args:
        values: the records.
        data: the bytes of all of them.
        start: the place of each record's first byte that is not read yet.
        end: the place behind its last byte.
    """

    values: pa.Array
    data: np.ndarray
    start: Ints
    end: Ints
    pieces: list[Parsed] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)

    def reject(self, at: Ints, reason: str, error: str) -> None:
        """Reject the records at some positions."""
        self.rejections += [
            Rejection(place, reason, error, self.values[place].as_py()) for place in at.tolist()
        ]

"""Parses binary records by the schemas of their writers: finds that of each record, and names it in errors.

A record in Confluent's framing begins with a zero byte and the id of its schema, in four bytes. Other streams
have one schema for all records. Readers of single schemas do the rest, such as those of Avro.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from endmark.schemas.registry import UnknownSchemaError
from endmark.wire.merging import merged, repositioned
from endmark.wire.rejection import Rejection, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from endmark.schemas.registry import Schema
    from endmark.state.search import Ints
    from endmark.wire.json.records import Parsed

PAD = 16  # zeros behind the last record, so that a reader's step from its end stays in the buffer
_FRAME = 5  # bytes: a zero, and the id of the schema


class WriterSchemas(Protocol):
    """The schemas by which a stream's records are written."""

    @property
    def framed(self) -> bool:
        """True if each record has the id of its schema."""
        ...

    def schema(self, number: int, /) -> Schema:
        """Return a schema, given its id; a stream without ids has one schema for any number.

        Raises:
            UnknownSchemaError: there is no schema of this id.
            EndmarkError: the schema cannot be had now.
        """
        ...

    def name(self, number: int, /) -> str:
        """Return the name of a schema, for errors."""
        ...


@dataclass(frozen=True)
class Bytes:
    """Records of one schema, as positions in a buffer.

    Args:
        data: the buffer, with `PAD` bytes behind the last record.
        start: the position of each record's first byte behind its frame, ascending.
        end: the position behind its last byte.
    """

    data: np.ndarray
    start: Ints
    end: Ints


class SchemaReader(Protocol):
    """Reads the records of one schema."""

    @property
    def refused(self) -> list[UnreadableError]:
        """The reasons why records of some types in the schema cannot be read."""
        ...

    def read(self, records: Bytes) -> Parsed:
        """Return what is found among records, by their positions there.

        No record raises. Errors do not name the schema, and values of rejections do not count.
        """
        ...


class FramedParser:
    """Parses the records of one stream.

    Args:
        schemas: the schemas of the writers.
        reader: returns what reads records of a schema. It raises UnreadableError if no record of the schema
            can be read.
        none: what a parser of the stream finds among no records.
    """

    def __init__(
        self, schemas: WriterSchemas, reader: Callable[[Schema], SchemaReader], none: Parsed
    ) -> None:
        self._schemas = schemas
        self._reader = reader
        self._none = none
        self._readers: dict[int, SchemaReader] = {}

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

    def require(self, schema: Schema) -> None:
        """Check that records of a schema can be read.

        Raises:
            UnreadableError: those of some type in it cannot.
        """
        for why in self._reader(schema).refused:
            raise why

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
        name = self._schemas.name(number)
        try:
            reader = self._reader_of(number)
        except UnreadableError as why:
            found.reject(at, why.reason, f"{name}: {why}")
            return
        parsed = repositioned(
            reader.read(Bytes(found.data, found.start[at], found.end[at])), at, found.values
        )
        named = [replace(each, error=f"{name}: {each.error}") for each in parsed.rejections]
        found.pieces.append(replace(parsed, rejections=named))

    def _reader_of(self, number: int) -> SchemaReader:
        """Return what reads the records of a schema, given its id.

        Raises:
            UnreadableError: no record of the schema can be read.
        """
        if (known := self._readers.get(number)) is None:
            try:
                schema = self._schemas.schema(number)
            except UnknownSchemaError as why:
                raise UnreadableError("unknown_schema", str(why)) from None
            known = self._readers[number] = self._reader(schema)
        return known


@dataclass
class _Found:
    """The records of one array, and what is found among them.

    Args:
        values: the records.
        data: the bytes of all of them.
        start: the position of each record's first byte that is not read yet.
        end: the position behind its last byte.
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
            Rejection(position, reason, error, self.values[position].as_py()) for position in at.tolist()
        ]

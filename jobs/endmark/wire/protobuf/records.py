"""Parses Protobuf records of declared columns a column at a time, and punctuations as a message of their own.

In Confluent's framing, the indexes of a message in its file stand between the id of the schema and the value.
A record of a stream without frames has the first message of its file. The message `endmark.Punctuation` has
the text of a punctuation in JSON. All other messages are rows.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from endmark.schemas.proto_compiler import ProtoSchemaError
from endmark.types import ColumnType
from endmark.wire.avro.cursor import Cursor
from endmark.wire.framed_records import FramedParser
from endmark.wire.json.records import JsonParser
from endmark.wire.judged_columns import (
    Columns,
    judged,
    promised,
    punctuations_in_json,
    rejecting,
    sound_rows,
)
from endmark.wire.merging import merged, repositioned
from endmark.wire.protobuf.columns import columns_of
from endmark.wire.protobuf.layout import ProtoLayout
from endmark.wire.protobuf.reading import Found, read_messages
from endmark.wire.protobuf.schema import ProtoSchema
from endmark.wire.rejection import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.schemas.registry import Schema
    from endmark.state.search import Ints
    from endmark.wire.framed_records import Bytes, WriterSchemas
    from endmark.wire.json.records import Parsed
    from endmark.wire.protobuf.schema import ProtoMessage
    from endmark.wire.record_spec import RecordSpec

PUNCTUATION = "endmark.Punctuation"
_TEXT = "punctuation"
_DEEPEST = 32  # messages within messages, of which an index names each
Indexes = tuple[int, ...]


class ProtoParser(FramedParser):
    """Parses the records of one stream.

    Args:
        records: what the records may say. Their members are the fields of messages.
        schemas: the schemas of the writers.
    """

    def __init__(self, records: RecordSpec, schemas: WriterSchemas) -> None:
        punctuations, none = punctuations_in_json(records)

        def reader(schema: Schema) -> _ProtoReader:
            layout = partial(_layout, records=records)
            return _ProtoReader(schema, layout, punctuations, none, framed=schemas.framed)

        super().__init__(schemas, reader, none)


def _layout(schema: ProtoSchema, message: ProtoMessage, *, records: RecordSpec) -> ProtoLayout:
    """Return the layout of a message of rows, or of punctuations.

    Raises:
        UnreadableError: the message does not give the columns.
    """
    if message.name != PUNCTUATION:
        return ProtoLayout(schema, message, records.in_rows, records.value_paths, ignoring=records.ignoring)
    if not any(each.name == _TEXT and each.kind == "string" for each in message.fields):
        raise UnreadableError("bad_schema", f"{PUNCTUATION} has no field {_TEXT!r} of type string")
    return ProtoLayout(schema, message, {_TEXT: ColumnType.STRING}, {_TEXT: (_TEXT,)}, ignoring=True)


class _ProtoReader:
    """Reads the records of one schema.

    Args:
        schema: the schema.
        layout: returns the layout of a message.
        punctuations: the parser of punctuations in JSON.
        none: what a parser of the stream finds among no records.
        framed: whether records begin with the indexes of their message.

    Raises:
        UnreadableError: the text is no schema.
    """

    def __init__(
        self,
        schema: Schema,
        layout: partial[ProtoLayout],
        punctuations: JsonParser,
        none: Parsed,
        *,
        framed: bool,
    ) -> None:
        try:
            self._schema = ProtoSchema(schema)
        except ProtoSchemaError as why:
            raise UnreadableError("bad_schema", str(why)) from None
        self._make_layout = layout
        self._punctuations, self._none, self._framed = punctuations, none, framed
        self._layouts: dict[str, ProtoLayout | UnreadableError] = {}

    @property
    def refused(self) -> list[UnreadableError]:
        """The reason why records of the first message cannot be read."""
        message = self._schema.at((0,))
        if message is None:
            return [UnreadableError("bad_schema", "it has no message")]
        layout = self._layout_of(message)
        return [layout] if isinstance(layout, UnreadableError) else []

    def read(self, records: Bytes) -> Parsed:
        """Return what is found among records, by their positions there."""
        cursor = Cursor(records.data, records.start, records.end)
        pieces = []
        for indexes, rows in self._by_message(cursor):
            message = self._schema.at(indexes)
            if message is None:
                torn = f"the record begins with the indexes {list(indexes)}, which are of no message"
                pieces.append(rejecting(self._none, rows, "malformed", torn))
                continue
            layout = self._layout_of(message)
            if isinstance(layout, UnreadableError):
                pieces.append(rejecting(self._none, rows, layout.reason, str(layout)))
                continue
            columns = _read(layout, cursor, rows)
            pieces.append(repositioned(self._parsed(layout, message, columns), rows))
        torn = "the record does not begin with the indexes of its message"
        pieces.append(rejecting(self._none, np.flatnonzero(cursor.malformed), "malformed", torn))
        return merged([*pieces, self._none])

    def _parsed(self, layout: ProtoLayout, message: ProtoMessage, columns: Columns) -> Parsed:
        if message.name != PUNCTUATION:
            return sound_rows(self._none, columns, extra=layout.extra)
        return promised(self._none, columns, self._punctuations)

    def _by_message(self, cursor: Cursor) -> Iterator[tuple[Indexes, Ints]]:
        """Yield the indexes of each message, and its records, which then begin behind the indexes."""
        if not self._framed:
            yield (0,), cursor.rows
            return
        counts = cursor.longs(cursor.rows)
        cursor.fail(cursor.rows, (counts < 0) | (counts > _DEEPEST))
        first = np.flatnonzero((counts == 0) & ~cursor.malformed)
        if len(first):
            yield (0,), first  # one zero stands for the first message
        for count in np.unique(counts[(counts > 0) & ~cursor.malformed]).tolist():
            rows = np.flatnonzero((counts == count) & ~cursor.malformed)
            indexes = np.stack([cursor.ints(rows) for _ in range(count)], axis=1)
            sound = ~cursor.malformed[rows]
            several, among = np.unique(indexes[sound], axis=0, return_inverse=True)
            for number, each in enumerate(several.tolist()):
                yield tuple(each), rows[sound][among.reshape(-1) == number]

    def _layout_of(self, message: ProtoMessage) -> ProtoLayout | UnreadableError:
        if (known := self._layouts.get(message.name)) is None:
            try:
                known = self._make_layout(self._schema, message)
            except UnreadableError as why:
                known = why
            self._layouts[message.name] = known
        return known


def _read(layout: ProtoLayout, cursor: Cursor, rows: Ints) -> Columns:
    """Read messages to their ends."""
    found = Found(cursor.data, len(rows))
    malformed = read_messages(found, layout.root, cursor.at[rows], cursor.end[rows], np.arange(len(rows)))
    return judged(columns_of(layout, found, len(rows)), malformed, layout.columns, layout.named)

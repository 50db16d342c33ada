"""Parses Avro records of declared columns a column at a time, and punctuations that come as their own record.

A schema is a record, or a union of records. One of them may be `endmark.Punctuation`, whose only field is the
text of a punctuation in JSON. All other records are rows, or in another parser changes of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from endmark.wire.avro.cursor import Cursor
from endmark.wire.avro.layout import PUNCTUATION, Layout, punctuation_layout
from endmark.wire.avro.schema import AvroSchemaError, parse
from endmark.wire.framed_records import FramedParser
from endmark.wire.json.records import JsonParser
from endmark.wire.judged_columns import promised, punctuations_in_json, rejecting, sound_rows
from endmark.wire.merging import merged, repositioned
from endmark.wire.rejection import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.schemas.registry import Schema
    from endmark.state.search import Ints
    from endmark.wire.avro.schema import AvroType
    from endmark.wire.framed_records import Bytes, WriterSchemas
    from endmark.wire.json.records import Parsed
    from endmark.wire.record_spec import RecordSpec


class TypeReader(Protocol):
    """Reads the records of one type to their ends."""

    @property
    def refused(self) -> UnreadableError | None:
        """The reason why no row can be read; `None` if rows can."""
        ...

    def read(self, cursor: Cursor, rows: Ints) -> Parsed:
        """Return what is found among some records of a cursor, by their positions in `rows`."""
        ...


class AvroParser(FramedParser):
    """Parses the records of one stream.

    Args:
        records: what the records may say. Their members are the fields of records.
        schemas: the schemas of the writers.
    """

    def __init__(self, records: RecordSpec, schemas: WriterSchemas) -> None:
        punctuations, none = punctuations_in_json(records)

        def rows(record: AvroType) -> TypeReader:
            layout = Layout(record, records.in_rows, records.value_paths, ignoring=records.ignoring)
            return _RowReader(layout, none)

        super().__init__(schemas, partial(AvroReader, rows=rows, punctuations=punctuations, none=none), none)


class AvroReader:
    """Reads the records of one schema.

    Args:
        schema: the schema.
        rows: returns what reads the records of a type that are no punctuations. It raises UnreadableError if
            none of them can be read.
        punctuations: the parser of punctuations in JSON.
        none: what a parser of the stream finds among no records.

    Raises:
        UnreadableError: the text is no schema that can be read.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        rows: Callable[[AvroType], TypeReader],
        punctuations: JsonParser,
        none: Parsed,
    ) -> None:
        try:
            self._written = parse(schema.text)
        except AvroSchemaError as why:
            raise UnreadableError("bad_schema", str(why)) from None
        self._rows = rows
        self._punctuations = punctuations
        self._none = none
        types = self._written.inner if self._written.kind == "union" else (self._written,)
        self._branches = [self._branch(each) for each in types]

    @property
    def refused(self) -> list[UnreadableError]:
        """The reasons why branches of the schema cannot be read."""
        reasons = (each if isinstance(each, UnreadableError) else each.refused for each in self._branches)
        return [why for why in reasons if why is not None]

    def read(self, records: Bytes) -> Parsed:
        """Return what is found among records, by their positions there."""
        cursor = Cursor(records.data, records.start, records.end)
        branch = np.zeros(len(records.start), np.int64)
        pieces = []
        if self._written.kind == "union":
            branch = cursor.index(cursor.rows, len(self._branches))
            torn = "the record begins with the number of no branch"
            pieces.append(rejecting(self._none, np.flatnonzero(cursor.malformed), "malformed", torn))
        within = ~cursor.malformed
        for number, branch_reader in enumerate(self._branches):
            rows = np.flatnonzero((branch == number) & within)
            if isinstance(branch_reader, UnreadableError):
                pieces.append(rejecting(self._none, rows, branch_reader.reason, str(branch_reader)))
            elif len(rows):
                pieces.append(repositioned(branch_reader.read(cursor, rows), rows))
        return merged([*pieces, self._none])

    def _branch(self, written: AvroType) -> TypeReader | UnreadableError:
        try:
            if written.kind != "record":
                raise UnreadableError("bad_schema", f"a row is a record, this is {written}")
            if written.name == PUNCTUATION:
                return _PromiseReader(punctuation_layout(written), self._punctuations, self._none)
            return self._rows(written)
        except UnreadableError as why:
            return why


@dataclass(frozen=True)
class _RowReader:
    """Reads rows of one layout; `none` is what a parser of the stream finds among no records."""

    layout: Layout
    none: Parsed
    refused: ClassVar[UnreadableError | None] = None

    def read(self, cursor: Cursor, rows: Ints) -> Parsed:
        return sound_rows(self.none, self.layout.read(cursor, rows), extra=self.layout.extra)


@dataclass(frozen=True)
class _PromiseReader:
    """Reads punctuations, each of which is a text."""

    layout: Layout
    punctuations: JsonParser
    none: Parsed
    refused: ClassVar[UnreadableError | None] = None

    def read(self, cursor: Cursor, rows: Ints) -> Parsed:
        return promised(self.none, self.layout.read(cursor, rows), self.punctuations)

"""Reads Debezium's envelopes in Avro, as Kafka Connect writes them, as rows and punctuations.

An envelope is a record with the fields `op`, `before` and `after`. The latter two are row images, which are
records or null. Its other fields do not count. `change` says what an envelope is by its `op`, as it does for
envelopes in JSON. All envelopes of a schema are read a column at a time.

A punctuation that comes as its own record promises something, but deletes no row. So it is never among the
keys that deletions name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Punctuation
from endmark.types import ColumnType
from endmark.wire.avro.columns import reader_of
from endmark.wire.avro.layout import Layout
from endmark.wire.avro.records import AvroReader
from endmark.wire.change import Change, ChangeRules, no_envelope
from endmark.wire.framed_records import FramedParser
from endmark.wire.json.reader import mask
from endmark.wire.json.records import JsonParser
from endmark.wire.judged_columns import punctuations_in_json, sound_rows
from endmark.wire.merging import merged, repositioned
from endmark.wire.rejection import Rejection, UnreadableError
from endmark.wire.values import sound

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from endmark.state.search import Bools, Ints
    from endmark.wire.avro.cursor import Cursor
    from endmark.wire.avro.schema import AvroType
    from endmark.wire.framed_records import WriterSchemas
    from endmark.wire.json.records import Parsed
    from endmark.wire.judged_columns import Columns
    from endmark.wire.record_spec import RecordSpec
    from endmark.wire.values import Values


class DebeziumAvroParser(FramedParser):
    """Parses the records of one stream.

    Args:
        records: what the records may say. Its punctuations come as their own record, and name no key. A row
            image has all columns that a deletion names.
        schemas: the schemas of the writers.
        rules: what its changes are.
    """

    def __init__(self, records: RecordSpec, schemas: WriterSchemas, rules: ChangeRules) -> None:
        columns, paths, key = records.columns, records.value_paths, records.named
        named = rules.deleted_on
        _, none = punctuations_in_json(replace(records, punctuated_on=named))
        punctuations = JsonParser(replace(records.flat, key=()))
        kinds = {name: columns[name].required for name in named}
        key_paths = {name: paths[name] for name in named}
        changes = partial(
            ChangeReader,
            none=none,
            rules=rules,
            after=lambda image: Layout(image, records.in_rows, paths, ignoring=records.ignoring),
            before=lambda image: Layout(image, kinds, key_paths, ignoring=True),
            deletions=_Deletions(none, records.stream, tuple(key) if key.keys() == set(named) else ()),
        )
        reader = partial(AvroReader, rows=changes, punctuations=punctuations, none=none)
        super().__init__(schemas, reader, none)


class ChangeReader:
    """Reads the envelopes of one type to their ends.

    Args:
        envelope: the type, a record.
        none: what a parser of the stream finds among no records.
        rules: what the changes of the stream are.
        after: returns the layout of an image that is a row.
        before: returns the layout of an image whose primary key is deleted.
        deletions: makes punctuations of the keys that are deleted.

    Raises:
        UnreadableError: the type is no envelope.
    """

    def __init__(
        self,
        envelope: AvroType,
        *,
        none: Parsed,
        rules: ChangeRules,
        after: Callable[[AvroType], Layout],
        before: Callable[[AvroType], Layout],
        deletions: _Deletions,
    ) -> None:
        self._fields = {field.name: field.type for field in envelope.fields}
        op = reader_of(self._fields["op"], ColumnType.STRING) if "op" in self._fields else None
        if op is None:
            raise no_envelope("op", "a text")
        self._op = op
        self._none, self._rules, self._deletions = none, rules, deletions
        self._images = {"after": _Image(self._fields.get("after"), after)}
        if rules.deleted_on:
            self._images["before"] = _Image(self._fields.get("before"), before)

    @property
    def refused(self) -> UnreadableError | None:
        layout = self._images["after"].layout
        return layout if isinstance(layout, UnreadableError) else None

    def read(self, cursor: Cursor, rows: Ints) -> Parsed:
        """Return what is found among records, by their positions in `rows`."""
        images, ops = {}, sound(pa.nulls(len(rows), pa.string()))
        for name, written in self._fields.items():
            if name == "op":
                ops = self._op(cursor, rows)
            elif name in self._images:
                images[name] = self._images[name].read(cursor, rows)
            else:
                cursor.skip(rows, written)
        cursor.finish(rows)
        left = _Left(len(rows))
        torn = UnreadableError("malformed", "the bytes are no value of it, or others stand behind the value")
        left.reject(cursor.malformed[rows], torn)
        kinds = self._kinds(left, ops)
        nothing = int((kinds == Change.NOTHING).sum())
        pieces = [self._rows(left, kinds == Change.ROW, images.get("after", _NO_IMAGES))]
        if self._rules.deleted_on:
            images_before = images.get("before", _NO_IMAGES)
            pieces.append(self._deleted(left, kinds == Change.DELETION, images_before))
        found = merged([*pieces, replace(self._none, rejections=left.rejections)])
        return replace(found, skipped=nothing)

    def _kinds(self, left: _Left, ops: Values) -> Ints:
        """Return the `Change` of each record, and -1 for those that are rejected."""
        left.reject(ops.garbled, UnreadableError("not_utf8", "the text of field 'op' is not UTF-8"))
        left.reject(mask(ops.array.is_null()), no_envelope("op", "a text"))
        texts = ops.array.fill_null("").dictionary_encode()
        kinds, errors = [], {}
        for number, op in enumerate(texts.dictionary.to_pylist()):
            try:
                kinds.append(int(self._rules.of(op)))
            except UnreadableError as why:
                kinds.append(-1)
                errors[number] = why
        numbers = texts.indices.to_numpy()
        found = np.array(kinds, np.int64)[numbers]
        for at in np.flatnonzero((found < 0) & left.mask).tolist():
            left.reject_one(at, errors[int(numbers[at])])
        return np.where(left.mask, found, -1)

    def _rows(self, left: _Left, among: Bools, images: _Images) -> Parsed:
        """Return the rows that some records are."""
        images = images.of(left, among, "after")
        if isinstance(images.layout, UnreadableError):
            left.reject(images.mask(among), images.layout)
            return self._none
        columns = images.layout.judged(images.values, np.zeros(len(images.at), bool))
        return repositioned(sound_rows(self._none, columns, extra=images.layout.extra), images.at)

    def _deleted(self, left: _Left, among: Bools, images: _Images) -> Parsed:
        """Return the keys that some records delete."""
        images = images.of(left, among, "before")
        if isinstance(images.layout, UnreadableError):
            left.reject(images.mask(among), _no_key(str(images.layout)))
            return self._none
        columns = images.layout.judged(images.values, np.zeros(len(images.at), bool))
        for at, reason, error in columns.defects:
            why = UnreadableError(reason, error) if reason == "not_utf8" else _no_key(error)
            left.reject_one(int(images.at[at]), why)
        return repositioned(self._deletions.of(columns), images.at)


def _no_key(error: str) -> UnreadableError:
    return UnreadableError("bad_punctuation", f"`before`: {error}; a deletion names the whole primary key")


@dataclass(frozen=True)
class _Deletions:
    """Makes punctuations of the keys that are deleted.

    Args:
        none: what a parser of the stream finds among no records.
        stream: the name of the stream.
        key: the columns of the join key if deletions name it, or else none. They are promises then.
    """

    none: Parsed
    stream: str
    key: tuple[str, ...]

    def of(self, columns: Columns) -> Parsed:
        """Return what the deletions of primary keys say, but for those that have a defect."""
        at, keys = np.flatnonzero(columns.sound), columns.batch.filter(pa.array(columns.sound))
        if self.key:
            return replace(self.none, closed_keys=keys.select(list(self.key)), closed_keys_at=at)
        patterns = [{name: Equals(value) for name, value in key.items()} for key in keys.to_pylist()]
        promises = [Punctuation.of(self.stream, each) for each in patterns]
        return replace(self.none, promises=list(zip(at.tolist(), promises, strict=True)))


class _Left:
    """The records of one type that are not rejected.

    Attributes:
        mask: a mask of these records.
        rejections: those of the others.
    """

    def __init__(self, count: int) -> None:
        self.mask = np.ones(count, bool)
        self.rejections: list[Rejection] = []

    def reject(self, bad: Bools, why: UnreadableError) -> None:
        """Reject those of some records that are not yet rejected."""
        for at in np.flatnonzero(bad & self.mask).tolist():
            self.reject_one(at, why)

    def reject_one(self, at: int, why: UnreadableError) -> None:
        """Reject a record at a position."""
        self.mask[at] = False
        self.rejections.append(Rejection(at, why.reason, str(why), None))


class _Image:
    """Reads row images of one field.

    Args:
        written: the type of the field; `None` if envelopes have none.
        layout: returns the layout of a record that is an image.

    Attributes:
        layout: the layout of images, or the reason why it cannot be had.
    """

    def __init__(self, written: AvroType | None, layout: Callable[[AvroType], Layout]) -> None:
        self._branches = () if written is None else written.inner if written.kind == "union" else (written,)
        self._is_union = written is not None and written.kind == "union"
        records = [number for number, each in enumerate(self._branches) if each.kind == "record"]
        self._record = records[0] if len(records) == 1 else -1
        self.layout: Layout | UnreadableError = UnreadableError("bad_envelope", "it has no image of one type")
        if self._record >= 0:
            try:
                self.layout = layout(self._branches[self._record])
            except UnreadableError as why:
                self.layout = why

    def read(self, cursor: Cursor, rows: Ints) -> _Images:
        """Read the images of records, or step over them if they have no layout."""
        branch = np.zeros(len(rows), np.int64)
        if self._is_union:
            branch = cursor.index(rows, len(self._branches))
        found = _Images(self.layout, np.zeros(0, np.int64), {})
        for number, written in enumerate(self._branches):
            at = np.flatnonzero(branch == number)
            if number != self._record:
                cursor.skip(rows[at], written)
            elif isinstance(self.layout, UnreadableError):
                cursor.skip(rows[at], written)
                found = _Images(self.layout, at, {})
            else:
                found = _Images(self.layout, at, self.layout.values(cursor, rows[at]))
        return found


@dataclass(frozen=True)
class _Images:
    """Row images of some records.

    Args:
        layout: the layout of the images, or the reason why they cannot be read.
        at: the positions of the records that have one, ascending.
        values: the columns of the images, if there is a layout.
    """

    layout: Layout | UnreadableError
    at: Ints
    values: Mapping[str, Values]

    def of(self, left: _Left, among: Bools, member: str) -> _Images:
        """Return the images of some records, and reject those of them that have none."""
        there = np.zeros(len(among), bool)
        there[self.at] = True
        left.reject(among & ~there, no_envelope(member, "a record"))
        wanted = among[self.at]
        if wanted.all():
            return self
        values = {name: each.filter(wanted) for name, each in self.values.items()}
        return _Images(self.layout, self.at[wanted], values)

    def mask(self, among: Bools) -> Bools:
        """Return a mask of the records that have an image."""
        found = np.zeros(len(among), bool)
        found[self.at] = True
        return found


_NO_IMAGES = _Images(UnreadableError("bad_envelope", "it has no image"), np.zeros(0, np.int64), {})

"""Adds the columns that a Kafka record has beside its value: from its key, its headers and its timestamp.

Keys and headers are texts in UTF-8. They spell values as JSON does, but without quotes. A missing one is
null. All are read a column at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.wire.json.reader import FIRST, LAST, mask
from endmark.wire.json.records import JsonParser
from endmark.wire.json.spelling import example
from endmark.wire.json.unquoted import UnquotedReader, scattered
from endmark.wire.record_spec import RecordSpec
from endmark.wire.rejection import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from endmark.state.search import Bools
    from endmark.types import ColumnType
    from endmark.wire.json.records import Parsed
    from endmark.wire.json.shape import Path

# The columns of a batch of records that are read beside those of every batch, as in `endmark.kafka.ranges`.
KEY, HEADERS = "key", "headers"
_UNREADABLE = "the record's headers cannot be read; let the producer name all of them in UTF-8"
_NO_TIME = -1000  # the microseconds of Kafka's -1 ms, which stands for no timestamp
_SHOWN = 80  # letters of a wrong text in an error


@dataclass(frozen=True)
class RecordColumns:
    """The columns of a stream that its records have beside their values. At least one column is in the value.

    Args:
        columns: the types of all columns of the stream, in their order.
        keys: the columns that are the whole key as text.
        members: for each column that is in a key of JSON the names of the nested members that lead to it.
            All other members of a key may be anything.
        headers: the header of each column that is one. The last header of this name counts.
        timestamps: the columns that are the record's timestamp.
    """

    columns: Mapping[str, ColumnType]
    keys: tuple[str, ...] = ()
    members: Mapping[str, Path] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    timestamps: tuple[str, ...] = ()

    @property
    def needs(self) -> frozenset[str]:
        """The columns of a batch of records that are read beside those of every batch."""
        key = [KEY] if self.keys or self.members else []
        return frozenset([*key, *([HEADERS] if self.headers else [])])

    def reader(self) -> RecordReader:
        """Return the reader of these columns."""
        return RecordReader(self)


class RecordReader:
    """Reads the columns that the records of one stream have beside their values.

    Args:
        taken: the columns.
    """

    def __init__(self, taken: RecordColumns) -> None:
        self._taken = taken
        kinds = {name: taken.columns[name] for name in taken.members}
        self._key = (
            JsonParser(RecordSpec(kinds, (), "the key", ignoring=True, paths=taken.members))
            if kinds
            else None
        )
        self._texts = {name: UnquotedReader(taken.columns[name]) for name in (*taken.keys, *taken.headers)}

    def added(self, parsed: Parsed, records: pa.RecordBatch) -> Parsed:
        """Return the rows with all columns. One whose key, header or timestamp is unfit becomes a rejection.

        Args:
            parsed: the parsed values of the records.
            records: the records, with the columns that `RecordColumns.needs` names.
        """
        at, columns = parsed.row_at, self._taken.columns
        rows = dict(zip(parsed.rows.schema.names, parsed.rows.columns, strict=True))
        sound, rejections = np.ones(len(at), bool), list(parsed.rejections)
        for part in self._parts(records.take(pa.array(at))):
            rows |= part.columns
            for position in np.flatnonzero(sound & ~part.sound).tolist():
                value = records.column("value")[int(at[position])].as_py()
                rejections.append(Rejection(int(at[position]), part.reason, part.error(position), value))
            sound &= part.sound
        whole = pa.record_batch([rows[name] for name in columns], names=list(columns))
        rejections.sort(key=lambda rejection: rejection.at)
        return replace(parsed, rows=whole.filter(pa.array(sound)), row_at=at[sound], rejections=rejections)

    def _parts(self, records: pa.RecordBatch) -> Iterator[_Part]:
        """Yield the columns of each part. A record's rejection has the reason of the first unfit one."""
        for name in self._taken.keys:
            yield self._text(name, records.column(KEY), "bad_key", "key")
        if self._key is not None:
            yield self._members(self._key, records.column(KEY))
        if self._taken.headers and records.column(HEADERS).null_count:
            yield _Part({}, mask(records.column(HEADERS).is_valid()), "bad_header", lambda _: _UNREADABLE)
        for name, header in self._taken.headers.items():
            texts = pc.map_lookup(records.column(HEADERS), pa.scalar(header), "last")
            yield self._text(name, texts, "bad_header", f"header {header!r}")
        for name in self._taken.timestamps:
            yield self._timestamp(name, records.column("timestamp"))

    def _text(self, name: str, texts: pa.Array, reason: str, part: str) -> _Part:
        """Read a column from texts; null stands for a missing one."""
        kind = self._taken.columns[name]
        values, at = self._texts[name].read(texts)
        sound = mask(texts.is_null()) if kind.nullable else np.zeros(len(texts), bool)
        sound[at] = True

        def error(position: int) -> str:
            text = texts[position].as_py()
            if text is None:
                return _missing(name, kind, f"the record's {part}, and there is none")
            found = repr(text.decode("utf-8", "backslashreplace")[:_SHOWN])
            return (
                f"column {name!r} must be {kind} like {_unquoted(kind)}, but the record's {part} is {found}"
            )

        return _Part({name: scattered(values, at, len(texts))}, sound, reason, error)

    def _members(self, parser: JsonParser, keys: pa.Array) -> _Part:
        """Read the columns that are members of keys in JSON."""
        there = np.flatnonzero(mask(keys.is_valid()))
        found = parser.parse(keys.take(pa.array(there)))
        at = there[found.row_at]
        kinds = parser.columns
        optional = all(kind.nullable for kind in kinds.values())
        sound = mask(keys.is_null()) if optional else np.zeros(len(keys), bool)
        sound[at] = True

        def error(position: int) -> str:
            if not keys[position].is_valid:
                name, kind = next((name, kind) for name, kind in kinds.items() if not kind.nullable)
                return _missing(name, kind, "in the record's key, and there is none")
            return f"the record's key: {parser.parse(keys.slice(position, 1)).rejections[0].error}"

        columns = {name: scattered(found.rows.column(name), at, len(keys)) for name in kinds}
        return _Part(columns, sound, "bad_key", error)

    def _timestamp(self, name: str, times: pa.Array) -> _Part:
        kind = self._taken.columns[name]
        there = mask(pc.not_equal(times.cast(pa.int64()), _NO_TIME))
        in_range = there & ~mask(pc.or_(pc.less(times, FIRST), pc.greater(times, LAST)))
        at = np.flatnonzero(in_range)

        def error(position: int) -> str:
            if not there[position]:
                return _missing(name, kind, "the record's timestamp, and there is none")
            return f"column {name!r} is the record's timestamp, which is not in the years 1 to 9999"

        sound = in_range | ~there if kind.nullable else in_range
        return _Part(
            {name: scattered(times.take(pa.array(at)), at, len(times))}, sound, "bad_timestamp", error
        )


@dataclass(frozen=True)
class _Part:
    """The columns of one part of some records.

    Args:
        columns: their values by name.
        sound: a mask of the records whose part is fit for all of these columns.
        reason: the reason of a rejection because of this part.
        error: returns the error in words for a record that is not sound, given its position.
    """

    columns: Mapping[str, pa.Array]
    sound: Bools
    reason: str
    error: Callable[[int], str]


def _missing(name: str, kind: ColumnType, part: str) -> str:
    return (
        f"column {name!r} is {part}; let the producer send it, or declare the column {kind}?, so that it is "
        "null then"
    )


def _unquoted(kind: ColumnType) -> str:
    return example(kind).strip('"')

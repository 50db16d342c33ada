"""Rows of a streaming frame become packed rows, and packed results become rows of a frame.

A row with a text in the frame's column of punctuations is a control row. Its other columns are ignored. The
text is a punctuation, or a dead letter or violation of an earlier join. These are passed on unchanged. A
heartbeat advances the frame's progress behind the rows of its batch.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.engine import channels, frame_rejects
from endmark.engine.channels import Packer, stream_channel
from endmark.engine.ingest.punctuation_rows import PromisePacker
from endmark.engine.violation_rows import NULL
from endmark.errors import ConfigError
from endmark.operators.stream_join.admit import Violation
from endmark.operators.stream_join.event_times import NEVER
from endmark.operators.stream_join.pattern_reports import aligned
from endmark.punctuation.heartbeat import first_possible
from endmark.state import codec
from endmark.state.keys import nulls
from endmark.state.segment import int64
from endmark.wire.json.column import TextPunctuations
from endmark.wire.renamed_punctuations import Renamer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.engine.channels import Buckets
    from endmark.engine.streams import StreamPlan
    from endmark.wire.renamed_punctuations import Renaming


class PackFrame:
    """A function for `mapInArrow` that packs the rows and punctuations of one frame in a batch.

    Args:
        stream: the frame as an input of the join. It is one partition, and its punctuations follow its rows.
        buckets: the buckets of the join.
        punctuations: the position of the column of punctuations; `None` without one.
        renaming: new names of the columns that punctuations restrict; `None` if the names do not change.
    """

    def __init__(
        self,
        stream: StreamPlan,
        buckets: Buckets,
        punctuations: int | None,
        renaming: Renaming | None = None,
    ) -> None:
        self._stream = stream
        self._buckets = buckets
        self._punctuations = punctuations
        self._renaming = renaming if renaming is not None and renaming.needed else None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packer = Packer()
        newest = NEVER
        reader: TextPunctuations | None = None
        renamer = None if self._renaming is None else Renamer(self._renaming, self._stream.name)
        seen = False
        for batch in batches:
            if batch.num_rows == 0:
                continue
            seen = True
            rows, texts = self._split(batch)
            rows = self._without_nulls(packer, rows)
            if rows.num_rows:
                newest = max(newest, self._pack_rows(packer, rows))
            if texts is not None:
                reader = reader or self._reader()
                newest = max(newest, self._pack_texts(packer, texts, reader, renamer))
            yield from packer.flush()
        if seen:
            # Every bucket gets a blob, so every bucket runs in every batch.
            progress = {} if newest == NEVER else {"0": newest}
            for label in self._buckets.labels:
                packer.add_json(label, stream_channel(channels.PROGRESS, self._stream.name), progress)
            yield from packer.flush()

    def _split(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
        """Return the rows by the column names of results, and the texts of control rows or `None`."""
        columns, texts = list(batch.columns), None
        if self._punctuations is not None:
            texts = columns.pop(self._punctuations)
        rows = in_utc(columns, self._stream.side.schema)
        if texts is None or texts.null_count == len(texts):
            return rows, None
        return rows.filter(texts.is_null()), texts.drop_null()

    def _without_nulls(self, packer: Packer, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows without nulls in key and time, and pack the others as violations.

        Raises:
            ConfigError: a row has such a null, and the frame has no column of punctuations for violations.
        """
        side = self._stream.side
        needed = [*side.key.columns, side.time]
        null = nulls(rows, needed)
        if not null.any():
            return rows
        if self._punctuations is None:
            first = next(name for name in needed if rows.column(name).null_count)
            raise ConfigError(f"column {first} has nulls, which no row can be joined by; filter them")
        refusal = Violation(self._stream.name, NULL, rows.filter(pa.array(null)))
        packer.add(self._buckets.labels[0], channels.REFUSED, frame_rejects.violations(self._stream, refusal))
        return rows.filter(pa.array(~null))

    def _pack_rows(self, packer: Packer, rows: pa.RecordBatch) -> int:
        """Pack rows; return their newest event time (µs)."""
        side = self._stream.side
        for label, share in self._buckets.by_key(rows, side.key):
            packer.add(label, stream_channel(channels.ROWS, self._stream.name), share)
        return int(np.max(int64(rows.column(side.time))))

    def _reader(self) -> TextPunctuations:
        """Return a reader of punctuations by the frame's own names of its columns."""
        stream, prefix = self._stream, f"{self._stream.name}_"
        fields = [stream.side.schema.field(name) for name in stream.side.punctuated_on]
        columns = pa.schema([field.with_name(field.name.removeprefix(prefix)) for field in fields])
        return TextPunctuations(columns, stream.on, stream.name)

    def _pack_texts(
        self, packer: Packer, texts: pa.Array, reader: TextPunctuations, renamer: Renamer | None
    ) -> int:
        """Pack control rows; return the newest event time (µs) by heartbeats, or `NEVER` without any."""
        stream, first = self._stream, self._buckets.labels[0]
        passed_on = pc.match_substring_regex(texts, frame_rejects.MARKED)
        if pc.any(passed_on).as_py():
            passing = pa.record_batch({"text": texts.filter(passed_on)})
            packer.add(first, channels.REFUSED, passing)
            texts = texts.filter(pc.invert(passed_on))
        rejected = []
        if renamer is not None:
            renamed = renamer(texts)
            rejected = [(texts[at].as_buffer().to_pybytes(), why) for at, why in renamed.rejected]
            texts = renamed.texts.drop_null()
        read = reader.read(texts)
        rejected += read.rejected
        if rejected:
            packer.add(first, channels.REFUSED, frame_rejects.dead_letters(stream.name, rejected))
        # All punctuations stand behind the rows of their batch, so all may have the same offset.
        promises = PromisePacker(packer, self._buckets, stream)
        promises.close(0, read.closed_keys, np.zeros(read.closed_keys.num_rows, np.int64))
        for promise in read.promises:
            promises.promise(0, 0, promise)
        found = (first_possible(promise, stream.heartbeat_on) for promise in read.promises)
        lateness = stream.side.lateness
        return max((at + lateness for at in found if at is not None), default=NEVER)


def in_utc(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Make a record batch of columns that Spark has handed over, with times in the zone UTC.

    Spark gives every column of timestamps the time zone of its session. The zone is part of Arrow's type, so
    columns of two zones cannot be combined. The values are the same in every zone and are not copied.

    Args:
        columns: the columns.
        schema: the names and types of the columns, with UTC as zone.
    """
    cast = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.record_batch(cast, names=schema.names)


class UnpackFrame:
    """A function for `mapInArrow` over channels and blobs that yields rows, then control rows.

    Args:
        schema: the columns of rows, then the column of punctuations.
        rows: the channel of the rows.
    """

    def __init__(self, schema: pa.Schema, rows: str = channels.RESULTS) -> None:
        self._schema = schema
        self._rows = rows

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reports, texts = [], []
        for batch in batches:
            for channel, blob in zip(batch.column("channel").to_pylist(), batch.column("blob"), strict=True):
                if channel == channels.PATTERNS:
                    reports.append(json.loads(blob.as_py()))
                    continue
                rows = codec.decode(blob.as_buffer())
                if channel == self._rows:
                    nothing = pa.nulls(rows.num_rows, pa.string())
                    yield pa.record_batch([*rows.columns, nothing], names=self._schema.names)
                else:
                    texts.append(rows.column(0))
        texts.append(pa.array(aligned(reports), pa.string()))
        for column in filter(len, texts):
            nothing = [pa.nulls(len(column), field.type) for field in list(self._schema)[:-1]]
            yield pa.record_batch([*nothing, column], names=self._schema.names)

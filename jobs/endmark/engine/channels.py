"""Packed rows: blobs of Arrow IPC or JSON that travel through one Spark plan. A channel names their kind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.pipeline.tables import is_group_role, is_step_role
from endmark.state import codec
from endmark.state.keys import bucket_of
from endmark.state.row_bytes import BYTES_AT_ONCE
from endmark.stored_text import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from endmark.state.keys import KeySpec
    from endmark.state.search import Ints

PACKED = pa.schema([("bucket", pa.int32()), ("channel", pa.string()), ("blob", pa.binary())])
PACKED_DDL = "bucket int, channel string, blob binary"
UNPACKED_DDL = "channel string, blob binary"

# Channels into the first stage. All but `READ`, `KNOBS` and `QUESTIONS` are followed by ":" and the name of
# a stream.
ROWS = "rows"
CLOSED_KEYS = "closed_keys"  # keys that punctuations name
DELETED_KEYS = "deleted_keys"  # keys that deletions name, for tables of the newest rows
PROMISES = "promises"  # all other punctuations
MARKS = "marks"  # marks of an ordered stream
ENDED = "ended"  # ended runs of a clustered stream
FIRST = "first"  # the first row of each partition of a clustered stream
LAST = "last"  # the last row of each partition of a clustered stream
PROGRESS = "progress"  # the newest event time of each partition, by rows and heartbeats
READ = "read"  # the number of records that a task has read
KNOBS = "knobs"  # turns of knobs
QUESTIONS = "questions"  # questions of what keeps a key open
HEARD = "heard"  # timestamps of Kafka's records, for streams whose partitions can be idle
# Channels from a stage to the next one.
GROUP_INPUTS = "group_inputs"  # the columns of results, or of final groups, that groups are made of
REPORT = (
    "report"  # statements of one bucket about the patterns that can close a key or group of the next stage
)
# Channels to the sink. Rows of a stream or step in front of the results have the channel of `step_role`,
# and groups those of `final_role` and `running_role`.
RESULTS = "results"
DEAD_LETTERS = "dead_letters"
VIOLATIONS = "violations"
ANNOUNCED = "announced"  # output punctuations
PATTERNS = "patterns"  # statements of each bucket about patterns, which all buckets announce together
REFUSED = "refused"  # dead letters and violations of frames, as text
METRICS = "metrics"
FILES = "files"  # files that have been written for tables

ROWS_PER_BLOB = 1 << 16
VALUE = "$value"  # the column of rows with the value of their Kafka record

TO_SINK = frozenset(
    {
        RESULTS,
        DEAD_LETTERS,
        VIOLATIONS,
        ANNOUNCED,
        PATTERNS,
        REFUSED,
        METRICS,
        FILES,
    }
)

DEAD_LETTER_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("error", pa.string()),
        ("value", pa.binary()),
    ]
)
VIOLATION_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("event_time", pa.timestamp("us", "UTC")),
        ("record", pa.string()),
        # The promise that the row broke; null for a late row.
        ("promise", pa.string()),
        ("promise_partition", pa.int32()),
        ("promise_offset", pa.int64()),
    ]
)
PUNCTUATION_SCHEMA = pa.schema([("punctuation", pa.string()), ("completed_by", pa.string())])
_WHOLE = "record"  # the violation's row as ASCII JSON. No other column has it, so it must not be cut.


@dataclass(frozen=True)
class Buckets:
    """The buckets of an operator.

    Args:
        labels: the grouping key of each bucket. Spark hashes grouping keys, and the labels are chosen so that
            every shuffle partition gets one bucket.
    """

    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def of_keys(self, codes: Ints) -> Ints:
        """Return the number of each key's bucket."""
        return bucket_of(codes, len(self))

    def by_key(self, batch: pa.RecordBatch, key: KeySpec) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield each bucket with rows: its label, and its rows with their code, in the order of the code."""
        coded = key.coded(batch)
        codes = key.keys(coded).codes
        buckets = self.of_keys(codes)
        for number, label in enumerate(self.labels):
            mine = np.flatnonzero(buckets == number)
            if len(mine):
                # To sort each share by itself is twice as fast as to sort all rows by (bucket, key).
                yield label, coded.take(pa.array(mine[np.argsort(codes[mine])]))


class Packer:
    """Collects packed rows and hands them to Spark as one Arrow batch."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, str, bytes]] = []

    def add(self, label: int, channel: str, batch: pa.RecordBatch) -> None:
        """Add a blob of Arrow.

        Args:
            label: the label of the bucket that gets the blob.
            channel: the kind of the blob.
            batch: the rows of the blob.
        """
        self._rows.append((label, channel, codec.encode(batch)))

    def add_json(self, label: int, channel: str, value: Mapping[str, Any]) -> None:
        """Add a blob of JSON.

        Args:
            label: the label of the bucket that gets the blob.
            channel: the kind of the blob.
            value: a JSON object.
        """
        self._rows.append((label, channel, json.dumps(value).encode()))

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the collected rows as one batch, if there are any, and forget them."""
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, PACKED, strict=True)]
            yield pa.record_batch(arrays, schema=PACKED)
            self._rows.clear()


def is_for_sink(channel: str) -> bool:
    """Return whether a channel goes to the sink, so that all stages pass it on."""
    return channel in TO_SINK or is_step_role(channel) or is_group_role(channel)


def stream_channel(channel: str, stream: str) -> str:
    """Return the channel of one stream."""
    return f"{channel}:{stream}"


def report_rows(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Make rows of the dead-letter or violations table. Long texts are cut, but not a violation's row."""

    def kept(name: str, value: Any) -> Any:
        return storable(value) if isinstance(value, str) and name != _WHOLE else value

    return pa.RecordBatch.from_pylist(
        [{name: kept(name, value) for name, value in row.items()} for row in rows], schema=schema
    )


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches in a column of blobs. It is a function for `mapInArrow`."""
    for batch in batches:
        for blob in batch.column(0):
            yield codec.decode(blob.as_buffer())


def gathered(pieces: Iterator[pa.RecordBatch], rows: int = ROWS_PER_BLOB) -> Iterator[pa.RecordBatch]:
    """Join small pieces to batches of at least `rows` rows, so that few blobs cross to the sink.

    Batches of long rows have fewer: only a piece that is longer itself makes more than `BYTES_AT_ONCE`.
    """
    held: list[pa.RecordBatch] = []
    count = size = 0
    for piece in pieces:
        own = piece.nbytes
        if held and size + own > BYTES_AT_ONCE:
            yield codec.concat(held)
            held, count, size = [], 0, 0
        held.append(piece)
        count, size = count + piece.num_rows, size + own
        if count >= rows:
            yield codec.concat(held)
            held, count, size = [], 0, 0
    if held:
        yield codec.concat(held)

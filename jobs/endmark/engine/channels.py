"""Packed rows: blobs of Arrow IPC or JSON that travel through one Spark plan. A channel names their kind."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.state import codec
from endmark.stored_text import storable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from endmark.state.keys import KeySpec
    from endmark.state.search import Ints

PACKED = pa.schema([("bucket", pa.int32()), ("channel", pa.string()), ("blob", pa.binary())])
PACKED_DDL = "bucket int, channel string, blob binary"
UNPACKED_DDL = "channel string, blob binary"

# Channels into the operators, each followed by ":" and a stream's name.
ROWS = "rows"
CLOSED_KEYS = "closed_keys"  # that punctuations name
PROMISES = "promises"  # all other punctuations
MARKS = "marks"  # how far an ordered stream has come
ENDED = "ended"  # runs of a clustered stream
FIRST = "first"  # rows of its partitions
LAST = "last"
PROGRESS = "progress"
READ = "read"  # how many records a task has read; of no stream
KNOBS = "knobs"  # of no stream
HEARD = "heard"  # timestamps of Kafka's records, for streams whose partitions can be idle
# Channels to the sink.
RESULTS = "results"
GROUPS = "groups"
RUNNING = "running"  # groups that a batch has changed
DEAD_LETTERS = "dead_letters"
VIOLATIONS = "violations"
ANNOUNCED = "announced"  # output punctuations
PATTERNS = "patterns"  # what each bucket says of those that all buckets announce together
REFUSED = "refused"  # dead letters and violations of frames, as text
METRICS = "metrics"
FILES = "files"  # what has been written for tables

ROWS_PER_BLOB = 1 << 16
VALUE = "$value"  # a column of rows: what they came as

TO_SINK = frozenset(
    {RESULTS, GROUPS, RUNNING, DEAD_LETTERS, VIOLATIONS, ANNOUNCED, PATTERNS, REFUSED, METRICS}
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
        # What the row broke; null for a late one.
        ("promise", pa.string()),
        ("promise_partition", pa.int32()),
        ("promise_offset", pa.int64()),
    ]
)
PUNCTUATION_SCHEMA = pa.schema([("punctuation", pa.string()), ("completed_by", pa.string())])
_WHOLE = "record"  # a violation's row as JSON, which is ASCII and must not be cut: no other column has it


@dataclass(frozen=True)
class Buckets:
    """The buckets of an operator: `labels[i]` is the grouping key of bucket i.

    Spark hashes grouping keys; labels are chosen so that every shuffle partition gets one bucket.
    """

    labels: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def of_keys(self, codes: Ints) -> Ints:
        """Return bucket numbers: high bits of a multiplicative hash, by which runs of ids spread evenly."""
        high = (codes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
        return (high % np.uint64(len(self))).astype(np.int64)

    def by_key(self, batch: pa.RecordBatch, key: KeySpec) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Yield the label of each bucket with its rows, which have their code and are sorted by it."""
        coded = key.coded(batch)
        codes = key.keys(coded).codes
        buckets = self.of_keys(codes)
        for number, label in enumerate(self.labels):
            mine = np.flatnonzero(buckets == number)
            if len(mine):
                # Sorting each share by itself is twice as fast as sorting all rows by (bucket, key).
                yield label, coded.take(pa.array(mine[np.argsort(codes[mine])]))


class Packer:
    """Collects packed rows and hands them to Spark as one Arrow batch."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, str, bytes]] = []

    def add(self, label: int, channel: str, batch: pa.RecordBatch) -> None:
        """Add a blob of Arrow.

        Args:
            label: the label of the bucket that gets it.
            channel: its kind.
            batch: its rows.
        """
        self._rows.append((label, channel, codec.encode(batch)))

    def add_json(self, label: int, channel: str, value: Mapping[str, Any]) -> None:
        """Add a blob of JSON.

        Args:
            label: the label of the bucket that gets it.
            channel: its kind.
            value: an object.
        """
        self._rows.append((label, channel, json.dumps(value).encode()))

    def flush(self) -> Iterator[pa.RecordBatch]:
        if self._rows:
            columns = zip(*self._rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, PACKED, strict=True)]
            yield pa.record_batch(arrays, schema=PACKED)
            self._rows.clear()


def stream_channel(channel: str, stream: str) -> str:
    return f"{channel}:{stream}"


def report_rows(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Make rows of the dead-letter or violations table; only the JSON of a violation's row is never cut."""

    def kept(name: str, value: Any) -> Any:
        return storable(value) if isinstance(value, str) and name != _WHOLE else value

    return pa.RecordBatch.from_pylist(
        [{name: kept(name, value) for name, value in row.items()} for row in rows], schema=schema
    )


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches inside a column of blobs; a function for `mapInArrow`."""
    for batch in batches:
        for blob in batch.column(0):
            yield codec.decode(blob.as_buffer())


def gathered(pieces: Iterator[pa.RecordBatch], rows: int = ROWS_PER_BLOB) -> Iterator[pa.RecordBatch]:
    """Join small pieces to batches of at least `rows` rows, so that few blobs cross to the sink."""
    held: list[pa.RecordBatch] = []
    for piece in pieces:
        held.append(piece)
        if sum(batch.num_rows for batch in held) >= rows:
            yield codec.concat(held)
            held = []
    if held:
        yield codec.concat(held)

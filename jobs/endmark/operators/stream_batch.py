"""One batch of one stream, from the unpacking of its blobs through the lookups to the stream join."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from endmark.punctuation.punctuation import Punctuation


class RunNews(NamedTuple):
    """The runs of a clustered stream that began and ended in a batch, as keys with `partition` and `offset`.

    Args:
        ended: keys of the bucket, each with the first row of another key behind it.
        first: the first row of each partition, over all buckets.
        last: the last row of each partition, if its key is of the bucket.
    """

    ended: pa.RecordBatch | None = None
    first: pa.RecordBatch | None = None
    last: pa.RecordBatch | None = None


@dataclass(frozen=True)
class StreamBatch:
    """The share of one bucket in one batch of one stream.

    Keys are named as both sides of the join name them, rows and promises as the stream names its own columns.

    Args:
        rows: data rows with the code of their key, less those that are late within their own batch. The join
            takes them in the order of that code.
        bystanders: rows that are not to be joined, but are checked for violations like the others.
        closed_keys: keys that punctuations name, with their code, `partition` and `offset`; if rows name keys
            too, also `by_row`.
        promises: all other punctuations, each with its origin.
        key_promises: those of `promises` that restrict columns of the key alone, with keys' names.
        newest: newest event time by partition in microseconds, over all buckets.
        marks: how far an ordered stream has come, over all buckets, as `Order` takes it.
        heard: oldest and newest timestamp of Kafka's records by partition in microseconds, over all buckets;
            only where partitions can be idle.
        runs: those of a clustered stream.
    """

    rows: pa.RecordBatch | None = None
    bystanders: pa.RecordBatch | None = None
    closed_keys: pa.RecordBatch | None = None
    promises: Sequence[Punctuation] = ()
    key_promises: Sequence[Punctuation] = ()
    newest: Mapping[int, int] = field(default_factory=dict)
    marks: pa.RecordBatch | None = None
    heard: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    runs: RunNews = field(default_factory=RunNews)

"""One batch of one stream. It is unpacked from blobs, then goes through the lookups to the stream join."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from endmark.punctuation.punctuation import Punctuation


class RunNews(NamedTuple):
    """The runs of a clustered stream in a batch, as keys with `partition` and `offset`; `None` without any.

    Args:
        ended: keys of the bucket whose run ended, each with the coordinates of the row that ended it.
        first: the first row of each partition, over all buckets.
        last: the last row of each partition, if its key belongs to the bucket.
    """

    ended: pa.RecordBatch | None = None
    first: pa.RecordBatch | None = None
    last: pa.RecordBatch | None = None


@dataclass(frozen=True)
class StreamBatch:
    """The share of one bucket in one batch of one stream.

    Rows and promises have the stream's own column names. Keys have the names that both sides of the join
    share. A table is `None` if it would have no rows.

    Args:
        rows: data rows with the code of their key, without rows that are late within their own batch. The
            join takes them in the order of that code.
        bystanders: rows that are not joined, but are checked for violations like the others.
        closed_keys: keys that punctuations name, with their code, `partition` and `offset`. If rows close
            keys, too, it has the column `by_row`.
        deleted_keys: keys that deletions name, with their code, `partition` and `offset`. Closed ones are in
            `closed_keys`, too.
        promises: all other punctuations, each with its origin.
        key_promises: the promises that restrict columns of the key alone, by the shared names.
        newest: the newest event time of each partition in microseconds, over all buckets. A heartbeat counts
            as a row that makes each row late which the heartbeat rules out.
        marks: the marks of an ordered stream, over all buckets, as `Order` takes them.
        heard: the oldest and the newest timestamp of Kafka's records of each partition in microseconds, over
            all buckets. It is empty unless partitions can be idle.
        runs: the runs of a clustered stream.
        since: the time at which the batch came, in microseconds since 1970, if a lookup has held it back;
            `None` if it has come just now.
    """

    rows: pa.RecordBatch | None = None
    bystanders: pa.RecordBatch | None = None
    closed_keys: pa.RecordBatch | None = None
    deleted_keys: pa.RecordBatch | None = None
    promises: Sequence[Punctuation] = ()
    key_promises: Sequence[Punctuation] = ()
    newest: Mapping[int, int] = field(default_factory=dict)
    marks: pa.RecordBatch | None = None
    heard: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    runs: RunNews = field(default_factory=RunNews)
    since: int | None = None

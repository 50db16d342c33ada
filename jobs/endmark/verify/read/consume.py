"""Reads the records that Kafka holds as Arrow batches, each topic up to a fixed end."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

from endmark.errors import ConfigError, MissingPartError, UnreachableError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.gaps import past
from endmark.kafka.refusals import refusals_named

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.kafka.gaps import Gap

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),  # Unix milliseconds
        # Null in topics that are read without keys and headers.
        ("key", pa.binary()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)
CONNECT_SECONDS = 5
STALL_SECONDS = 60
POLL_RECORDS = 20_000
FETCH_BYTES = 4 << 20


@dataclass(frozen=True)
class Range:
    """The offsets of one partition from `first` to `end`, without `end`."""

    topic: str
    partition: int
    first: int
    end: int


def require_held(
    ranges: Sequence[Range], began: Mapping[str, Mapping[str, int]], gaps: Sequence[Gap] = ()
) -> None:
    """Refuse to recompute tables from a part of their records.

    A job whose gap begins at its first offset has read all that Kafka holds, so its tables are recomputed.

    Args:
        ranges: the offsets that Kafka holds.
        began: the offset of the first record that the job has read, by topic and partition. A partition that
            is not named was read from its offset 0 on, and topics that are not named do not count.
        gaps: the offsets that the job has skipped, in the order in which it has found them.

    Raises:
        ConfigError: Kafka does not hold the first records of a partition any more.
    """
    read = past(began, gaps)
    gone = [
        f"offsets {needed} to {each.first - 1} of topic {each.topic} partition {each.partition}"
        for each in ranges
        if each.topic in read and (needed := read[each.topic].get(str(each.partition), 0)) < each.first
    ]
    if gone:
        but = f". But the job has skipped {', '.join(map(str, gaps))}" if gaps else ""
        raise ConfigError(
            f"Kafka does not hold {', '.join(gone)}, which the job has read, so the tables cannot be "
            f"recomputed; let the topic keep records for as long as tables are verified (retention.ms){but}"
        )


class Log:
    """Reads whole topics once, without a consumer group.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        topics: topics that must exist.
        until: by topic and partition, the first offset that is not read. Partitions that are not named are
            read to their end; `None` names none.
        maybe: topics that are read if they exist.
        whole: topics whose records are read with their keys and headers.

    Raises:
        MissingPartError: the broker cannot be reached, or stops sending.
        ConfigError: a topic does not exist, `until` names offsets that Kafka does not hold, or the cluster
            refuses us.
    """

    def __init__(
        self,
        bootstrap: ClusterOrAddress,
        topics: Sequence[str],
        until: Mapping[str, Mapping[int, int]] | None = None,
        maybe: Sequence[str] = (),
        whole: Collection[str] = (),
    ) -> None:
        self._bootstrap = bootstrap
        self._whole = whole
        try:
            with refusals_named(bootstrap):
                self._consumer = KafkaConsumer(
                    **cluster_of(bootstrap).python(),
                    isolation_level="read_committed",
                    enable_auto_commit=False,
                    # Any other setting would silently skip records that expire while they are read.
                    auto_offset_reset="none",
                    allow_auto_create_topics=False,
                    bootstrap_timeout_ms=CONNECT_SECONDS * 1000,
                    max_poll_records=POLL_RECORDS,
                    max_partition_fetch_bytes=FETCH_BYTES,
                    # The client computes checksums in pure Python, which would take most of the time.
                    check_crcs=False,
                )
        except KafkaError as error:
            raise self._unreachable(error) from error
        try:
            there = [topic for topic in maybe if self._consumer.partitions_for_topic(topic)]
            self.ranges = self._find_ranges([*topics, *there], until or {})
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def _unreachable(self, error: KafkaError) -> UnreachableError:
        return UnreachableError(
            f"no Kafka broker answers at {self._bootstrap} ({type(error).__name__}); "
            "start it or check the bootstrap address"
        )

    def _find_ranges(self, topics: Sequence[str], until: Mapping[str, Mapping[int, int]]) -> list[Range]:
        try:
            partitions = [pair for topic in topics for pair in self._partitions(topic)]
            firsts = self._consumer.beginning_offsets(partitions)
            ends = self._consumer.end_offsets(partitions)
        except (KafkaConnectionError, KafkaTimeoutError) as error:
            raise self._unreachable(error) from error
        for topic, wanted in until.items():
            for partition, end in wanted.items():
                pair = TopicPartition(topic, partition)
                if pair not in ends or not firsts[pair] <= end <= ends[pair]:
                    held = f"offsets {firsts[pair]} to {ends[pair]}" if pair in ends else "no such partition"
                    raise ConfigError(
                        f"asked to verify topic {topic!r} partition {partition} up to offset {end}, but "
                        f"{self._bootstrap} holds {held}; was the topic deleted or its data expired?"
                    )
                ends[pair] = end
        return [Range(pair.topic, pair.partition, firsts[pair], ends[pair]) for pair in partitions]

    def _partitions(self, topic: str) -> list[Any]:
        found = self._consumer.partitions_for_topic(topic)
        if not found:
            raise ConfigError(
                f"topic {topic!r} does not exist at {self._bootstrap}; create it or correct streams.*.topic"
            )
        return [TopicPartition(topic, partition) for partition in sorted(found)]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield each record of `ranges` once, in batches of one partition with the columns of `SCHEMA`.

        Raises:
            MissingPartError: the broker stops sending, or a record cannot be read.
        """
        unread = {
            TopicPartition(each.topic, each.partition): each.end
            for each in self.ranges
            if each.first < each.end
        }
        self._consumer.assign(list(unread))
        for each in self.ranges:
            if each.first < each.end:
                self._consumer.seek(TopicPartition(each.topic, each.partition), each.first)
        last_seen = time.monotonic()
        while unread:
            arrived = self._poll()
            for pair, records in arrived.items():
                last_seen = time.monotonic()
                yield _batch(pair, records, unread[pair], whole=pair.topic in self._whole)
            # The position shows the end, not the last record, since transaction markers have offsets, too.
            done = [pair for pair, end in unread.items() if self._consumer.position(pair) >= end]
            for pair in done:
                del unread[pair]
            if done:
                self._consumer.pause(*done)
            if time.monotonic() - last_seen > STALL_SECONDS:
                raise MissingPartError(
                    f"{self._bootstrap} sent nothing for {STALL_SECONDS} s while {len(unread)} partitions "
                    "were not read to their end; is the broker still up?"
                )

    def _poll(self) -> dict[Any, list[Any]]:
        try:
            with refusals_named(self._bootstrap):
                arrived: dict[Any, list[Any]] = self._consumer.poll(timeout_ms=1000)
        except KafkaError as error:
            raise MissingPartError(
                f"cannot read records from {self._bootstrap}: {error}; did they expire, "
                "or are they compressed by a codec whose Python package is not installed?"
            ) from error
        return arrived


def _batch(pair: Any, records: list[Any], end: int, *, whole: bool) -> pa.RecordBatch:
    if records[-1].offset >= end:
        records = [record for record in records if record.offset < end]
    return pa.record_batch(
        [
            pa.repeat(pair.topic, len(records)),
            pa.repeat(pa.scalar(pair.partition, pa.int32()), len(records)),
            pa.array([record.offset for record in records], pa.int64()),
            pa.array([record.value for record in records], pa.binary()),
            pa.array([record.timestamp for record in records], pa.int64()),
            pa.array([record.key if whole else None for record in records], pa.binary()),
            pa.array(
                [_headers(record) if whole else None for record in records], SCHEMA.field("headers").type
            ),
        ],
        schema=SCHEMA,
    )


def _headers(record: Any) -> list[dict[str, Any]]:
    return [{"name": name, "value": value} for name, value in record.headers]

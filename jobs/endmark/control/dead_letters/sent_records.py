"""Finds the records of dead letters in Kafka, which has their keys, headers and timestamps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError

from endmark.errors import UnreachableError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.refusals import refusals_named

if TYPE_CHECKING:
    from endmark.control.dead_letters.search import Coordinates
    from endmark.kafka.cluster import ClusterOrAddress

_PATIENCE_SECONDS = 5


@dataclass(frozen=True)
class SentRecord:
    """The parts of a record in Kafka beside its value.

    Args:
        key: its key; `None` without one.
        headers: the last header of each name that has a value, in their order.
        timestamp: Kafka's time in Unix milliseconds; `None` without one.
    """

    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int | None = None


class SentRecords:
    """Reads records one by one, by one connection. Close it in the end.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
    """

    def __init__(self, bootstrap: ClusterOrAddress) -> None:
        self._bootstrap = bootstrap
        self._consumer: KafkaConsumer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def find(self, at: Coordinates) -> SentRecord | None:
        """Return a record, or `None` if Kafka does not hold it any more.

        Raises:
            UnreachableError: the broker does not answer.
            ConfigError: the cluster refuses us.
        """
        try:
            with refusals_named(self._bootstrap):
                if self._consumer is None:
                    self._consumer = _consumer(self._bootstrap)
                return _found(self._consumer, at)
        except KafkaError as error:
            raise UnreachableError(
                f"no Kafka broker at {self._bootstrap} gives the record {at} ({type(error).__name__}); start "
                "it, or correct --bootstrap"
            ) from error


def _found(consumer: KafkaConsumer, at: Coordinates) -> SentRecord | None:
    partition = TopicPartition(at.topic, at.partition)
    if at.partition not in (consumer.partitions_for_topic(at.topic) or ()):
        return None
    first, end = (
        consumer.beginning_offsets([partition])[partition],
        consumer.end_offsets([partition])[partition],
    )
    if not first <= at.offset < end:
        return None
    consumer.assign([partition])
    consumer.seek(partition, at.offset)
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        for record in consumer.poll(timeout_ms=500).get(partition, ()):
            if record.offset != at.offset:  # compaction has removed it
                return None
            headers = dict(record.headers)
            sent = tuple((name, value) for name, value in headers.items() if value is not None)
            return SentRecord(record.key, sent, record.timestamp if record.timestamp != -1 else None)
        if consumer.position(partition) > at.offset:
            return None
    raise KafkaTimeoutError(f"{at} did not come")


def _consumer(bootstrap: ClusterOrAddress) -> KafkaConsumer:
    return KafkaConsumer(
        **cluster_of(bootstrap).python(),
        enable_auto_commit=False,
        auto_offset_reset="none",
        allow_auto_create_topics=False,
        max_poll_records=1,
        bootstrap_timeout_ms=1000 * _PATIENCE_SECONDS,
        metrics_enabled=False,
    )

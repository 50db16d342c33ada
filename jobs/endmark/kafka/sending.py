"""Sends single records to a topic, each of which the broker has acknowledged when its offset is returned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError

from endmark.errors import UnreachableError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.refusals import refusals_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.kafka.cluster import ClusterOrAddress

PATIENCE_MS = 5_000


class Sender:
    """Sends records one by one, by one connection. Close it in the end.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
    """

    def __init__(self, bootstrap: ClusterOrAddress) -> None:
        self._bootstrap = bootstrap
        self._producer: KafkaProducer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._producer is not None:
            self._producer.close(timeout=PATIENCE_MS / 1000)

    def send(
        self,
        topic: str,
        record: bytes | None,
        partition: int,
        headers: Sequence[tuple[str, bytes]],
        key: bytes | None = None,
        timestamp: int | None = None,
    ) -> int:
        """Send one record and return its offset; see `send`.

        `timestamp` is in Unix milliseconds; `None` is now.
        """
        try:
            with refusals_named(self._bootstrap):
                if self._producer is None:
                    self._producer = connected_producer(self._bootstrap)
                return sent_by(self._producer, topic, record, partition, headers, key, timestamp)
        except KafkaError as error:
            raise UnreachableError(
                f"no Kafka broker at {self._bootstrap} takes a record for topic {topic} "
                f"({type(error).__name__}); start it, correct --bootstrap, or start the job, which makes the "
                "topic"
            ) from error


def send(
    bootstrap: ClusterOrAddress,
    topic: str,
    record: bytes | None,
    partition: int = 0,
    headers: Sequence[tuple[str, bytes]] = (),
) -> int:
    """Send one record and return its offset.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        topic: the topic.
        record: the record's value; `None` is a tombstone.
        partition: the partition.
        headers: the record's headers.

    Raises:
        UnreachableError: the broker does not answer, or the topic is missing.
    """
    with Sender(bootstrap) as sender:
        return sender.send(topic, record, partition, headers)


def sent_by(
    producer: KafkaProducer,
    topic: str,
    record: bytes | None,
    partition: int = 0,
    headers: Sequence[tuple[str, bytes]] = (),
    key: bytes | None = None,
    timestamp: int | None = None,
) -> int:
    """Send one record by a producer and return its offset; the other arguments are those of `Sender.send`.

    Raises:
        KafkaError: the broker does not take the record.
    """
    sent = producer.send(
        topic, record, key=key, partition=partition, headers=list(headers), timestamp_ms=timestamp
    )
    return int(sent.get(timeout=PATIENCE_MS / 1000).offset)


def connected_producer(bootstrap: ClusterOrAddress) -> KafkaProducer:
    """Return a producer that is connected to a cluster, and whose records have come when they are answered.

    Raises:
        KafkaError: the broker does not answer.
    """
    return KafkaProducer(
        **cluster_of(bootstrap).python(),
        acks="all",
        allow_auto_create_topics=False,
        metrics_enabled=False,
        bootstrap_timeout_ms=PATIENCE_MS,
        max_block_ms=PATIENCE_MS,
        request_timeout_ms=PATIENCE_MS // 2,
        delivery_timeout_ms=PATIENCE_MS,
    )

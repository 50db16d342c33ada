"""Delivery of records to Kafka, in order and exactly once. A record that is lost raises an error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from kafka import KafkaProducer
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.partitioner.default import murmur2

from endmark.errors import MissingPartError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.refusals import refusals_named

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress

DEADLINE_SECONDS = 30.0
_PARTING_SECONDS = 2.0


def key_hash(key: bytes) -> int:
    """Return Kafka's hash of a key. Java's producers use partition `key_hash(key) % partitions`, too."""
    return int(murmur2(key)) & 0x7FFFFFFF


class Delivery:
    """Sends records to their partitions.

    Use it as a context manager. Leaving the context waits until the broker has acknowledged all records.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        deadline_seconds: how long the broker may leave a request unanswered.

    Raises:
        MissingPartError: the broker does not answer, or takes no records, until the deadline.
    """

    def __init__(self, bootstrap: ClusterOrAddress, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._bootstrap = bootstrap
        self._deadline = deadline_seconds
        self._failures: list[Exception] = []
        deadline_ms = round(deadline_seconds * 1000)
        with broker_needed(bootstrap), refusals_named(bootstrap):
            self._producer = KafkaProducer(
                **cluster_of(bootstrap).python(),
                acks="all",
                enable_idempotence=True,
                linger_ms=5,
                batch_size=128 * 1024,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                bootstrap_timeout_ms=deadline_ms,
                reconnect_backoff_max_ms=1_000,
                max_block_ms=deadline_ms,
                request_timeout_ms=deadline_ms // 2,
                delivery_timeout_ms=deadline_ms,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection to the broker, and drop records that it has not acknowledged."""
        try:
            self._producer.close(timeout=_PARTING_SECONDS)
        except KafkaError:
            # `close` flushes first, and gives up when the broker is gone. Its thread would then run for ever,
            # and this error would hide the first one. No public method drops unsent records.
            self._producer._sender.force_close()
            self._producer._sender.join(_PARTING_SECONDS)
            self._producer.close(timeout=_PARTING_SECONDS)

    def partitions(self, topic: str) -> list[int]:
        """Return the numbers of a topic's partitions; wait for the topic until the deadline.

        Raises:
            MissingPartError: the topic has no partition within the deadline.
        """
        try:
            return sorted(self._producer.partitions_for(topic))
        except KafkaTimeoutError as error:
            raise MissingPartError(
                f"the Kafka broker at {self._bootstrap} has no topic {topic}; create it or name another one"
            ) from error

    def send(self, topic: str, partition: int | None, key: bytes | None, value: bytes | None) -> None:
        """Queue a record, which a background thread sends soon.

        Args:
            topic: the topic.
            partition: the partition; `None` lets Kafka's client choose it by the key.
            key: the record's key; `None` is a record without one.
            value: the record's value; `None` is a tombstone.

        Raises:
            MissingPartError: the broker takes no records, or did not take an earlier one.
        """
        with broker_needed(self._bootstrap):
            self._raise_failure()
            sent = self._producer.send(topic, value, key, partition=partition)
            sent.add_errback(self._failures.append)

    def flush(self) -> None:
        """Wait until the broker has acknowledged all records.

        Raises:
            MissingPartError: the broker has not taken a record.
        """
        with broker_needed(self._bootstrap), refusals_named(self._bootstrap):
            self._producer.flush(timeout=2 * self._deadline)
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]


@contextmanager
def broker_needed(bootstrap: ClusterOrAddress) -> Iterator[None]:
    """Turn errors of Kafka's client in the body into a `MissingPartError` that names the broker."""
    try:
        yield
    except (KafkaError, ValueError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise MissingPartError(
            f"nothing can be published to the Kafka broker at {bootstrap}: {reason}; "
            "start the broker or name another one"
        ) from error

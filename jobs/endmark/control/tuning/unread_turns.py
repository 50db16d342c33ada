"""Turns that no batch has read yet. The job ends a query that waits long if there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from endmark.control.tuning.autotune import WHO
from endmark.kafka.cluster import cluster_of
from endmark.wire.control import ControlError, Turn, read_control

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.kafka.cluster import ClusterOrAddress

_PATIENCE_MS = 5_000


class UnreadTurns:
    """Reads ahead in the control topic. Close it in the end.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        topic: the control topic.
        read: the first offset that no batch has read.
    """

    def __init__(self, bootstrap: ClusterOrAddress, topic: str, read: int) -> None:
        self._bootstrap = bootstrap
        self._partition = TopicPartition(topic, 0)
        self._first = read
        self._last = -1
        self._consumer: KafkaConsumer | None = None

    def beyond(self, read: int) -> bool:
        """Return whether the topic has a turn at this offset or later; autotune's own turns do not count.

        A record that has not arrived here yet is found by one of the next calls. Only connecting takes time,
        5 s at most, and again at each call while the broker does not answer.
        """
        try:
            if self._consumer is None:
                self._consumer = self._opened()
            self._take(self._consumer.poll(timeout_ms=0).get(self._partition, []))
        except KafkaError:  # the query reports a broker that does not answer
            self.close()
        return self._last >= read

    def close(self) -> None:
        """Close the consumer; the next call of `beyond` opens another one."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _opened(self) -> KafkaConsumer:
        consumer = KafkaConsumer(
            **cluster_of(self._bootstrap).python(),
            enable_auto_commit=False,
            metrics_enabled=False,
            bootstrap_timeout_ms=_PATIENCE_MS,
        )
        consumer.assign([self._partition])
        consumer.seek(self._partition, self._first)
        return consumer

    def _take(self, records: Iterable[Any]) -> None:
        for record in records:
            self._first = record.offset + 1
            if _is_turn(record.value):
                self._last = record.offset


def _is_turn(value: bytes | None) -> bool:
    try:
        found = read_control(value)
    except ControlError:
        return False
    return isinstance(found, Turn) and found.by != WHO

"""Turns that no batch has read yet. A query that waits for long is ended because of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from endmark.control.autotune import WHO
from endmark.wire.control import ControlError, Turn, read_control

if TYPE_CHECKING:
    from collections.abc import Iterable

_PATIENCE_MS = 5_000


class UnreadTurns:
    """Looks ahead in the control topic; `close` it in the end.

    Args:
        bootstrap: the broker's host:port.
        topic: the control topic.
        read: the first offset that no batch has read.
    """

    def __init__(self, bootstrap: str, topic: str, read: int) -> None:
        self._bootstrap = bootstrap
        self._partition = TopicPartition(topic, 0)
        self._first = read
        self._last = -1
        self._consumer: KafkaConsumer | None = None

    def beyond(self, read: int) -> bool:
        """Return whether somebody has turned a knob at this offset or later. The job's own turns can wait.

        What is on its way here is found by one of the next calls. Only to connect takes time: 5 s at most,
        and again at each call while the broker is away.
        """
        try:
            if self._consumer is None:
                self._consumer = self._opened()
            self._take(self._consumer.poll(timeout_ms=0).get(self._partition, []))
        except KafkaError:  # that the broker is away, the query says
            self.close()
        return self._last >= read

    def close(self) -> None:
        """Close the consumer; the next question opens another one."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _opened(self) -> KafkaConsumer:
        consumer = KafkaConsumer(
            bootstrap_servers=self._bootstrap,
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

"""The number of records that wait in Kafka. The broker knows it even while the job is down."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from endmark.kafka.cluster import cluster_of

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress

ASK_SECONDS = 5.0  # Prometheus asks equally often
FRESH_SECONDS = 15.0  # an older answer is not used, since the broker has left two later questions unanswered
_PATIENCE_MS = 5_000

Ends = Mapping[str, Mapping[int, tuple[int, int]]]
"""The first offset of each partition and the offset of its next record, by topic and partition number."""


@dataclass(frozen=True)
class _Answer:
    at: float  # by the monotonic clock
    ends: Ends


class CachedEnds:
    """A cache of the ends of topics. A thread asks a broker for them every `ASK_SECONDS`.

    Only that thread waits for the broker; callers get its last answer. The thread starts with the first call
    of `latest`. It asks for all topics that were ever asked for, since pipelines ask for theirs by turns.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
    """

    def __init__(self, bootstrap: ClusterOrAddress) -> None:
        self._bootstrap = bootstrap
        self._lock = threading.Lock()
        self._topics: frozenset[str] = frozenset()
        self._answer: _Answer | None = None
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def latest(self, topics: Collection[str]) -> Ends | None:
        """Return the ends of these topics, at most `FRESH_SECONDS` old; `None` if they are not known."""
        with self._lock:
            self._topics |= frozenset(topics)
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._run, name="topic-ends", daemon=True)
                self._thread.start()
            answer = self._answer
        if (
            answer is None
            or time.monotonic() - answer.at > FRESH_SECONDS
            or not answer.ends.keys() >= set(topics)
        ):
            return None
        return {topic: answer.ends[topic] for topic in topics}

    def close(self) -> None:
        """Stop asking the broker."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                with closing(asking_consumer(self._bootstrap)) as consumer:
                    while not self._closed.is_set():
                        asked = time.monotonic()
                        self._answer = _Answer(asked, topic_ends(consumer, self._topics))
                        self._closed.wait(ASK_SECONDS)
            except KafkaError:  # the last answer is soon too old to be used
                self._closed.wait(ASK_SECONDS)


def asking_consumer(kafka: ClusterOrAddress) -> KafkaConsumer:
    """Return a consumer that asks a cluster for the ends of topics, and reads no record.

    Raises:
        KafkaError: the broker does not answer.
    """
    return KafkaConsumer(
        **cluster_of(kafka).python(),
        enable_auto_commit=False,
        allow_auto_create_topics=False,
        metrics_enabled=False,
        bootstrap_timeout_ms=_PATIENCE_MS,
    )


def topic_ends(consumer: KafkaConsumer, topics: Collection[str]) -> Ends:
    """Return the ends of the topics; topics that do not exist are left out.

    Raises:
        KafkaError: the broker does not answer within five seconds.
    """
    partitions = [
        TopicPartition(topic, partition)
        for topic in topics
        for partition in consumer.partitions_for_topic(topic) or ()
    ]
    if not partitions:
        return {}
    first = consumer.beginning_offsets(partitions, timeout_ms=_PATIENCE_MS)
    end = consumer.end_offsets(partitions, timeout_ms=_PATIENCE_MS)
    found: dict[str, dict[int, tuple[int, int]]] = {}
    for each in partitions:
        found.setdefault(each.topic, {})[each.partition] = first[each], end[each]
    return found


def lag(ends: Ends, read: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Count the records of each topic that wait.

    Args:
        ends: the first and the next offset of each partition, by topic and partition number.
        read: the first offset that no batch has read, by topic and partition; a missing partition was never
            read.

    >>> lag({"bids": {0: (5, 9), 1: (0, 3)}}, {"bids": {"0": 7}})
    {'bids': 5}
    """
    return {
        topic: sum(
            max(0, end - max(first, read.get(topic, {}).get(str(partition), first)))
            for partition, (first, end) in partitions.items()
        )
        for topic, partitions in ends.items()
    }

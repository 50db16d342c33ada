"""Offsets of topics: how far they go, which ones a batch reads, and how tasks share these out."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from endmark.errors import EndmarkError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.ranges import Range
from endmark.kafka.refusals import refusals_named

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from endmark.kafka.cluster import ClusterOrAddress

Offsets = dict[str, dict[str, int]]
"""Offsets by topic and partition, as Spark keeps them in a checkpoint: JSON has texts as names."""

_TRY_AGAIN_SECONDS = 0.5
_CLIENT = {"bootstrap_timeout_ms": 5000, "request_timeout_ms": 10_000}


class UnknownOffsetsError(EndmarkError):
    """Kafka does not say how far its topics go, or has lost records."""


class TopicEnds:
    """Asks a Kafka cluster how far topics go.

    Args:
        kafka: the cluster, or the addresses of its brokers.
        topics: the topics.
        patience: the seconds for which it asks again while brokers do not answer, or elect leaders.
    """

    def __init__(self, kafka: ClusterOrAddress, topics: Sequence[str], patience: float = 30.0) -> None:
        self._kafka = kafka
        self._topics = list(topics)
        self._patience = patience
        self._client: Any = None

    def first(self) -> Offsets:
        """Return the first offset that Kafka still holds, of all partitions.

        Raises:
            UnknownOffsetsError: Kafka does not answer.
            ConfigError: the cluster refuses us.
        """
        return self._ask(OffsetSpec.EARLIEST)

    def ends(self) -> Offsets:
        """Return the offset behind the last one, of all partitions. An open transaction ends a partition.

        Raises:
            UnknownOffsetsError: Kafka does not answer.
            ConfigError: the cluster refuses us.
        """
        return self._ask(OffsetSpec.LATEST)

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _ask(self, spec: Any) -> Offsets:
        until = time.monotonic() + self._patience
        while True:
            try:
                with refusals_named(self._kafka):
                    return self._answer(spec)
            except KafkaError as error:
                self.close()  # the next client asks the other brokers, too
                if time.monotonic() >= until:
                    raise UnknownOffsetsError(
                        f"Kafka at {self._kafka}: {type(error).__name__}: {error}; when it is back, run the "
                        "job again from its checkpoint"
                    ) from error
            time.sleep(_TRY_AGAIN_SECONDS)

    def _answer(self, spec: Any) -> Offsets:
        if self._client is None:
            self._client = KafkaAdminClient(**cluster_of(self._kafka).python(), **_CLIENT)
        asked = {
            TopicPartition(topic["name"], partition["partition_index"]): spec
            for topic in self._client.describe_topics(self._topics)
            for partition in topic["partitions"]
        }
        found: Offsets = {topic: {} for topic in self._topics}
        for at, answer in self._client.list_partition_offsets(asked, "read_committed").items():
            found[at.topic][str(at.partition)] = answer.offset
        return found


def limited(start: Offsets, ends: Offsets, most: int) -> Offsets:
    """Return the ends of a batch of at most `most` records, but at least one of each partition that has some.

    Each partition gets the share of the batch that it has of all unread offsets. So partitions stay in step,
    and a long one does not hold up a short one.

    Args:
        start: the first unread offsets. A partition that is missing is new, and read from 0.
        ends: the offsets behind the last ones.
        most: the most records.

    Raises:
        UnknownOffsetsError: a partition ends before its first unread offset, or is gone, so records are lost.
    """
    unread = {(topic, at): end - start.get(topic, {}).get(at, 0) for topic, at, end in _each(ends)}
    lost = [f"{topic}/{at}" for topic, at, _ in _each(start) if unread.get((topic, at), -1) < 0]
    if lost:
        raise UnknownOffsetsError(
            f"Kafka has lost records: {', '.join(lost)} ends before the first offset that was not read, or "
            "is gone. The topic was deleted or made anew, or a broker lost its disk; to go on without these "
            "records, begin a new checkpoint"
        )
    share = most / max(most, sum(unread.values()))
    return {
        topic: {at: end - unread[topic, at] + _share(unread[topic, at], share) for at, end in ends_of.items()}
        for topic, ends_of in ends.items()
    }


def _share(unread: int, share: float) -> int:
    return max(min(1, unread), int(unread * share))


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """Return the ranges between two sets of offsets, without empty ones."""
    found = (Range(topic, int(at), start.get(topic, {}).get(at, 0), until) for topic, at, until in _each(end))
    return [each for each in found if each.offsets > 0]


def shared_out(ranges: Iterable[Range], tasks: int) -> list[list[Range]]:
    """Share ranges out among at most so many tasks, so that these read about equally many records."""
    shares: list[list[Range]] = [[] for _ in range(tasks)]
    load = [(0, number) for number in range(tasks)]
    for each in sorted(ranges, key=lambda each: -each.offsets):
        records, number = load[0]
        shares[number].append(each)
        heapq.heapreplace(load, (records + each.offsets, number))
    return [share for share in shares if share]


def _each(offsets: Mapping[str, Mapping[str, int]]) -> Iterable[tuple[str, str, int]]:
    return ((topic, at, offset) for topic, partitions in offsets.items() for at, offset in partitions.items())

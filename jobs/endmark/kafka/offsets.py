"""Offsets of topics: how far they go, which ones a batch reads, and how tasks share these out."""

from __future__ import annotations

import heapq
import time
from typing import TYPE_CHECKING, Any, TypeVar

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from endmark.errors import ConfigError, EndmarkError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.ranges import Range
from endmark.kafka.refusals import refusals_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from endmark.kafka.cluster import ClusterOrAddress

_Answer = TypeVar("_Answer")

Offsets = dict[str, dict[str, int]]
"""Offsets by topic and partition, as Spark keeps them in a checkpoint: JSON has texts as names."""

_TRY_AGAIN_SECONDS = 0.5
_NO_ID = {None, "00000000-0000-0000-0000-000000000000"}  # the answers of an older broker, and for no topic
_CLIENT = {"bootstrap_timeout_ms": 5000, "request_timeout_ms": 10_000}


class UnknownOffsetsError(EndmarkError):
    """Kafka does not say how far its topics go, or has lost records."""


class TopicEnds:
    """Asks a Kafka cluster how far topics go.

    Args:
        kafka: the cluster, or the addresses of its brokers.
        topics: the topics.
        patience: the seconds for which it asks again while brokers do not answer, or elect leaders.
        ids: the ids that topics have had. A topic of the same name with another id has other records at the
            same offsets, so each call refuses it.
    """

    def __init__(
        self,
        kafka: ClusterOrAddress,
        topics: Sequence[str],
        patience: float = 30.0,
        ids: Mapping[str, str] | None = None,
    ) -> None:
        self._kafka = kafka
        self._topics = list(topics)
        self._patience = patience
        self._known = dict(ids or {})
        self._client: Any = None

    def ids(self) -> dict[str, str]:
        """Return the ids of the topics. Brokers before Kafka 2.8 give none, and their topics are left out.

        Raises:
            UnknownOffsetsError: Kafka does not answer.
            ConfigError: the cluster refuses us, or a topic was made anew.
        """
        return self._patiently(lambda: _ids(self._described()))

    def first(self) -> Offsets:
        """Return the first offset that Kafka still holds, of all partitions.

        Raises:
            UnknownOffsetsError: Kafka does not answer.
            ConfigError: the cluster refuses us, or a topic was made anew.
        """
        return self._patiently(lambda: self._offsets(OffsetSpec.EARLIEST))

    def ends(self) -> Offsets:
        """Return the offset behind the last one, of all partitions. An open transaction ends a partition.

        Raises:
            UnknownOffsetsError: Kafka does not answer.
            ConfigError: the cluster refuses us, or a topic was made anew.
        """
        return self._patiently(lambda: self._offsets(OffsetSpec.LATEST))

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _patiently(self, ask: Callable[[], _Answer]) -> _Answer:
        until = time.monotonic() + self._patience
        while True:
            try:
                with refusals_named(self._kafka):
                    return ask()
            except KafkaError as error:
                self.close()  # the next client asks the other brokers, too
                if time.monotonic() >= until:
                    raise UnknownOffsetsError(
                        f"Kafka at {self._kafka}: {error}; when it is back, run the "
                        "job again from its checkpoint"
                    ) from error
            time.sleep(_TRY_AGAIN_SECONDS)

    def _described(self) -> list[dict[str, Any]]:
        if self._client is None:
            self._client = KafkaAdminClient(**cluster_of(self._kafka).python(), **_CLIENT)
        found: list[dict[str, Any]] = self._client.describe_topics(self._topics)
        for topic, now in _ids(found).items():
            if (before := self._known.get(topic, now)) != now:
                raise ConfigError(
                    f"Kafka at {self._kafka}: topic {topic} is not the one that this checkpoint has read (id "
                    f"{before}), but was made anew (id {now}), so its first records would be skipped; begin "
                    "a new checkpoint by `endmark migrate FILE`. If the new topic has the same records at "
                    "the same offsets, remove the file endmark/topics.json of the checkpoint instead"
                )
        return found

    def _offsets(self, spec: Any) -> Offsets:
        asked = {
            TopicPartition(topic["name"], partition["partition_index"]): spec
            for topic in self._described()
            for partition in topic["partitions"]
        }
        found: Offsets = {topic: {} for topic in self._topics}
        for at, answer in self._client.list_partition_offsets(asked, "read_committed").items():
            found[at.topic][str(at.partition)] = answer.offset
        return found


def _ids(described: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {topic["name"]: topic["topic_id"] for topic in described if topic.get("topic_id") not in _NO_ID}


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

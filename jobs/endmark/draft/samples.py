"""Samples of records: the first and last ones of each partition of a topic, or the lines of a file."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from endmark.errors import ConfigError, UnreachableError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.refusals import refusals_named
from endmark.pipeline.publish import CHECKPOINT_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from endmark.kafka.cluster import ClusterOrAddress

T = TypeVar("T")

_AT_EACH_END = 300  # records of a partition, of few partitions
_OF_A_TOPIC = 6_000
_LEAST = 20
_LINES = 20_000
_BYTES = 64_000_000  # a sample of large records ends early
_ANSWER_MS = 5_000
_READ_SECONDS = 30.0  # offsets of transactions and of compacted records never come


@dataclass(frozen=True)
class Record:
    """A record of a topic.

    Args:
        value: the value; `None` for a tombstone.
        key: the key; `None` if it has none.
        partition: the number of the partition.
        timestamp: the timestamp in Kafka, in milliseconds since 1970; `None` if it is not known.
        published: whether a pipeline has published it.
    """

    value: bytes | None
    key: bytes | None = None
    partition: int = 0
    timestamp: int | None = None
    published: bool = False


@dataclass(frozen=True)
class Sample:
    """Some records of a topic, those of each partition in its order."""

    topic: str
    records: Sequence[Record]


def topics_at(bootstrap: ClusterOrAddress) -> list[str]:
    """Return the names of a broker's topics, less Kafka's own.

    Raises:
        UnreachableError: the broker does not answer.
        ConfigError: the cluster refuses us.
    """
    try:
        with refusals_named(bootstrap), closing(_consumer(bootstrap)) as consumer:
            return sorted(name for name in consumer.topics() if not name.startswith("__"))
    except KafkaError as error:
        raise _silent(bootstrap) from error


def sample_topics(bootstrap: ClusterOrAddress, topics: Sequence[str]) -> list[Sample]:
    """Read the first and last records of each partition of some topics.

    Raises:
        ConfigError: there is no such topic, or the cluster refuses us.
        UnreachableError: the broker does not answer.
    """
    there = topics_at(bootstrap)  # to ask for the partitions of a missing topic could create it
    if missing := [topic for topic in topics if topic not in there]:
        raise ConfigError(
            f"broker {bootstrap} has no topic {', '.join(missing)}; there are: {', '.join(there) or 'none'}"
        )
    try:
        with refusals_named(bootstrap), closing(_consumer(bootstrap)) as consumer:
            return [
                Sample(
                    topic, list(_within(_of_topic(consumer, topic), lambda record: len(record.value or b"")))
                )
                for topic in topics
            ]
    except KafkaError as error:
        raise _silent(bootstrap) from error


def sample_file(topic: str, file: Path) -> Sample:
    """Return the first lines of a file as records of a topic, without blank lines.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        with file.open("rb") as opened:
            lines = list(_within(map(bytes.strip, islice(opened, _LINES)), len))
    except OSError as error:
        raise ConfigError(f"--sample {topic}={file}: {error.strerror}; name a file of records") from error
    return Sample(topic, [Record(line) for line in lines if line])


def _consumer(bootstrap: ClusterOrAddress) -> KafkaConsumer:
    return KafkaConsumer(
        **cluster_of(bootstrap).python(),
        bootstrap_timeout_ms=_ANSWER_MS,
        enable_auto_commit=False,
        group_id=None,
    )


def _silent(bootstrap: ClusterOrAddress) -> UnreachableError:
    return UnreachableError(
        f"no Kafka broker answers at {bootstrap}; start one with `endmark broker`, or correct --bootstrap"
    )


def _of_topic(consumer: KafkaConsumer, topic: str) -> Iterator[Record]:
    partitions = [TopicPartition(topic, number) for number in sorted(consumer.partitions_for_topic(topic))]
    starts, ends = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    most = max(_LEAST, min(_AT_EACH_END, _OF_A_TOPIC // (2 * len(partitions))))
    for partition in partitions:
        start, end = starts[partition], ends[partition]
        split = min(start + most, end)
        yield from _between(consumer, partition, start, split)
        yield from _between(consumer, partition, max(split, end - most), end)


def _within(each: Iterable[T], size: Callable[[T], int]) -> Iterator[T]:
    """Yield parts of a sample until they have `_BYTES` bytes, given the bytes of a part."""
    total = 0
    for part in each:
        total += size(part)
        if total > _BYTES:
            return
        yield part


def _between(consumer: KafkaConsumer, partition: TopicPartition, low: int, high: int) -> Iterator[Record]:
    """Read the records from an offset up to another one, for half a minute at most."""
    if low >= high:
        return
    consumer.assign([partition])
    consumer.seek(partition, low)
    deadline = time.monotonic() + _READ_SECONDS
    while consumer.position(partition) < high and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            for each in records:
                if each.offset < high:
                    published = any(name == CHECKPOINT_HEADER for name, _ in each.headers)
                    yield Record(each.value, each.key, each.partition, each.timestamp, published)

"""Publishes a stream of the papers to a Kafka topic."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from endmark.client import key_hash
from endmark_feed.message import EPOCH, Kind, Message
from endmark_feed.papers.event import Workload
from endmark_feed.publish import Pace, Published, publish

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress

_BEGIN = datetime.fromisoformat(EPOCH)


def run_workload(
    workload: Workload,
    bootstrap: ClusterOrAddress,
    topic: str,
    seed: int = 1,
    partitions: int = 1,
    pace: Pace = "real",
) -> Published:
    """Publish a stream of the papers' experiments and return when the broker has acknowledged all of it.

    Args:
        workload: the stream.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        topic: the topic, which must be empty or missing.
        seed: equal seeds give equal records.
        partitions: the number of partitions of the topic.
        pace: `real` publishes each record when its event time is due, `fast` as fast as the broker takes it.

    Raises:
        MissingPartError: the broker cannot be reached or stops taking records.
        ConfigError: the topic holds records already or has another number of partitions.
    """
    return publish(messages(workload, topic, seed, partitions), bootstrap, {topic: partitions}, pace)


def messages(workload: Workload, topic: str, seed: int, partitions: int) -> Iterator[Message]:
    """Yield the records of a stream of the papers.

    A punctuation is in the partition that has all rows of its key, so it closes the key for all partitions.

    Args:
        workload: the stream.
        topic: the topic.
        seed: equal seeds give equal records.
        partitions: the number of partitions of the topic.
    """
    for event in workload.events(seed):
        key = b"%d" % event.key
        partition = key_hash(key) % partitions
        if event.closes:
            kind, value = Kind.PUNCTUATION, f'{{"$punctuation": {{"key": {{"equals": {event.key}}}}}}}'
        else:
            at = (_BEGIN + timedelta(seconds=event.seconds)).isoformat(timespec="microseconds")
            kind, value = Kind.ROW, f'{{"key": {event.key}, "serial": {event.serial}, "at": "{at}Z"}}'
        yield Message(topic, partition, key, value.encode(), event.seconds, kind)

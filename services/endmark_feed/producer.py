"""Functions that create topics, wait until records are due, and send them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import InvalidPartitionsError, InvalidTopicError, KafkaError, PolicyViolationError

from endmark.client.delivery import DEADLINE_SECONDS, Delivery, broker_needed
from endmark.errors import ConfigError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.refusals import refusals_named
from endmark_feed.message import Kind, Message

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress

NAP_SECONDS = 0.010  # records due within one nap go out together
CHUNK = 500
_REFUSALS: dict[type[KafkaError], str] = {
    InvalidTopicError: "a name has at most 249 letters, digits, dots, underscores and hyphens; use another",
    InvalidPartitionsError: "there cannot be so many partitions; use fewer",
    PolicyViolationError: "a policy of the brokers forbids it; use fewer partitions, or create it yourself",
}


def create_topics(
    bootstrap: ClusterOrAddress, partitions: Mapping[str, int], deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    """Create the topics that are missing, without replicas, and check that the others are empty.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        partitions: the number of partitions of each topic.
        deadline_seconds: the longest wait for a broker.

    Raises:
        MissingPartError: no broker answers within the deadline.
        ConfigError: a topic has another number of partitions or holds records already, or the brokers refuse
            its name or its number of partitions.
    """
    with broker_needed(bootstrap), refusals_named(bootstrap):
        admin = KafkaAdminClient(
            **cluster_of(bootstrap).python(), bootstrap_timeout_ms=round(deadline_seconds * 1000)
        )
        try:
            existing = set(admin.list_topics()) & set(partitions)
            missing = {
                topic: {"num_partitions": number, "replication_factor": 1}
                for topic, number in partitions.items()
                if topic not in existing
            }
            if missing:
                _create(admin, missing, bootstrap)
            for topic in sorted(existing):
                _check_topic(admin, topic, partitions[topic])
        finally:
            admin.close()


def _create(admin: Any, missing: Mapping[str, Mapping[str, int]], bootstrap: ClusterOrAddress) -> None:
    try:
        admin.create_topics(missing, wait_for_metadata=True)
    except tuple(_REFUSALS) as error:
        topics = ", ".join(f"{name} ({each['num_partitions']} partitions)" for name, each in missing.items())
        raise ConfigError(
            f"Kafka at {bootstrap} refuses to create {topics[:300]}: {_REFUSALS[type(error)]}"
        ) from error


def _check_topic(admin: Any, topic: str, expected: int) -> None:
    found = len(admin.describe_topics([topic])[0]["partitions"])
    if found != expected:
        raise ConfigError(
            f"topic {topic} has {found} partitions, but the feed is to use {expected}; "
            f"set the feed's partitions to {found} or delete the topic"
        )
    latest = {TopicPartition(topic, index): OffsetSpec.LATEST for index in range(found)}
    records = sum(end.offset for end in admin.list_partition_offsets(latest).values())
    if records:
        # Event time begins anew with every run, so every row of a second run would be a violation.
        raise ConfigError(
            f"topic {topic} was written to before ({records:,} records), and a run of the feed needs empty "
            "topics since its event time starts over; delete the topics or use a new broker"
        )


def when_due(
    messages: Iterable[Message], elapsed: Callable[[], float], sleep: Callable[[float], None] = time.sleep
) -> Iterator[list[Message]]:
    """Yield messages in chunks, none of them before its due time, and overdue ones at once.

    Args:
        messages: the messages in the order of their due times.
        elapsed: returns the seconds since the run began; infinity lets all messages follow at once.
        sleep: sleeps for a number of seconds.
    """
    chunk: list[Message] = []
    now = elapsed()
    for message in messages:
        if message.due_seconds > now or len(chunk) == CHUNK:
            if chunk:
                yield chunk
                chunk = []
            now = elapsed()
            if message.due_seconds > now:
                sleep(max(message.due_seconds - now, NAP_SECONDS))
                now = elapsed()
        chunk.append(message)
    if chunk:
        yield chunk


def send(delivery: Delivery, chunk: Iterable[Message]) -> None:
    """Send messages to their partitions, in order."""
    for topic, partition, key, value, _, kind in chunk:
        delivery.send(topic, partition, key, None if kind is Kind.TOMBSTONE else value)

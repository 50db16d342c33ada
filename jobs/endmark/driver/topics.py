"""Checks of Kafka's topics and partitions before a query starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.admin import ConfigResource
from kafka.errors import KafkaError, TopicAlreadyExistsError
from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_fixed,
)

from endmark.errors import MissingPartError, PartitionError, UnreachableError
from endmark.kafka.cluster import cluster_of
from endmark.kafka.refusals import refusals_named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.kafka.cluster import ClusterOrAddress


def make_topic(bootstrap: ClusterOrAddress, topic: str) -> None:
    """Create a topic of one partition, with the broker's own replication factor, unless it exists.

    Raises:
        MissingPartError: the topic is missing, and the broker does not let us create it.
        ConfigError: the cluster refuses us.
    """
    try:
        with refusals_named(bootstrap):
            admin = KafkaAdminClient(**cluster_of(bootstrap).python(), bootstrap_timeout_ms=5000)
            try:
                if topic not in admin.list_topics():
                    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": -1}})
            except TopicAlreadyExistsError:
                pass  # another job that starts at the same time was faster
            finally:
                admin.close()
    except KafkaError as error:
        raise MissingPartError(
            f"broker {bootstrap} has no topic {topic}, and does not let this job make it "
            f"({type(error).__name__}); create it with one partition, or name another: control.topic"
        ) from error


def partition_counts(
    bootstrap: ClusterOrAddress, topics: list[str], deadline_seconds: float = 30.0
) -> dict[str, int]:
    """Return the number of partitions of each topic; wait for topics that are about to be created.

    Args:
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        topics: the topics.
        deadline_seconds: the longest wait.

    Raises:
        UnreachableError: the broker does not answer until the deadline.
        MissingPartError: a topic is missing until then.
        ConfigError: the cluster refuses us.
    """
    found: dict[str, int] = {}

    def ask() -> dict[str, int]:
        with refusals_named(bootstrap):
            consumer = KafkaConsumer(**cluster_of(bootstrap).python(), bootstrap_timeout_ms=5000)
            try:
                for topic in topics:
                    found[topic] = len(consumer.partitions_for_topic(topic) or ())
            finally:
                consumer.close()
        return found

    attempts = Retrying(
        retry=retry_if_exception_type(KafkaError) | retry_if_result(lambda counts: 0 in counts.values()),
        stop=stop_after_delay(deadline_seconds),
        wait=wait_fixed(0.5),
    )
    try:
        return attempts(ask)
    except RetryError as error:
        missing = [topic for topic, count in found.items() if count == 0]
        if missing:
            raise MissingPartError(
                f"broker {bootstrap} has no topic {', '.join(missing)}, or does not show it to this user; "
                "create it, correct the pipeline file, or give the user the right to describe it"
            ) from error
        raise UnreachableError(
            f"no Kafka broker answers at {bootstrap}; start it, correct --bootstrap, or add kafka.tls to the "
            "file if the broker asks for TLS"
        ) from error


def longest_record(bootstrap: ClusterOrAddress, topic: str) -> int | None:
    """Return the `max.message.bytes` of a topic; `None` if the cluster does not say it to this user."""
    try:
        admin = KafkaAdminClient(**cluster_of(bootstrap).python(), bootstrap_timeout_ms=5000)
        try:
            asked = [ConfigResource("TOPIC", topic, {"max.message.bytes": None})]
            found = admin.describe_configs(asked, config_filter="all")
            return int(found["topic"][topic]["max.message.bytes"]["value"])
        finally:
            admin.close()
    except (KafkaError, KeyError, TypeError, ValueError):
        return None


def require_counted(topic: str, partitions: Iterable[int], counted: int) -> None:
    """Refuse a batch with records of a partition that was added to a topic after the query started.

    Spark reads a new partition at once. But keys are closed and windows end when all partitions have said so,
    and the query has not waited for the new one.

    Args:
        topic: the topic's name.
        partitions: the numbers of the partitions that the batch has records of.
        counted: the number of partitions that the topic had when the query started.

    Raises:
        PartitionError: the batch has such a record; it is not written and may be repeated.
    """
    if late := sorted(number for number in partitions if number >= counted):
        raise PartitionError(
            f"topic {topic} has got partition {', '.join(map(str, late))} since the query started, so keys "
            "could be closed without it; start it again, and it goes on from its checkpoint"
        )

"""Questions to Kafka before a query starts: which topics and partitions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka import KafkaAdminClient, KafkaConsumer
from kafka.errors import KafkaError, TopicAlreadyExistsError
from tenacity import (
    RetryError,
    Retrying,
    retry_if_exception_type,
    retry_if_result,
    stop_after_delay,
    wait_fixed,
)

from endmark.errors import MissingPartError, PartitionError

if TYPE_CHECKING:
    from collections.abc import Iterable


def make_topic(bootstrap: str, topic: str) -> None:
    """Make a topic of one partition, replicated as the broker is used to, if it is not there.

    Raises:
        MissingPartError: the broker does not have it, and does not make it.
    """
    try:
        admin = KafkaAdminClient(bootstrap_servers=bootstrap, bootstrap_timeout_ms=5000)
        try:
            if topic not in admin.list_topics():
                admin.create_topics({topic: {"num_partitions": 1, "replication_factor": -1}})
        except TopicAlreadyExistsError:
            pass  # a job that starts beside this one was faster
        finally:
            admin.close()
    except KafkaError as error:
        raise MissingPartError(
            f"broker {bootstrap} has no topic {topic}, and does not let this job make it "
            f"({type(error).__name__}); create it with one partition, or name another: control.topic"
        ) from error


def partition_counts(bootstrap: str, topics: list[str], deadline_seconds: float = 30.0) -> dict[str, int]:
    """Return the number of partitions of each topic; wait for topics that are about to be created.

    Args:
        bootstrap: the address of a broker.
        topics: the topics.
        deadline_seconds: the longest wait.

    Raises:
        MissingPartError: the broker does not answer, or a topic is missing, after the deadline.
    """
    found: dict[str, int] = {}

    def ask() -> dict[str, int]:
        consumer = KafkaConsumer(bootstrap_servers=bootstrap, bootstrap_timeout_ms=5000)
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
                f"broker {bootstrap} has no topic {', '.join(missing)}; create it, or correct the "
                "pipeline file"
            ) from error
        raise MissingPartError(
            f"no Kafka broker answers at {bootstrap}; start it, or correct --bootstrap"
        ) from error


def require_counted(topic: str, partitions: Iterable[int], counted: int) -> None:
    """Refuse records of a partition that a topic has got since the query started, which Spark reads at once.

    No key is closed, and no window is over, before all partitions say so, and this one was not waited for.

    Args:
        topic: the topic's name.
        partitions: the numbers of the partitions that a batch has read records from.
        counted: how many partitions the topic had when the query started.

    Raises:
        PartitionError: there is such a record; its batch is not written, and may be repeated.
    """
    if late := sorted(number for number in partitions if number >= counted):
        raise PartitionError(
            f"topic {topic} has got partition {', '.join(map(str, late))} since the query started, so keys "
            "could be closed without it; start it again, and it goes on from its checkpoint"
        )

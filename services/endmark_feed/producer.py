"""Publishing: topics made on purpose, records sent when they are due, losses never silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import KafkaError

from endmark.errors import ConfigError, MissingPartError
from endmark_feed.message import Message

DEADLINE_SECONDS = 30.0
NAP_SECONDS = 0.010  # records due within one nap go out together
CHUNK = 500
PARTING_SECONDS = 2.0


def create_topics(
    bootstrap: str, partitions: Mapping[str, int], deadline_seconds: float = DEADLINE_SECONDS
) -> None:
    """Create the topics that are missing, unreplicated, with the given numbers of partitions.

    Raises:
        MissingPartError: when no broker answers within the deadline.
        ConfigError: when a topic has another number of partitions or holds records already.
    """
    with _broker_needed(bootstrap):
        admin = KafkaAdminClient(
            bootstrap_servers=bootstrap, bootstrap_timeout_ms=round(deadline_seconds * 1000)
        )
        try:
            existing = set(admin.list_topics()) & set(partitions)
            missing = {
                topic: {"num_partitions": number, "replication_factor": 1}
                for topic, number in partitions.items()
                if topic not in existing
            }
            if missing:
                admin.create_topics(missing, wait_for_metadata=True)
            for topic in sorted(existing):
                _check_topic(admin, topic, partitions[topic])
        finally:
            admin.close()


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
    """Yield the messages in chunks, none before its due time; late ones follow at once.

    `elapsed` gives the seconds since the run began.
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


class Publisher:
    """Sends messages to their partitions, in order and each exactly once, or raises.

    Use as a context manager: leaving it waits until the broker has acknowledged everything.

    Raises:
        MissingPartError: when the broker does not answer, or stops taking records, for the deadline.
    """

    def __init__(self, bootstrap: str, deadline_seconds: float = DEADLINE_SECONDS) -> None:
        self._bootstrap = bootstrap
        self._deadline = deadline_seconds
        self._failures: list[Exception] = []
        deadline_ms = round(deadline_seconds * 1000)
        with _broker_needed(bootstrap):
            self._producer = KafkaProducer(
                bootstrap_servers=bootstrap,
                acks="all",
                enable_idempotence=True,
                linger_ms=5,
                batch_size=128 * 1024,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                bootstrap_timeout_ms=deadline_ms,
                reconnect_backoff_max_ms=1_000,
                max_block_ms=deadline_ms,
                request_timeout_ms=deadline_ms // 2,
                delivery_timeout_ms=deadline_ms,
            )

    def __enter__(self) -> Publisher:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                with _broker_needed(self._bootstrap):
                    self._producer.flush(timeout=2 * self._deadline)
                    self._raise_failure()
        finally:
            self._close()

    def _close(self) -> None:
        try:
            self._producer.close(timeout=PARTING_SECONDS)
        except KafkaError:
            # It flushes first and gives up closing when the broker is gone: its thread would go on for ever,
            # and this error would hide why we leave. There is no public way to drop what is unsent.
            self._producer._sender.force_close()
            self._producer._sender.join(PARTING_SECONDS)
            self._producer.close(timeout=PARTING_SECONDS)

    def send(self, chunk: Sequence[Message]) -> None:
        with _broker_needed(self._bootstrap):
            self._raise_failure()
            for topic, partition, key, value, _, _ in chunk:
                self._producer.send(topic, value, key, partition=partition).add_errback(self._failures.append)

    def _raise_failure(self) -> None:
        if self._failures:
            raise self._failures[0]


@contextmanager
def _broker_needed(bootstrap: str) -> Iterator[None]:
    try:
        yield
    except (KafkaError, ValueError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise MissingPartError(
            f"the feed cannot publish to the Kafka broker at {bootstrap}: {reason}; "
            "start the broker or name another one"
        ) from error

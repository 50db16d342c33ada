"""Publishes a whole workload, at its own pace or as fast as the broker takes it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from endmark.client import Delivery
from endmark_feed.message import Kind, Message
from endmark_feed.producer import create_topics, send, when_due

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress

Pace = Literal["real", "fast"]
PROGRESS_SECONDS = 1.0


@dataclass(frozen=True)
class Published:
    """The records handed to the broker so far, and the real time that this took.

    Args:
        rows: the number of records that are not punctuations; tombstones count as rows.
        punctuations: the number of punctuations.
        seconds: real time since the first record.
    """

    rows: int
    punctuations: int
    seconds: float

    @property
    def records(self) -> int:
        return self.rows + self.punctuations


def publish(
    messages: Iterable[Message],
    bootstrap: ClusterOrAddress,
    partitions: Mapping[str, int],
    pace: Pace,
    progress: Callable[[Published], None] | None = None,
) -> Published:
    """Publish messages to empty topics, and return when the broker has acknowledged all of them.

    Topics that are missing are created.

    Args:
        messages: the messages in the order of their due times.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        partitions: the number of partitions of each topic.
        pace: `real` publishes each message when it is due, `fast` as fast as the broker takes it.
        progress: called about once a second while records flow; with `None`, nothing is called.

    Raises:
        MissingPartError: the broker cannot be reached or stops taking records.
        ConfigError: a topic holds records already or has another number of partitions.
    """
    create_topics(bootstrap, partitions)
    rows = punctuations = 0
    reported = start = time.monotonic()

    def elapsed() -> float:
        return time.monotonic() - start if pace == "real" else float("inf")

    with Delivery(bootstrap) as delivery:
        for chunk in when_due(messages, elapsed):
            send(delivery, chunk)
            closing = sum(message.kind is Kind.PUNCTUATION for message in chunk)
            punctuations += closing
            rows += len(chunk) - closing
            if progress is not None and time.monotonic() - reported >= PROGRESS_SECONDS:
                reported = time.monotonic()
                progress(Published(rows, punctuations, reported - start))
    return Published(rows, punctuations, time.monotonic() - start)

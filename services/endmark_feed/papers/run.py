"""A stream of the papers as a Kafka topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from endmark.client import Delivery, key_hash
from endmark_feed.message import EPOCH, Kind, Message
from endmark_feed.papers.event import Workload
from endmark_feed.producer import create_topics, send, when_due

Pace = Literal["real", "fast"]
_BEGIN = datetime.fromisoformat(EPOCH)


@dataclass(frozen=True)
class Published:
    """What the broker acknowledged, and the real time that took."""

    rows: int
    punctuations: int
    seconds: float


def run_workload(
    workload: Workload, bootstrap: str, topic: str, seed: int = 1, partitions: int = 1, pace: Pace = "real"
) -> Published:
    """Publish a stream and return when the broker has acknowledged all of it.

    `pace` is the stream's own (`real`), or as fast as the broker takes it.

    Raises:
        MissingPartError: when the broker cannot be reached or stops taking records.
        ConfigError: when the topic holds records already or has another number of partitions.
    """
    create_topics(bootstrap, {topic: partitions})
    rows = punctuations = 0
    with Delivery(bootstrap) as delivery:
        start = time.monotonic()

        def elapsed() -> float:
            return time.monotonic() - start if pace == "real" else float("inf")

        for chunk in when_due(messages(workload, topic, seed, partitions), elapsed):
            send(delivery, chunk)
            closing = sum(message.kind is Kind.PUNCTUATION for message in chunk)
            punctuations += closing
            rows += len(chunk) - closing
    return Published(rows, punctuations, time.monotonic() - start)


def messages(workload: Workload, topic: str, seed: int, partitions: int) -> Iterator[Message]:
    """The stream's records; a punctuation is in the partition of its key's rows, and so speaks for all."""
    for event in workload.events(seed):
        key = b"%d" % event.key
        partition = key_hash(key) % partitions
        if event.closes:
            kind, value = Kind.PUNCTUATION, f'{{"$punctuation": {{"key": {{"equals": {event.key}}}}}}}'
        else:
            at = (_BEGIN + timedelta(seconds=event.seconds)).isoformat(timespec="microseconds")
            kind, value = Kind.ROW, f'{{"key": {event.key}, "serial": {event.serial}, "at": "{at}Z"}}'
        yield Message(topic, partition, key, value.encode(), event.seconds, kind)

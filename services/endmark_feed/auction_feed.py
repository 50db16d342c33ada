"""The auction's feed, which publishes the auction's workload to a broker in real time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.client import Delivery
from endmark_feed.message import BAD, BIDS, ITEMS, Kind
from endmark_feed.options import FeedOptions
from endmark_feed.producer import create_topics, send, when_due
from endmark_feed.publish import PROGRESS_SECONDS
from endmark_feed.relation import seed_relation
from endmark_feed.workload import messages

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress

__all__ = ["FeedOptions", "FeedProgress", "run_feed", "seed_relation"]


@dataclass(frozen=True)
class FeedProgress:
    """The records handed to the broker so far, and the real time that this took.

    Args:
        items: the number of items.
        bids: the number of bids.
        punctuations: the number of punctuations.
        bad: the number of bad records of each kind.
        seconds: real time since the run began.
    """

    items: int
    bids: int
    punctuations: int
    bad: dict[str, int]
    seconds: float

    @property
    def records(self) -> int:
        return self.items + self.bids + self.punctuations + sum(self.bad.values())


def run_feed(
    options: FeedOptions, bootstrap: ClusterOrAddress, progress: Callable[[FeedProgress], None] | None = None
) -> FeedProgress:
    """Publish the auction workload and return when the broker has acknowledged all of it.

    Args:
        options: the options of the workload.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        progress: called about once a second while records flow; an exception that it raises ends the run.
            With `None`, nothing is called.

    Raises:
        MissingPartError: the broker cannot be reached or stops taking records.
        ConfigError: a topic holds records already or has another number of partitions.
    """
    create_topics(bootstrap, {ITEMS: options.partitions.items, BIDS: options.partitions.bids})
    counts: Counter[Kind] = Counter()
    with Delivery(bootstrap) as delivery:
        start = time.monotonic()

        def elapsed() -> float:
            return time.monotonic() - start

        reported = 0.0
        for chunk in when_due(messages(options), elapsed):
            send(delivery, chunk)
            counts.update(message.kind for message in chunk)
            if progress is not None and elapsed() - reported >= PROGRESS_SECONDS:
                reported = elapsed()
                progress(_progress(counts, reported))
    return _progress(counts, elapsed())


def _progress(counts: Counter[Kind], seconds: float) -> FeedProgress:
    return FeedProgress(
        items=counts[Kind.ITEM],
        bids=counts[Kind.BID],
        punctuations=counts[Kind.PUNCTUATION],
        bad={kind.value: counts[kind] for kind in BAD},
        seconds=seconds,
    )

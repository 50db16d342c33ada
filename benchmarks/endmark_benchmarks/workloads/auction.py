"""The input of whole jobs: the auction's topics and sellers, kept in their servers' folders."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Self

from kafka import KafkaConsumer, TopicPartition

from endmark.client import Delivery
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark_feed.message import BIDS, ITEMS
from endmark_feed.options import FeedOptions, Partitions
from endmark_feed.producer import CHUNK, create_topics, send
from endmark_feed.relation import seed_relation
from endmark_feed.workload import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from endmark.pipeline import Pipeline

PARTITIONS = Partitions(items=4, bids=4)
SERVER_MEMORY = "1G"  # holds all sellers, once it is warm
# The settings of a measured job. What it is compared with answers each batch at once, and so does the job, by
# the cheapest reads; its batches are as large as the measurement says.
MEASURED = (
    "--set=steps.known.lookup.strategy=auto",
    "--set=steps.known.lookup.time_per_batch=null",
    "--set=batch.pause_below=null",
    "--set=batch.records=500000",
)
_OPEN_SECONDS = 1.0  # open auctions for each record a second: an auction lasts some 20 s


def workload(seconds: float, rate: float, sellers: int) -> FeedOptions:
    """Return the auction without bad records, which Spark's own operators could not tell from good ones.

    Args:
        seconds: the length in event time.
        rate: records a second of event time.
        sellers: rows of R.
    """
    return FeedOptions(
        minutes=seconds / 60,
        rate=rate,
        sellers=sellers,
        open_items=max(1, round(rate * _OPEN_SECONDS)),
        bad_rate=0.0,
        bursts=False,
        partitions=PARTITIONS,
    )


@dataclass(frozen=True)
class Recorded:
    """A directory with a broker's topics and a database, filled from a workload."""

    directory: Path
    feed: FeedOptions

    @classmethod
    def of(cls, directory: Path, feed: FeedOptions) -> Self:
        """Below the directory of all recordings."""
        return cls(directory / f"auction-{feed.ticks}-{feed.rate:g}-{feed.sellers}", feed)


@dataclass(frozen=True)
class Servers:
    """The running servers that a job reads from.

    Args:
        bootstrap: of the broker.
        relation_url: of the database with the sellers.
    """

    bootstrap: str
    relation_url: str

    @property
    def pipeline(self) -> Pipeline:
        return load(AUCTION, {**os.environ, "ENDMARK_RELATION_URL": self.relation_url})


@contextmanager
def running(recorded: Recorded, say: Callable[[str], None]) -> Iterator[Servers]:
    """The broker and the database of a recording, which is made when it is not there.

    Raises:
        MissingPartError: a server cannot start.
    """
    complete = recorded.directory / "complete"
    if not complete.exists():
        shutil.rmtree(recorded.directory, ignore_errors=True)
    recorded.directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as parts:
        broker = parts.enter_context(Broker(recorded.directory / "broker", say=say))
        database = parts.enter_context(MariaDb(recorded.directory / "mariadb", memory=SERVER_MEMORY))
        if not complete.exists():
            say(f"recording {recorded.feed.ticks:,} records in {recorded.directory}")
            seed_relation(database.url, recorded.feed.sellers, recorded.feed.seed)
            _publish(recorded.feed, broker.bootstrap)
            complete.touch()
        yield Servers(broker.bootstrap, database.url)


def ends(servers: Servers) -> dict[str, int]:
    """Records of each stream's topic, by stream."""
    consumer = KafkaConsumer(bootstrap_servers=servers.bootstrap)
    try:
        found = {}
        for name, stream in servers.pipeline.streams.items():
            numbers = consumer.partitions_for_topic(stream.topic) or ()
            partitions = [TopicPartition(stream.topic, number) for number in numbers]
            found[name] = sum(consumer.end_offsets(partitions).values())
        return found
    finally:
        consumer.close()


def _publish(feed: FeedOptions, bootstrap: str) -> None:
    create_topics(bootstrap, {ITEMS: feed.partitions.items, BIDS: feed.partitions.bids})
    found = messages(feed)
    with Delivery(bootstrap) as delivery:
        while chunk := list(islice(found, CHUNK)):
            send(delivery, chunk)

"""The input of whole jobs: topics and master tables, kept in their servers' folders."""

from __future__ import annotations

import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka import KafkaConsumer, TopicPartition

from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark_feed.publish import publish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from endmark.pipeline import Pipeline
    from endmark_feed.message import Message

SERVER_MEMORY = "1G"  # holds all of R, once it is warm


@dataclass(frozen=True)
class Recorded:
    """A directory with a broker's topics and a database, filled from a workload.

    Args:
        directory: the directory, which is made when it is not there.
        partitions: the number of partitions of each topic.
        messages: yields the records in the order to publish them.
        fill: creates and fills the master tables at an SQLAlchemy URL, and returns the rows written.
    """

    directory: Path
    partitions: Mapping[str, int]
    messages: Callable[[], Iterable[Message]]
    fill: Callable[[str], int]


@dataclass(frozen=True)
class Servers:
    """The running servers that a job reads from.

    Args:
        bootstrap: the address of the broker, as `host:port`.
        relation_url: the SQLAlchemy URL of the database with the master tables.
    """

    bootstrap: str
    relation_url: str


@contextmanager
def running(
    recorded: Recorded, say: Callable[[str], None], broker: Broker | None = None
) -> Iterator[Servers]:
    """Start the broker and the database of a recording, which is made when it is not there.

    Args:
        recorded: the recording.
        say: hears of the course of that.
        broker: the broker, if it is not the usual one. Its topics are in the recording's `broker`.

    Raises:
        MissingPartError: a server cannot start.
    """
    complete = recorded.directory / "complete"
    if not complete.exists():
        shutil.rmtree(recorded.directory, ignore_errors=True)
    recorded.directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as parts:
        parts.enter_context(broker := broker or Broker(recorded.directory / "broker", say=say))
        database = parts.enter_context(MariaDb(recorded.directory / "mariadb", memory=SERVER_MEMORY))
        if not complete.exists():
            say(f"recording {recorded.directory}")
            recorded.fill(database.url)
            publish(recorded.messages(), broker.bootstrap, recorded.partitions, "fast")
            complete.touch()
        yield Servers(broker.bootstrap, database.url)


def texts(recorded: Recorded, say: Callable[[str], None]) -> Path:
    """Return the directory of a recording's values, a file of lines for each topic; it is made if missing."""
    place = recorded.directory.with_name(f"{recorded.directory.name}-texts")
    if not place.exists():
        say(f"writing the values of {recorded.directory} as lines of text")
        part = place.with_name(f"{place.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        with ExitStack() as files:
            topics = {
                topic: files.enter_context((part / f"{topic}.json").open("wb"))
                for topic in recorded.partitions
            }
            for message in recorded.messages():
                topics[message.topic].write(message.value + b"\n")
        part.rename(place)
    return place


def ends(bootstrap: str, pipeline: Pipeline) -> dict[str, int]:
    """Return the number of records in the topic of each of a pipeline's streams, by stream."""
    consumer = KafkaConsumer(bootstrap_servers=bootstrap)
    try:
        found = {}
        for name, stream in pipeline.streams.items():
            numbers = consumer.partitions_for_topic(stream.topic) or ()
            partitions = [TopicPartition(stream.topic, number) for number in numbers]
            found[name] = sum(consumer.end_offsets(partitions).values())
        return found
    finally:
        consumer.close()

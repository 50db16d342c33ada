"""Workloads of the example pipelines but the auction's: their topics, records and master tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from endmark.errors import ConfigError
from endmark_feed import fulfilment, news, orders
from endmark_feed.message import Message
from endmark_feed.producer import create_topics
from endmark_feed.publish import Pace, Published, publish

if TYPE_CHECKING:
    from endmark.kafka.cluster import ClusterOrAddress


@dataclass(frozen=True)
class Example:
    """The workload of an example pipeline.

    Args:
        partitions: the number of partitions of each topic.
        messages: yields the records in the order to publish them; its arguments are the seed, the length of
            the run in seconds, and the mean records a second.
        fill: creates and fills the master tables, and returns the rows written; its arguments are an
            SQLAlchemy URL and the seed.
        outputs: the number of partitions of each topic that the pipeline publishes to.
    """

    partitions: Mapping[str, int]
    messages: Callable[[int, float, float], Iterator[Message]]
    fill: Callable[[str, int], int]
    outputs: Mapping[str, int] = field(default_factory=dict)


EXAMPLES = {
    "fulfilment": Example(
        fulfilment.PARTITIONS, fulfilment.messages, fulfilment.fill, outputs=fulfilment.OUTPUTS
    ),
    "news": Example(news.PARTITIONS, news.messages, news.fill),
    "orders": Example(orders.PARTITIONS, orders.messages, orders.fill),
}


def require_length(minutes: float, rate: float) -> None:
    """Refuse numbers that `run_example` cannot run by.

    Raises:
        ConfigError: a number is out of its range.
    """
    for option, value, most in (("minutes", minutes, 1_440.0), ("rate", rate, 200_000.0)):
        if not 0.01 <= value <= most:  # refuses NaN, too
            raise ConfigError(f"{option} of a feed is {value}; choose a number from 0.01 to {most:,.0f}")


def run_example(
    name: str,
    bootstrap: ClusterOrAddress,
    seed: int,
    minutes: float,
    rate: float,
    pace: Pace,
    progress: Callable[[Published], None] | None = None,
) -> Published:
    """Publish the workload of an example and return when the broker has acknowledged all of it.

    Args:
        name: the example, one of `EXAMPLES`.
        bootstrap: the Kafka cluster, or the addresses of its brokers.
        seed: equal seeds give equal records.
        minutes: the length of the run, 0.01 to 1,440.
        rate: the mean records a second of the run, 0.01 to 200,000.
        pace: `real` publishes each record when it is due, `fast` as fast as the broker takes it.
        progress: called about once a second while records flow; with `None`, nothing is called.

    Raises:
        ConfigError: a number is out of its range, or a topic has records or another number of partitions.
        MissingPartError: the broker cannot be reached or stops taking records.
    """
    require_length(minutes, rate)
    example = EXAMPLES[name]
    if example.outputs:
        create_topics(bootstrap, example.outputs)
    return publish(example.messages(seed, minutes * 60, rate), bootstrap, example.partitions, pace, progress)

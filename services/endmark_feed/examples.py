"""Workloads of the example pipelines `news` and `orders`: their topics, records and master tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from endmark.errors import ConfigError
from endmark_feed import news, orders
from endmark_feed.message import Message
from endmark_feed.publish import Pace, Published, publish


@dataclass(frozen=True)
class Example:
    """The workload of an example pipeline.

    Args:
        partitions: the number of partitions of each topic.
        messages: yields the records in the order to publish them; its arguments are the seed, the length of
            the run in seconds of event time, and the mean records a second.
        fill: creates and fills the master tables, and returns the rows written; its arguments are an
            SQLAlchemy URL and the seed.
    """

    partitions: Mapping[str, int]
    messages: Callable[[int, float, float], Iterator[Message]]
    fill: Callable[[str, int], int]


EXAMPLES = {
    "news": Example(news.PARTITIONS, news.messages, news.fill),
    "orders": Example(orders.PARTITIONS, orders.messages, orders.fill),
}


def run_example(name: str, bootstrap: str, seed: int, minutes: float, rate: float, pace: Pace) -> Published:
    """Publish the workload of an example and return when the broker has acknowledged all of it.

    Args:
        name: the example, `news` or `orders`.
        bootstrap: the broker's host:port.
        seed: equal seeds give equal records.
        minutes: the length of the run in event time, 0.01 to 1,440.
        rate: the mean records a second of event time, 0.01 to 200,000.
        pace: `real` publishes each record when its event time is due, `fast` as fast as the broker takes it.

    Raises:
        ConfigError: a number is out of its range, or a topic has records or another number of partitions.
        MissingPartError: the broker cannot be reached or stops taking records.
    """
    for option, value, most in (("minutes", minutes, 1_440.0), ("rate", rate, 200_000.0)):
        if not 0.01 <= value <= most:  # refuses NaN, too
            raise ConfigError(f"{option} of a feed is {value}; choose a number from 0.01 to {most:,.0f}")
    example = EXAMPLES[name]
    return publish(example.messages(seed, minutes * 60, rate), bootstrap, example.partitions, pace)

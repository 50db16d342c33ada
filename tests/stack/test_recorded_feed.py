"""A recorded feed, and a broker that it goes to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, TopicPartition

from endmark.embedded.broker import Broker
from endmark.errors import EndmarkError
from endmark_benchmarks.workloads.auction import PARTITIONS, workload
from endmark_benchmarks.workloads.recorded_feed import Phase, RecordedFeed
from endmark_feed.message import BIDS, ITEMS
from endmark_feed.producer import create_topics
from endmark_feed.workload import messages


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of this module alone, since the feed names its topics."""
    with Broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> RecordedFeed:
    made = RecordedFeed(tmp_path_factory.mktemp("bench") / "feed", seconds=4, rate=500, sellers=100)
    made.make()
    return made


def test_records_come_in_order_at_the_pace_of_each_phase(feed: RecordedFeed, broker: Broker) -> None:
    with pytest.raises(EndmarkError, match=r"refused records of (items|bids): error 3"):
        list(feed.send(broker.bootstrap, [Phase(1_000, 0.1)]))
    create_topics(broker.bootstrap, {ITEMS: PARTITIONS.items, BIDS: PARTITIONS.bids})
    expected: dict[tuple[str, int], list[bytes]] = {}
    for message in itertools.takewhile(lambda each: each.due_seconds < 3, messages(workload(4, 500, 100))):
        expected.setdefault((message.topic, message.partition), []).append(message.value)

    with KafkaConsumer(bootstrap_servers=broker.bootstrap) as consumer:
        partitions = [TopicPartition(*each) for each in expected]
        consumer.end_offsets(partitions)  # waits until each has its leader

        slow, fast = feed.send(broker.bootstrap, [Phase(1_000, 0.5), Phase(2_000, 0.5)])

        assert (slow.before, fast.before) == (0, 1)
        took = fast.began - slow.began
        assert took > 0.4
        assert slow.behind > took - 0.6  # which knows how busy the machine is
        ends = consumer.end_offsets(partitions)
        for partition, values in expected.items():
            consumer.assign([one := TopicPartition(*partition)])
            consumer.seek_to_beginning()
            found: list[bytes] = []
            while len(found) < ends[one]:
                found += [record.value for records in consumer.poll(1_000).values() for record in records]
            assert found == values


def test_a_feed_that_is_over_does_not_begin_anew(feed: RecordedFeed, broker: Broker) -> None:
    with pytest.raises(EndmarkError, match="has too few records"):
        list(feed.send(broker.bootstrap, [Phase(10_000, 1)]))

"""Samples of topics: both ends of each partition, and nothing is created or committed."""

from __future__ import annotations

from contextlib import closing

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from endmark.draft.samples import sample_topics, topics_at
from endmark.embedded.broker import Broker
from endmark.errors import ConfigError


def test_both_ends_of_each_partition(broker: Broker) -> None:
    """A short partition is read once, and an empty one not at all."""
    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap)) as admin:
        admin.create_topics([NewTopic("ends", 3, 1)])
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for partition, number in ((0, 1_000), (1, 400)):
            for value in range(number):
                headers = [("endmark-checkpoint", b"id")] if value == 399 else []
                producer.send("ends", b"%d" % value, key=b"k", partition=partition, headers=headers)

    [sample] = sample_topics(broker.bootstrap, ["ends"])

    read = {
        number: [int(record.value or b"") for record in sample.records if record.partition == number]
        for number in range(3)
    }
    assert read == {0: [*range(300), *range(700, 1_000)], 1: list(range(400)), 2: []}
    assert {record.key for record in sample.records} == {b"k"}
    assert all(record.timestamp for record in sample.records)
    assert [record.value for record in sample.records if record.published] == [b"399"]


def test_a_missing_topic_is_named_and_not_created(broker: Broker) -> None:
    with pytest.raises(ConfigError, match="has no topic misspelled; there are: "):
        sample_topics(broker.bootstrap, ["misspelled"])
    assert "misspelled" not in topics_at(broker.bootstrap)

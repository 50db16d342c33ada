from __future__ import annotations

import socket
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from endmark.embedded.broker import Broker
from endmark.embedded.ports import listens
from endmark.errors import MissingPartError
from support.orphans import orphaned


def create_topic(bootstrap: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        admin.create_topics([NewTopic(topic, 1, 1)])
    finally:
        admin.close()


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    try:
        for sent in [producer.send(topic, value) for value in values]:
            sent.get(timeout=90)
    finally:
        producer.close()


def consume(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=90_000)
    try:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for _, record in zip(range(count), consumer, strict=False)]
    finally:
        consumer.close()


def cluster_id(bootstrap: str) -> str:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        return str(admin.describe_cluster()["cluster_id"])
    finally:
        admin.close()


def port_of(bootstrap: str) -> int:
    return int(bootstrap.rpartition(":")[2])


@pytest.mark.parametrize("codec", [None, "gzip"])
def test_what_is_produced_can_be_consumed(broker: Broker, codec: str | None) -> None:
    topic = f"round-trip-{codec}"
    create_topic(broker.bootstrap, topic)
    produce(broker.bootstrap, topic, [b"1", b"2"])
    assert consume(broker.bootstrap, topic, 2) == [b"1", b"2"]


def test_topics_are_not_created_by_mistake(broker: Broker) -> None:
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap)
        consumer.partitions_for_topic("misspelled")
        consumer.close()
        assert "misspelled" not in admin.list_topics()
    finally:
        admin.close()


def test_records_outlast_a_stop_and_a_crash(tmp_path: Path, free_port: int) -> None:
    broker = Broker(tmp_path, free_port)
    with broker:
        assert broker.bootstrap == f"127.0.0.1:{free_port}"
        first_id = cluster_id(broker.bootstrap)
        create_topic(broker.bootstrap, "kept")
        produce(broker.bootstrap, "kept", [b"1"])
    assert broker.pid is None
    assert not listens(free_port)

    with Broker(tmp_path, free_port) as again:
        assert cluster_id(again.bootstrap) == first_id
        produce(again.bootstrap, "kept", [b"2"])
        again.kill()
        assert not listens(free_port)
        again.start()
        assert consume(again.bootstrap, "kept", 2) == [b"1", b"2"]
    assert not listens(free_port)


def test_a_stopped_broker_restarts_where_its_clients_know_it(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    with broker:
        bootstrap = broker.bootstrap
    with broker:
        assert broker.bootstrap == bootstrap


def test_a_port_in_use_is_one_clear_line(tmp_path: Path, free_port: int) -> None:
    with socket.create_server(("127.0.0.1", free_port)), pytest.raises(MissingPartError) as caught:
        Broker(tmp_path, free_port).start()
    assert str(caught.value) == (
        f"Kafka broker: port {free_port} of 127.0.0.1 is in use; stop what listens there or give another port"
    )


def test_a_second_broker_leaves_the_first_ones_data_alone(tmp_path: Path) -> None:
    with Broker(tmp_path) as first:
        with pytest.raises(MissingPartError, match=r"Kafka broker: another one runs in .*; stop it"):
            Broker(tmp_path).start()
        create_topic(first.bootstrap, "unharmed")
        produce(first.bootstrap, "unharmed", [b"1"])


def test_the_broker_does_not_outlive_its_parent(tmp_path: Path, free_port: int) -> None:
    orphaned("endmark.embedded.broker", "Broker", tmp_path, free_port)
    # A restart in the same place can follow at once.
    with Broker(tmp_path, free_port):
        assert listens(free_port)

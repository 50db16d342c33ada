"""A stream of the papers arrives in a real topic, whole and in order."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from kafka import KafkaConsumer, TopicPartition

from endmark.embedded.broker import Broker
from endmark.errors import ConfigError
from endmark_feed.papers.names import parse_workload
from endmark_feed.papers.topic_feed import messages, run_workload


def consume(bootstrap: str, topic: str, partitions: int) -> list[list[tuple[bytes, bytes]]]:
    """Keys and values of every partition."""
    assigned = [TopicPartition(topic, index) for index in range(partitions)]
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=90_000)
    found: list[list[tuple[bytes, bytes]]] = [[] for _ in assigned]
    try:
        consumer.assign(assigned)
        consumer.seek_to_beginning()
        left = sum(consumer.end_offsets(assigned).values())
        for _, record in zip(range(left), consumer, strict=False):
            found[record.partition].append((record.key, record.value))
    finally:
        consumer.close()
    return found


def test_a_topic_holds_the_stream(broker: Broker) -> None:
    command = [sys.executable, "-m", "endmark.cli", "feed-workload", "punct-asc-30-40"]
    command += ["--topic=papers-asc", "--values=40", "--partitions=3", "--pace=fast", "--seed=5", "--json"]
    command += [f"--bootstrap={broker.bootstrap}"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)

    expected = list(messages(parse_workload("punct-asc-30-40", values=40), "papers-asc", 5, 3))
    report = json.loads(ended.stdout)
    assert (report["rows"], report["punctuations"]) == (len(expected) - 40, 40)
    assert consume(broker.bootstrap, "papers-asc", 3) == [
        [(message.key, message.value) for message in expected if message.partition == index]
        for index in range(3)
    ]


def test_real_pace_takes_as_long_as_the_stream(broker: Broker) -> None:
    workload = parse_workload("cluster-asc-5", values=40)
    *_, last = workload.events(1)
    started = time.monotonic()
    done = run_workload(workload, broker.bootstrap, "papers-paced")
    assert done.punctuations == 40
    assert last.seconds <= done.seconds <= time.monotonic() - started
    assert last.seconds > 1


def test_a_topic_is_not_written_twice(broker: Broker) -> None:
    workload = parse_workload("uniform-5", values=10)
    run_workload(workload, broker.bootstrap, "papers-twice", pace="fast")
    with pytest.raises(ConfigError, match="papers-twice was written to before"):
        run_workload(workload, broker.bootstrap, "papers-twice", pace="fast")

"""Records that a producer has compressed, read by each of our clients."""

from __future__ import annotations

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from endmark.draft.samples import sample_topics
from endmark.embedded.broker import Broker
from endmark.kafka import ranges
from endmark.verify.read.consume import SCHEMA, Log
from endmark_feed.producer import create_topics

VALUES = [b"a value that repeats itself " * 20 + b"%d" % number for number in range(300)]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(broker: Broker, codec: str) -> None:
    topic = f"compressed-{codec}"
    create_topics(broker.bootstrap, {topic: 1})
    connected = {"bootstrap.servers": broker.bootstrap}
    producer = Producer(connected | {"compression.type": codec, "linger.ms": 50})
    for value in VALUES:
        producer.produce(topic, value)
    producer.flush()

    [sample] = sample_topics(broker.bootstrap, [topic])
    with Log(broker.bootstrap, [topic]) as log:
        verified = pa.Table.from_batches(log.batches(), schema=SCHEMA)
    by_task = pa.Table.from_batches(ranges.read(connected, [ranges.Range(topic, 0, 0, len(VALUES))]))

    assert [record.value for record in sample.records] == VALUES
    assert verified["value"].to_pylist() == VALUES
    assert by_task["value"].to_pylist() == VALUES

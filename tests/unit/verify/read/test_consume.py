"""Kafka is read completely and only as far as asked, and its absence is told in plain words."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from endmark.embedded.broker import Broker
from endmark.errors import ConfigError, MissingPartError
from endmark.kafka.gaps import Gap
from endmark.verify.read.consume import SCHEMA, Log, Range, require_held

SENT = 2_500
STAMPED = int(time.time()) * 1000  # records that are too old for Kafka are deleted


def send(bootstrap: str, topic: str, partitions: int, records: int) -> None:
    """`records` values in each partition; every tenth is null. They are a millisecond apart."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, partitions, 1)])
    admin.close()
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for place in range(records):
        for partition in range(partitions):
            value = f"{partition}-{place}".encode() if place % 10 else None
            producer.send(topic, value, b"k", partition=partition, timestamp_ms=STAMPED + place)
    producer.close()


def read(log: Log) -> pa.Table:
    return pa.Table.from_batches(log.batches(), schema=SCHEMA)


@pytest.fixture(scope="module")
def filled(broker: Broker) -> str:
    """A broker with topics `verify-full`, three partitions, and `verify-empty`."""
    send(broker.bootstrap, "verify-full", 3, SENT)
    send(broker.bootstrap, "verify-empty", 1, 0)
    return broker.bootstrap


def test_every_record_is_read_once(filled: str) -> None:
    """All partitions from their first record to their last, null values included, with Kafka's timestamps."""
    with Log(filled, ["verify-full", "verify-empty"]) as log:
        ends = [("verify-full", partition, SENT) for partition in range(3)] + [("verify-empty", 0, 0)]
        assert log.ranges == [Range(topic, partition, 0, end) for topic, partition, end in ends]
        rows = read(log).to_pylist()
    expected = {
        (
            "verify-full",
            partition,
            place,
            f"{partition}-{place}".encode() if place % 10 else None,
            STAMPED + place,
            None,
            None,
        )
        for place in range(SENT)
        for partition in range(3)
    }
    assert len(rows) == len(expected)
    assert {tuple(row.values()) for row in rows} == expected


def test_reading_stops_where_asked(filled: str) -> None:
    """`until` names the first offset that does not count, partition by partition."""
    with Log(filled, ["verify-full"], {"verify-full": {0: 7, 1: 0}}) as log:
        table = read(log)
    counts = table.group_by("partition").aggregate([("offset", "count"), ("offset", "max")]).to_pylist()
    assert {row["partition"]: (row["offset_count"], row["offset_max"]) for row in counts} == {
        0: (7, 6),
        2: (SENT, SENT - 1),
    }


def test_keys_and_headers_are_read_of_topics_that_need_them(filled: str) -> None:
    send(filled, "verify-whole", 1, 0)
    producer = KafkaProducer(bootstrap_servers=filled)
    producer.send("verify-whole", b"a", key=b"k", headers=[("h", b"1"), ("h", b"2")])
    producer.send("verify-whole", b"b")
    producer.close()
    with Log(filled, ["verify-whole"], whole=["verify-whole"]) as log:
        found = read(log).select(["key", "headers"]).to_pylist()

    headers = [{"name": name, "value": value} for name, value in (("h", b"1"), ("h", b"2"))]
    assert found == [{"key": b"k", "headers": headers}, {"key": None, "headers": []}]


def test_transactions_are_read_as_committed(filled: str) -> None:
    """Aborted records do not count, and markers at the end do not keep the reader waiting."""
    send(filled, "verify-transactions", 1, 0)
    producer = KafkaProducer(bootstrap_servers=filled, transactional_id="verify-test")
    producer.init_transactions()
    for value, commit in ((b"kept", True), (b"dropped", False)):
        producer.begin_transaction()
        producer.send("verify-transactions", value)
        producer.flush()  # else an abort would drop the record before it is sent
        producer.commit_transaction() if commit else producer.abort_transaction()
    producer.close()
    with Log(filled, ["verify-transactions"]) as log:
        assert log.ranges[0].end == 4
        assert read(log)["value"].to_pylist() == [b"kept"]


@pytest.mark.parametrize("until", [{0: SENT + 1}, {3: 0}, {0: -1}])
def test_offsets_that_kafka_does_not_hold_are_refused(filled: str, until: dict[int, int]) -> None:
    """A job that read more than Kafka has now cannot be verified, and that is said."""
    with pytest.raises(ConfigError, match=r"topic 'verify-full' partition \d up to offset .* holds"):
        Log(filled, ["verify-full"], {"verify-full": until})


def test_records_that_the_job_has_read_must_be_there() -> None:
    """A job has never read the records of a gap at its start, so Kafka need not hold them."""
    held, began = [Range("bids", 0, 7, 9), Range("bids", 1, 0, 3)], {"bids": {"0": 4}}
    with pytest.raises(ConfigError, match=r"does not hold offsets 4 to 6 of topic bids partition 0, which"):
        require_held(held, began)

    require_held(held, began, [Gap("bids", 0, 4, 7)])

    later = [Gap("bids", 0, 5, 7)]
    with pytest.raises(ConfigError, match=r"offsets 4 to 6 .*But the job has skipped offsets 5 to 6 of"):
        require_held(held, began, later)


def test_a_topic_that_does_not_exist_is_named(filled: str) -> None:
    """Reading does not create topics."""
    for _ in range(2):
        with pytest.raises(ConfigError, match="topic 'verify-nowhere' does not exist"):
            Log(filled, ["verify-nowhere"])


def test_a_broker_that_is_not_there_is_named(free_port: int) -> None:
    """The message has the address and what to do."""
    with pytest.raises(MissingPartError, match=f"no Kafka broker answers at 127.0.0.1:{free_port}"):
        Log(f"127.0.0.1:{free_port}", ["verify-full"])

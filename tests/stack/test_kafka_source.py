"""The source of records, on a real broker: ranges, transactions, and records that are lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from endmark.driver.failure import cause_of
from endmark.embedded.broker import Broker
from endmark.engine.streams import ddl
from endmark.kafka import ranges as kafka_ranges
from endmark.kafka.offsets import TopicEnds, UnknownOffsetsError, ranges
from endmark.kafka.ranges import HEADERS, KEY, RECORDS, Range, UnreadableRangeError, read
from endmark.spark.kafka_source import KafkaSource
from endmark_feed.producer import create_topics

_STAMP = 1_700_000_000_000  # Unix milliseconds
Sent = dict[tuple[str, int, int], tuple[int, bytes | None]]
"""Timestamps in milliseconds and values by topic, partition and offset."""


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small chunks of messages, so that a range takes several."""
    monkeypatch.setattr(kafka_ranges, "_CHUNK", 7)
    monkeypatch.setattr(kafka_ranges, "_BYTES", 300)


def connected(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap}


def sent(broker: Broker, topic: str, values: list[tuple[int, bytes | None]]) -> None:
    """Send values to partitions, with a timestamp each."""
    producer = Producer(connected(broker) | {"linger.ms": 1})
    for number, (partition, value) in enumerate(values):
        producer.produce(topic, value, partition=partition, timestamp=_STAMP + number)
    producer.flush()


def found(broker: Broker, asked: list[Range]) -> Sent:
    """Read ranges; each batch must be of one partition, in order, and without a record twice."""
    records: Sent = {}
    for batch in read(connected(broker), asked):
        assert batch.schema == RECORDS
        rows = batch.to_pylist()
        assert len({(row["topic"], row["partition"]) for row in rows}) == 1
        offsets = [row["offset"] for row in rows]
        assert offsets == sorted(set(offsets))
        for row in rows:
            at = row["topic"], row["partition"], row["offset"]
            assert at not in records
            records[at] = round(row["timestamp"].timestamp() * 1000), row["value"]
    return records


@pytest.mark.usefixtures("few_at_once")
def test_keys_and_headers_are_read_of_topics_that_need_them(broker: Broker) -> None:
    """Each topic has the columns that it needs, in all of its batches."""
    create_topics(broker.bootstrap, {"keyed": 1, "headed": 1, "plain": 1})
    producer = Producer(connected(broker) | {"linger.ms": 1})
    for number in range(20):
        key = None if number % 3 == 0 else b"%d" % number
        headers: list[tuple[str, str | bytes | None]] = [("h", b"%d" % each) for each in range(number % 4)]
        headers += [("none", None)] if number % 5 == 0 else []
        for topic in ("keyed", "headed", "plain"):
            producer.produce(topic, b"v", key, headers=headers)
    producer.flush()
    asked = [Range(topic, 0, 3, 18) for topic in ("keyed", "headed", "plain")]
    needs = {"keyed": ["key"], "headed": ["key", "headers"]}

    tables: dict[str, list[pa.RecordBatch]] = {}
    for batch in read(connected(broker), asked, needs):
        tables.setdefault(batch.column("topic")[0].as_py(), []).append(batch)

    assert tables["plain"][0].schema == RECORDS
    keyed = pa.Table.from_batches(tables["keyed"], RECORDS.append(KEY))
    headed = pa.Table.from_batches(tables["headed"], RECORDS.append(KEY).append(HEADERS))
    keys = [None if number % 3 == 0 else b"%d" % number for number in range(3, 18)]
    assert keyed["key"].to_pylist() == headed["key"].to_pylist() == keys
    found = headed["headers"].to_pylist()
    assert found[2:4] == [[("h", b"0"), ("none", None)], [("h", b"0"), ("h", b"1")]]
    assert [len(each) for each in found] == [n % 4 + (n % 5 == 0) for n in range(3, 18)]


class Latin1(str):
    """A header's name that a producer sends in another encoding than UTF-8."""

    def encode(self, *_: str) -> bytes:
        return super().encode("latin-1")


def test_headers_whose_names_are_not_in_utf8_are_null(broker: Broker) -> None:
    """The broker takes any bytes as a name. The other records of the batch keep their headers."""
    create_topics(broker.bootstrap, {"named": 1})
    with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
        for name in ("a", Latin1("ä"), "b"):
            producer.send("named", b"v", headers=[(name, b"1")])
        producer.send("named", b"v")

    [batch] = read(connected(broker), [Range("named", 0, 0, 4)], {"named": ["headers"]})

    assert batch.column("headers").to_pylist() == [[("a", b"1")], None, [("b", b"1")], []]


@pytest.mark.usefixtures("few_at_once")
def test_ranges_are_read_whole(broker: Broker) -> None:
    """Random ranges give all of their records and no others, by the same consumer, one after the other."""
    create_topics(broker.bootstrap, {"whole": 2, "whole-too": 1})
    partitions = [("whole", 0), ("whole", 1), ("whole-too", 0)]
    drawn = random.Random(5)
    ends = dict.fromkeys(partitions, 0)
    expected: Sent = {}
    for topic in ("whole", "whole-too"):
        of_topic = [partition for name, partition in partitions if name == topic]
        values = [
            (drawn.choice(of_topic), drawn.choice([None, b"", drawn.randbytes(drawn.randrange(200))]))
            for _ in range(200)
        ]
        sent(broker, topic, values)
        for number, (partition, value) in enumerate(values):
            expected[topic, partition, ends[topic, partition]] = _STAMP + number, value
            ends[topic, partition] += 1

    for _ in range(100):
        asked = []
        for topic, partition in drawn.sample(partitions, drawn.randrange(1, 4)):
            end = ends[topic, partition]
            first = drawn.randrange(end)
            asked.append(Range(topic, partition, first, drawn.randrange(first + 1, end + 1)))
        inside = {
            (topic, partition, offset): record
            for (topic, partition, offset), record in expected.items()
            if any(
                (each.topic, each.partition) == (topic, partition) and each.first <= offset < each.end
                for each in asked
            )
        }
        assert found(broker, asked) == inside


def test_transactions(broker: Broker) -> None:
    """An aborted transaction gives no record, and an open one ends the topic, until it is committed."""
    create_topics(broker.bootstrap, {"traded": 1})
    producer = Producer(connected(broker) | {"transactional.id": "trader"})
    producer.init_transactions()
    for value, end in ((b"1", "commit"), (b"2", "abort"), (b"3", "commit")):
        producer.begin_transaction()
        producer.produce("traded", value)
        producer.flush()  # an abort would drop what is not sent
        producer.commit_transaction() if end == "commit" else producer.abort_transaction()
    producer.begin_transaction()
    producer.produce("traded", b"4")
    producer.flush()
    topics = TopicEnds(broker.bootstrap, ["traded"])

    # Each transaction ends with a record of its own, which the broker writes a moment after the commit.
    deadline = time.monotonic() + 60
    while (while_open := topics.ends()) != {"traded": {"0": 6}}:
        assert time.monotonic() < deadline, while_open
    before = found(broker, ranges(topics.first(), while_open))
    producer.commit_transaction()
    while not (rest := ranges(while_open, topics.ends())):
        assert time.monotonic() < deadline
    after = found(broker, rest)
    topics.close()

    assert [value for _, value in before.values()] == [b"1", b"3"]
    assert [value for _, value in after.values()] == [b"4"]


def test_a_new_partition_is_noticed(broker: Broker) -> None:
    create_topics(broker.bootstrap, {"grown": 1})
    topics = TopicEnds(broker.bootstrap, ["grown"])
    assert topics.ends() == {"grown": {"0": 0}}

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_partitions({"grown": 2})
    admin.close()
    sent(broker, "grown", [(1, b"1")])

    assert topics.ends() == {"grown": {"0": 0, "1": 1}}
    topics.close()


def test_lost_records_are_named(broker: Broker) -> None:
    """The error says which records are gone, and what there is instead."""
    create_topics(broker.bootstrap, {"lost": 1})
    sent(broker, "lost", [(0, b"%d" % number) for number in range(9)])
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition("lost", 0): 4})
    admin.close()

    assert len(found(broker, [Range("lost", 0, 4, 9)])) == 5
    with pytest.raises(
        UnreadableRangeError,
        match=r"does not hold offsets 3 to 5 of partition 0 of topic lost any more but 4 to 8, .* checkpoint",
    ):
        found(broker, [Range("lost", 0, 3, 6)])
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition("lost", 0): 9})
    admin.close()
    with pytest.raises(UnreadableRangeError, match=r"of topic lost any more, and has none now, so"):
        found(broker, [Range("lost", 0, 3, 6)])


def test_a_broker_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a range nor the end of a topic is waited for without end. Who asks meanwhile is answered once
    it is back."""
    monkeypatch.setattr(kafka_ranges, "_DEADLINE_SECONDS", 2)
    with Broker(tmp_path / "broker") as broker:
        create_topics(broker.bootstrap, {"away": 1})
        sent(broker, "away", [(0, b"1"), (0, b"2")])
        assert len(found(broker, [Range("away", 0, 0, 1)])) == 1
        topics = TopicEnds(broker.bootstrap, ["away"], patience=2)
        topics.ends()
        broker.stop()

        with pytest.raises(UnreadableRangeError, match=f"{broker.bootstrap} sends no record of topic away"):
            found(broker, [Range("away", 0, 0, 1)])
        with pytest.raises(
            UnknownOffsetsError, match=rf"{broker.bootstrap}: (\w+)\b(?!: \1).*; when it is back"
        ):
            topics.ends()

        monkeypatch.setattr(kafka_ranges, "_DEADLINE_SECONDS", 60)
        with ThreadPoolExecutor(1) as thread, closing(TopicEnds(broker.bootstrap, ["away"])) as patient:
            asked = thread.submit(patient.ends)
            broker.start()
            assert asked.result(60) == {"away": {"0": 2}}
        assert topics.ends() == {"away": {"0": 2}}
        assert len(found(broker, [Range("away", 0, 1, 2)])) == 1
        topics.close()


@pytest.fixture
def collected(spark: SparkSession, broker: Broker, tmp_path: Path) -> Callable[[str], list[bytes]]:
    """A function that reads a topic from where it ended before, and returns the values."""

    def run(topic: str) -> list[bytes]:
        values: list[bytes] = []

        def collect(records: DataFrame, _: int) -> None:
            values.extend(bytes(row.value) for row in records.collect())

        records = KafkaSource(broker.bootstrap, (topic,), 4).stream(spark, iter, ddl(RECORDS))
        writer = records.writeStream.foreachBatch(collect).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
        return values

    return run


def test_a_query_refuses_to_skip_records(collected: Callable[[str], list[bytes]], broker: Broker) -> None:
    """Records that expired while no query ran end the next one, and it says which."""
    create_topics(broker.bootstrap, {"expired": 1})
    sent(broker, "expired", [(0, b"%d" % number) for number in range(9)])
    assert collected("expired") == [b"%d" % number for number in range(9)]
    assert collected("expired") == []

    sent(broker, "expired", [(0, b"9"), (0, b"10")])
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_records({TopicPartition("expired", 0): 10})
    with pytest.raises(StreamingQueryException) as expired:
        collected("expired")
    admin.close()

    assert "does not hold offsets 9 to 10 of partition 0" in cause_of(str(expired.value), broker.bootstrap)


def test_a_query_refuses_a_topic_made_anew(collected: Callable[[str], list[bytes]], broker: Broker) -> None:
    """It would skip the first records of the new topic."""
    create_topics(broker.bootstrap, {"anew": 1})
    sent(broker, "anew", [(0, b"1"), (0, b"2")])
    assert collected("anew") == [b"1", b"2"]

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.delete_topics(["anew"])
    admin.close()
    with pytest.raises(StreamingQueryException) as deleted:
        collected("anew")

    assert "Kafka has lost records: anew/0" in cause_of(str(deleted.value), broker.bootstrap)

"""Rows and punctuations by the client, read back from a real broker and by the engine's own parser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.admin import NewTopic

from endmark.client import StreamProducer, anything, between, equals, key_hash, one_of
from endmark.client.delivery import Delivery
from endmark.domain import PunctuationError
from endmark.embedded.broker import Broker
from endmark.errors import MissingPartError
from endmark.punctuation.pattern import Between
from endmark.types import ColumnType
from endmark.wire.json.records import JsonParser
from endmark.wire.record_spec import RecordSpec
from endmark_feed.producer import create_topics

PAGE = (Path(__file__).parents[3] / "docs" / "producers.md").read_text()
PARTITIONS = 4
COLUMNS = {
    "house": "string",
    "item_id": "long",
    "price": "decimal(6,2)",
    "weight": "double",
    "sold": "boolean",
    "day": "date",
    "at": "timestamp",
    "count": "int",
    "ratio": "float",
    "second": "timestamp(s)",
    "milli": "timestamp(ms)",
    "micro": "timestamp(us)",
    "days": "date(days)",
}
ROW: dict[str, Any] = {
    "house": 'n\u00f6rd "1"',
    "item_id": -(2**63),
    "price": Decimal("-1234.50"),
    "weight": 1e-7,
    "sold": True,
    "day": date(999, 1, 31),
    "at": datetime(2026, 1, 31, 12, 30, 0, 5, UTC),
    "count": -(2**31),
    "ratio": 0.1,
    "second": datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
    "milli": datetime(2026, 1, 31, 12, 30, 0, 7000, UTC),
    "micro": datetime(1, 1, 1, 0, 0, 0, 1, UTC),
    "days": date(1969, 12, 31),
}


def read_back(broker: Broker, topic: str, partitions: int = PARTITIONS) -> list[list[bytes]]:
    """The values of each partition."""
    places = [TopicPartition(topic, number) for number in range(partitions)]
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=90_000)
    found: list[list[bytes]] = [[] for _ in places]
    try:
        consumer.assign(places)
        consumer.seek_to_beginning()
        left = sum(consumer.end_offsets(places).values())
        for _, record in zip(range(left), consumer, strict=False):
            found[record.partition].append(record.value)
    finally:
        consumer.close()
    return found


def producer(broker: Broker, topic: str, key: tuple[str, ...] = ("item_id",)) -> StreamProducer:
    create_topics(broker.bootstrap, {topic: PARTITIONS})
    return StreamProducer(broker.bootstrap, topic, COLUMNS, key=key)


def told(found: list[list[bytes]], mark: dict[str, Any]) -> set[int]:
    """The partitions that got a punctuation."""
    return {
        number
        for number, values in enumerate(found)
        for value in values
        if json.loads(value) == {"$punctuation": mark}
    }


def test_what_is_sent_is_read_as_it_was(broker: Broker) -> None:
    """A row of every type, and each kind of pattern, pass the parser of a stream that declares them."""
    with producer(broker, "client-types", ()) as stream:
        stream.send(ROW)
        for name, value in ROW.items():
            stream.punctuate({name: equals(value)})
        stream.punctuate({"day": between(high=date(2026, 1, 1), high_open=True), "house": one_of("a", "b")})
        stream.punctuate({"sold": anything()})
    values = [value for part in read_back(broker, "client-types") for value in part]
    columns = {name: ColumnType.parse(kind) for name, kind in COLUMNS.items()}
    parser = JsonParser(RecordSpec(columns, list(COLUMNS), "client-types", key=["item_id"]))
    parsed = parser.parse(pa.array(values, pa.binary()))

    assert not parsed.rejections
    assert parsed.rows.to_pylist() == [ROW]
    [row] = [json.loads(value) for value in values if b"$punctuation" not in value]
    assert (row["second"], row["milli"], row["days"]) == (-1, 1769862600007, -1)
    told_of = {pair for _, promise in parsed.promises for pair in promise.patterns}
    assert told_of >= {(name, equals(value)) for name, value in ROW.items() if name != "item_id"}
    assert parsed.closed_keys.to_pylist() == [{"item_id": ROW["item_id"]}] * PARTITIONS
    assert len(parsed.promises) == (len(ROW) - 1 + 2) * PARTITIONS


@pytest.mark.parametrize("key", [("item_id",), ("house", "item_id")])
def test_a_key_and_its_punctuations_share_a_partition(broker: Broker, key: tuple[str, ...]) -> None:
    """A punctuation that names the key follows the key's rows, and goes nowhere else; one that does not goes
    everywhere."""
    topic = f"client-keys-{len(key)}"
    with producer(broker, topic, key) as stream:
        for number in range(12):
            row = ROW | {"item_id": number}
            stream.send(row)
            stream.punctuate({name: equals(row[name]) for name in key} | {"sold": equals(True)})
        stream.punctuate({"day": equals(date(2026, 1, 1))})
        stream.punctuate({"item_id": between(3, 9)})
    found = read_back(broker, topic)

    for values in found:
        spoken = [json.loads(value) for value in values]
        rows = [each["item_id"] for each in spoken if "$punctuation" not in each]
        marks = [each["$punctuation"] for each in spoken if "$punctuation" in each]
        assert rows == [mark["item_id"]["equals"] for mark in marks if mark.keys() == {*key, "sold"}]
    assert sum(any(b"weight" in value for value in values) for values in found) > 1
    assert told(found, {"day": {"equals": "2026-01-01"}}) == set(range(PARTITIONS))
    assert told(found, {"item_id": {"between": {"from": 3, "to": 9}}}) == set(range(PARTITIONS))


def test_a_list_of_keys_goes_to_the_partitions_of_these(broker: Broker) -> None:
    with producer(broker, "client-lists") as stream:
        stream.punctuate({"item_id": one_of(1, 2, 3)})
    places = {key_hash(b"%d" % key) % PARTITIONS for key in (1, 2, 3)}

    assert 1 < len(places) < PARTITIONS
    assert told(read_back(broker, "client-lists"), {"item_id": {"one_of": [1, 2, 3]}}) == places


def test_a_nullable_column_may_be_left_out(broker: Broker) -> None:
    """It may be None, too; the others may not, and a key never is."""
    create_topics(broker.bootstrap, {"client-nulls": 1})
    columns = {"item_id": "long", "price": "decimal(6,2)?", "day": "date?"}
    with StreamProducer(broker.bootstrap, "client-nulls", columns, key="item_id") as stream:
        stream.send({"item_id": 1})
        stream.send({"item_id": 2, "price": None, "day": date(2026, 1, 31)})
        for row, why in (({"price": None}, "this has price"), ({"item_id": None}, "is long, which None is")):
            with pytest.raises(ValueError, match=why):
                stream.send(row)
    [values] = read_back(broker, "client-nulls", 1)

    assert [json.loads(value) for value in values] == [
        {"item_id": 1, "price": None, "day": None},
        {"item_id": 2, "price": None, "day": "2026-01-31"},
    ]
    with pytest.raises(
        ValueError, match=r"column 'day' is date\?, but null has no partition; declare it date"
    ):
        StreamProducer(broker.bootstrap, "client-nulls", columns, key=["item_id", "day"])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"item_id": None}, "column 'item_id' of client-slips is long, which None is not"),
        ({"item_id": True}, "which True is not"),
        ({"item_id": 2**63}, "column 'item_id' of client-slips: 9223372036854775808 does not fit"),
        ({"price": Decimal("0.005")}, r"is decimal\(6,2\), which 0.005 is not"),
        ({"price": Decimal(10000)}, r"is decimal\(6,2\), which 10000 is not"),
        ({"weight": float("nan")}, "finite numbers and times with a zone, but not nan"),
        ({"at": datetime(2026, 1, 1)}, "finite numbers and times with a zone"),  # noqa: DTZ001
        ({"count": 2**31}, "column 'count' of client-slips: 2147483648 is out of the range of int"),
        ({"ratio": -1e39}, r"column 'ratio' of client-slips: -1e\+39 is out of the range of float"),
        ({"second": ROW["milli"]}, r"column 'second' .* is between two values of timestamp\(s\); round it"),
        (
            {"milli": 1769862600007},
            r"column 'milli' of client-slips is timestamp\(ms\), which 17698.* is not",
        ),
        ({"colour": "red"}, "a row of client-slips has the columns house, .*, this has house, .*, colour"),
    ],
)
def test_a_row_that_would_be_a_dead_letter_is_refused(row: dict[str, Any], why: str, broker: Broker) -> None:
    with producer(broker, "client-slips") as stream, pytest.raises(ValueError, match=why):
        stream.send(ROW | row)


def test_a_punctuation_that_would_be_a_dead_letter_is_refused(broker: Broker) -> None:
    with producer(broker, "client-slips") as stream:
        for patterns, why in (
            ({}, r"name a column; {'house': anything\(\)} closes all of client-slips"),
            ({"colour": equals("red")}, "has no column 'colour'; it has house, item_id"),
            ({"price": equals(Decimal("0.005"))}, r"is decimal\(6,2\), which 0.005 is not"),
            ({"milli": between(high=ROW["at"])}, r"is between two values of timestamp\(ms\)"),
            ({"item_id": one_of("a", "b")}, "is long, which '[ab]' is not"),
        ):
            with pytest.raises(PunctuationError, match=why):
                stream.punctuate(patterns)
    assert not any(read_back(broker, "client-slips"))


def test_a_heartbeat_goes_to_every_partition(broker: Broker) -> None:
    """It is a promise up to a time, which the engine reads as a heartbeat. A value that would promise more is
    refused."""
    topic = "client-heartbeats"
    create_topics(broker.bootstrap, {topic: PARTITIONS})
    with StreamProducer(broker.bootstrap, topic, COLUMNS, key="item_id", event_time="at") as stream:
        stream.heartbeat(ROW["at"])
        for slip in (None, datetime(2026, 1, 1), date(2026, 1, 1)):  # noqa: DTZ001
            with pytest.raises(PunctuationError, match=r"'at'|times with a zone"):
                stream.heartbeat(slip)  # type: ignore[arg-type]
    found = read_back(broker, topic)
    columns = {name: ColumnType.parse(kind) for name, kind in COLUMNS.items()}
    parser = JsonParser(RecordSpec(columns, (), topic, key=["item_id"], heartbeat_on="at"))
    parsed = parser.parse(pa.array([value for values in found for value in values], pa.binary()))

    assert [len(values) for values in found] == [1] * PARTITIONS
    assert [promise.patterns for _, promise in parsed.promises] == [
        (("at", Between(high=ROW["at"])),)
    ] * PARTITIONS


def test_a_heartbeat_is_of_the_last_time_that_a_row_can_have(broker: Broker) -> None:
    """No row of milliseconds has a time between two of them, so nothing is lost by it."""
    topic = "client-beats-in-ms"
    create_topics(broker.bootstrap, {topic: 1})
    with StreamProducer(broker.bootstrap, topic, {"at": "timestamp(ms)"}, event_time="at") as stream:
        stream.heartbeat(datetime(2026, 1, 1, 0, 0, 0, 1999, UTC))
        stream.heartbeat(datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC))
        with pytest.raises(PunctuationError, match="times with a zone"):
            stream.heartbeat(datetime(2026, 1, 1))  # noqa: DTZ001
    [found] = read_back(broker, topic, 1)

    ends = [json.loads(value)["$punctuation"]["at"]["between"] for value in found]
    assert ends == [{"to": 1767225600001}, {"to": -1}]


def test_a_producer_without_event_time_has_no_heartbeats(broker: Broker) -> None:
    with (
        producer(broker, "client-timeless") as stream,
        pytest.raises(ValueError, match="no `event_time`; name"),
    ):
        stream.heartbeat(ROW["at"])
    for name in ("day", "nothing"):
        with pytest.raises(
            ValueError, match=f"event_time of client-timeless: no column '{name}' of timestamps"
        ):
            StreamProducer(broker.bootstrap, "client-timeless", COLUMNS, event_time=name)


def test_a_topic_that_is_missing_is_named(broker: Broker) -> None:
    with pytest.raises(MissingPartError, match="has no topic client-nowhere; create it"):
        StreamProducer(broker.bootstrap, "client-nowhere", COLUMNS, deadline_seconds=5.0)
    with pytest.raises(ValueError, match="key of client-nowhere: no column 'id'; there are house"):
        StreamProducer(broker.bootstrap, "client-nowhere", COLUMNS, key="id")


def test_a_record_that_is_not_taken_is_an_error(broker: Broker) -> None:
    create_topics(broker.bootstrap, {"client-large": 1})
    with (
        pytest.raises(MissingPartError, match="nothing can be published"),
        Delivery(broker.bootstrap) as sent,
    ):
        sent.send("client-large", 0, None, b"x" * 5_000_000)


@pytest.mark.parametrize("then", ["flush", "send"])
def test_a_record_that_the_broker_refuses_is_an_error(broker: Broker, then: str) -> None:
    """The client sends in the background, so a later call tells that an earlier record is lost."""
    topic = f"client-narrow-{then}"
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics(
        [NewTopic(topic, 1, 1, topic_configs={"max.message.bytes": "1000"})], wait_for_metadata=True
    )
    admin.close()
    sent = Delivery(broker.bootstrap)
    try:
        sent.send(topic, 0, None, os.urandom(5_000))
        if then == "send":
            sent._producer.flush()
        with pytest.raises(MissingPartError, match="nothing can be published"):
            sent.flush() if then == "flush" else sent.send(topic, 0, None, b"x")
    finally:
        sent.close()


def test_the_page_for_producers_says_how(broker: Broker) -> None:
    [text] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    create_topics(broker.bootstrap, {"client-readme": PARTITIONS})
    text = text.replace("localhost:9092", broker.bootstrap).replace('"bids"', '"client-readme"')
    exec(text, {})  # noqa: S102
    found = read_back(broker, "client-readme")

    row = b'{"item_id":42,"bidder":"Ann","price":"12.5"}'
    [place] = [number for number, values in enumerate(found) if row in values]
    assert told(found, {"item_id": {"equals": 42}}) == {place}
    assert told(found, {"item_id": {"between": {"to": 40}}}) == set(range(PARTITIONS))


def test_a_producer_needs_neither_spark_nor_arrow() -> None:
    script = "import sys, endmark.client; print({'pyarrow', 'pyspark', 'numpy'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"

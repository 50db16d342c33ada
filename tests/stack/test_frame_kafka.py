"""From one Kafka topic by a relation to another, as frames, with a real broker."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from endmark.embedded.broker import Broker
from endmark.errors import ConfigError
from endmark.frame import PunctuatedFrame
from endmark.pipeline import Relation
from endmark_feed.producer import create_topics
from support.delta_batches import rows_by_batch
from support.output_topic import MARK, out_of_order, read_topic, without_repeats
from support.relations import Database

BIDS = {"item": "long", "bidder": "string", "price": "decimal(18,2)", "at": "timestamp"}
SOLD = {"item.id": "long", "day": "date", "price": "decimal(18,2)", "items.title": "string"}
ITEMS, PARTITIONS = 20, 2


@pytest.fixture
def relation(tmp_path: Path) -> Relation:
    database = Database(f"sqlite:///{tmp_path / 'items.db'}")
    titles = [(item, f"title {item}") for item in range(0, ITEMS, 2)]
    database.create("items", "id BIGINT PRIMARY KEY, title TEXT NOT NULL", titles)
    columns = {"id": "long", "title": "string"}
    return Relation.model_validate({"url": database.url, "table": "items", "key": "id", "columns": columns})


def bids(bootstrap: str, topic: str, first: int) -> None:
    """Two bids on each item, in the item's partition, then its punctuation; one of a partition comes last."""
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for item in range(ITEMS):
        rows: list[dict[str, Any]] = [
            {"item": item, "bidder": bidder, "price": price, "at": "2026-01-31T23:59:59.5Z"}
            for bidder, price in (("ann", f"{item}.50"), ("bob", "0.00"))
        ]
        rows.append({MARK: {"item": {"equals": first + item}}})
        for row in rows:
            producer.send(
                topic,
                json.dumps(row | ({"item": first + item} if MARK not in row else {})).encode(),
                partition=item % 2,
            )
    producer.send(topic, json.dumps({MARK: {"price": {"between": {"to": "-1"}}}}).encode(), partition=0)
    producer.send(topic, b"\xff", partition=1)
    producer.close()


def sold(spark: SparkSession, bootstrap: str, relation: Relation) -> PunctuatedFrame:
    frame = PunctuatedFrame.read_kafka(spark, bootstrap, "frame-bids", BIDS, partitioned_by=["item"])
    found = frame.where("price > 0").lookup_join(relation, on="item", how="left")
    named = (F.col("item").alias("item.id"), F.col("items_title").alias("items.title"))
    return found.select(F.to_date("at").alias("day"), "price", *named)


def test_from_topic_to_topic(spark: SparkSession, broker: Broker, relation: Relation, tmp_path: Path) -> None:
    """Started again for what came since: each row is there, beside what the relation has of it, and no row
    follows a punctuation of its partition. What a partition alone has promised is not said of all. The topic
    that is written is one to read. Its columns may have dots in their names."""
    create_topics(broker.bootstrap, {"frame-bids": PARTITIONS, "frame-sold": PARTITIONS})
    for first in (0, ITEMS):
        bids(broker.bootstrap, "frame-bids", first)
        query = sold(spark, broker.bootstrap, relation).write_kafka(
            broker.bootstrap, "frame-sold", tmp_path / "published", key=["item.id"], available_now=True
        )
        query.awaitTermination()

    found = read_topic(broker.bootstrap, "frame-sold")
    assert len(without_repeats(found)) == len(found)
    assert out_of_order(found) == []
    spoken = [record.spoken for record in found]
    assert sorted(each["item.id"] for each in spoken if MARK not in each) == list(range(2 * ITEMS))
    assert Counter(each[MARK]["item.id"]["equals"] for each in spoken if MARK in each) == Counter(
        range(2 * ITEMS)
    )
    home: dict[bytes | None, set[int]] = {}
    for record in found:
        home.setdefault(record.key, set()).add(record.partition)
    assert None not in home
    assert {len(places) for places in home.values()} == {1}

    back = PunctuatedFrame.read_kafka(
        spark, broker.bootstrap, "frame-sold", SOLD, partitioned_by=["item.id"], punctuations="over"
    )
    query = back.write_delta(
        tmp_path / "rows",
        tmp_path / "kept",
        punctuations=tmp_path / "said",
        dead_letters=tmp_path / "wrong",
        available_now=True,
    )
    query.awaitTermination()
    rows = [row for each in rows_by_batch(tmp_path / "rows").values() for row in each]
    titled = {item: f"title {item}" for item in range(0, ITEMS, 2)}
    assert {row["item.id"]: (str(row["day"]), row["price"], row["items.title"]) for row in rows} == {
        item: ("2026-01-31", Decimal(f"{item}.50"), title) for item, title in titled.items()
    }
    said = [row["punctuation"] for each in rows_by_batch(tmp_path / "said").values() for row in each]
    assert len(said) == 2 * ITEMS
    wrong = [row for each in rows_by_batch(tmp_path / "wrong").values() for row in each]
    assert {row["reason"] for row in wrong} == {"missing_field"}  # rows beside a null
    assert len(wrong) == 2 * ITEMS - len(rows)


def test_what_cannot_be_read_or_written_is_said(
    spark: SparkSession, broker: Broker, relation: Relation
) -> None:
    """Before a query starts."""
    create_topics(broker.bootstrap, {"frame-refused": PARTITIONS})

    def read(**types: str) -> PunctuatedFrame:
        return PunctuatedFrame.read_kafka(
            spark, broker.bootstrap, "frame-refused", types, partitioned_by=["item"]
        )

    frame = read(item="long", title="string")
    with pytest.raises(ConfigError, match="has 2 partitions"):
        PunctuatedFrame.read_kafka(spark, broker.bootstrap, "frame-refused", {"item": "long"})
    with pytest.raises(ConfigError, match="columns: 'bigint' is not one of"):
        read(item="bigint")
    with pytest.raises(ConfigError, match="how: 'full' is not one of inner, left"):
        frame.lookup_join(relation, on="item", how="full")
    with pytest.raises(ConfigError, match="items_title have one name"):
        frame.with_column("items_title", F.lit(1)).lookup_join(relation, on="item")
    odd = frame.with_column("items", F.col("title").cast("binary"))
    with pytest.raises(ConfigError, match="column items is binary, which a record has no spelling for"):
        odd.write_kafka(broker.bootstrap, "frame-refused", "nowhere")
    with pytest.raises(ConfigError, match="key: the frame has no column house"):
        frame.write_kafka(broker.bootstrap, "frame-refused", "nowhere", key=["house"])


def test_times_have_a_zone_in_every_session(spark: SparkSession, broker: Broker) -> None:
    """`timestamp` has none in a session that says so, and no record could be read."""
    create_topics(broker.bootstrap, {"frame-times": 1})
    session = spark.newSession()
    session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    frame = PunctuatedFrame.read_kafka(session, broker.bootstrap, "frame-times", {"at": "timestamp"})
    assert frame.rows.dtypes == [("at", "timestamp")]

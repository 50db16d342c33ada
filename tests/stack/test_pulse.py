"""Batches that come without a record of a stream: what waits is brought on, and an idle job stays idle."""

from __future__ import annotations

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from endmark.control.ops_database.database import OpsDatabase
from endmark.driver.topics import make_topic
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.engine.streams import ddl
from endmark.errors import MissingPartError
from endmark.kafka.ranges import RECORDS
from endmark.metrics import parse
from endmark.pipelines import AUCTION
from endmark.spark.kafka_source import KafkaSource
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.auction_records import bid, item, over, send
from support.commands import endmark
from support.relations import Database
from support.warehouse import Warehouse, wait_for

SELLERS = FeedOptions(seed=5, sellers=20)
PARTITIONS = {"items": 1, "bids": 1}
LATE, NEVER = 1001, 1002  # sellers
INSERT = "INSERT INTO sellers (seller_id, name, country, rating) VALUES (:seller, 'Ann', 'at', 1)"
QUIET_SECONDS = 5


def start(directory: Path, broker: Broker, relation_url: str, lookup: str) -> Warehouse:
    """The auction with another way to look up: by `auto`, and what `lookup` says."""
    create_topics(broker.bootstrap, PARTITIONS | {"auction-control": 1})
    pipeline = directory / "auction.yaml"
    pipeline.write_text(AUCTION.read_text().replace("strategy: hybrid, time_per_batch: 200ms", lookup))
    return Warehouse(directory, broker, relation_url, SELLERS, pipeline)


def turn(name: str, value: Any) -> dict[str, Any]:
    return {"set": {name: value}, "by": "Ann"}


def rows(warehouse: Warehouse, table: str, *columns: str) -> set[tuple[Any, ...]]:
    path = warehouse.directory / "warehouse" / table
    if not DeltaTable.is_deltatable(str(path)):
        return set()
    found = DeltaTable(path).to_pyarrow_table(columns=list(columns)).to_pylist()
    return {tuple(row.values()) for row in found}


def total(warehouse: Warehouse, metric: str) -> float:
    """Over all labels, as of the last batch."""
    batch = warehouse.batch()
    return sum(value for key, value in batch.totals.items() if parse(key)[0] == metric) if batch else 0.0


def require_idle(warehouse: Warehouse) -> None:
    """Require that no batch comes for `QUIET_SECONDS`, at the latest at the third look."""
    for _ in range(3):
        before = warehouse.batches()
        time.sleep(QUIET_SECONDS)
        if warehouse.batches() == before:
            return
    raise AssertionError("batches go on without records")


def test_parked_rows_are_asked_for_again(tmp_path: Path) -> None:
    """No record comes after the first batch. A row whose seller comes three seconds later is joined; one
    whose seller never comes is a dead letter in the end, and what came behind them follows. Then no batch
    runs. A job that stops by itself waits for its parked rows."""
    park = "miss: {park: {delay: 1s, attempts: 12, then: dead_letter}}"
    with Broker(tmp_path / "broker") as broker, MariaDb(tmp_path / "mariadb") as database:
        warehouse = start(tmp_path, broker, database.url, park)
        job = warehouse.start_job()
        wait_for(lambda: b"running" in job.log.read_bytes(), job)
        send(broker, "items", *map(item, range(1, 5)), *map(over, range(1, 5)))
        send(broker, "bids", bid(1, 1), bid(2, LATE), bid(3, NEVER), *map(over, range(1, 5)))
        send(broker, "auction-control", b'{"pulse": []}')
        wait_for(lambda: total(warehouse, "lookup_parked_rows") == 2, job, seconds=300)
        assert rows(warehouse, "groups", "item_id") == set()
        reach = f"--bootstrap={broker.bootstrap}", f"--ops-url={warehouse.ops_url}"
        asked = ("item_id=2", *reach, "--wait=120", "--json")
        relation = {"ENDMARK_RELATION_URL": database.url}
        said = endmark("why", str(warehouse.pipeline), *asked, **relation)
        print(said)
        (answer,) = json.loads(said.stdout)["answers"]
        streams = {each["stream"]: each for each in answer["streams"]}
        assert not answer["final"]
        assert (streams["items"]["closed"], streams["bids"]["closed"]) == (True, False)
        assert streams["bids"]["held_rows"] > 0
        time.sleep(3)
        Database(database.url).run(INSERT, seller=LATE)
        wait_for(lambda: len(rows(warehouse, "groups", "item_id")) == 2, job)
        wait_for(lambda: ("bids", 2) in rows(warehouse, "dead_letters", "topic", "offset"), job)
        wait_for(lambda: total(warehouse, "lookup_waiting_time_seconds") == 0, job)
        require_idle(warehouse)
        assert total(warehouse, "lookup_parked_rows") == 0
        assert total(warehouse, "control_records_total") >= 5
        job.stop()

        send(broker, "bids", bid(4, 1), bid(5, NEVER))
        send(broker, "items", item(6))
        warehouse.run_to_the_end()
        report = warehouse.verify()

    assert report.ok, report.to_json()
    assert rows(warehouse, "results", "bids_item_id", "sellers_name") >= {(2, "Ann")}
    assert ("bids", 8, "no_match") in rows(warehouse, "dead_letters", "topic", "offset", "reason")
    control = report.topics[-1]
    assert (control.topic, control.dead_letters) == ("auction-control", 1)
    assert control.records == control.processed + 1


def test_what_the_last_full_batch_leaves_comes_out(tmp_path: Path) -> None:
    """Without another record; then no batch runs. A knob is turned meanwhile, as the ops database tells."""
    with Broker(tmp_path / "broker") as broker:
        relation = f"sqlite:///{tmp_path / 'relation.db'}"
        warehouse = start(tmp_path, broker, relation, "time_per_batch: 0s")
        # Batches of 39, 39 and 1, the same again, 40 and 40: the last is full, too.
        send(broker, "items", *map(item, range(118)))
        send(broker, "bids", *(bid(number, 1 + number % 20) for number in range(118)))
        send(broker, "auction-control", *(turn("steps.known.lookup.strategy", to) for to in ("inlj", "sacn")))
        job = warehouse.start_job("--set=batch.records=80")
        wait_for(lambda: total(warehouse, "join_results_total") == 118, job, seconds=300)
        require_idle(warehouse)
        pulses = total(warehouse, "control_records_total")
        job.stop()
        report = warehouse.verify()

    assert report.ok, report.to_json()
    assert pulses > 1  # one sets a knob
    with closing(OpsDatabase(warehouse.ops_url)) as ops:
        turns = ops.turns.of("auction")
    assert [(turn["before"], turn["value"], turn["by"]) for turn in turns] == [
        ("auto", "inlj", "Ann"),
        ("inlj", "sacn", "Ann"),
    ]
    assert turns[1]["refused"].startswith("steps.known.lookup.strategy: Input should be")
    batch = warehouse.batch()
    assert batch is not None
    assert batch.totals["lookup_reads_total{by=list,relation=sellers}"] >= 20  # of one key each


def test_a_checkpoint_without_the_control_topic_goes_on(
    tmp_path: Path, spark: SparkSession, broker: Broker
) -> None:
    """Its query reads the topic from then on, from its beginning, and nothing of the others twice."""
    create_topics(broker.bootstrap, {"older": 2, "older-control": 1})
    read: list[tuple[str, bytes]] = []

    def collect(records: DataFrame, _: int) -> None:
        read.extend((row.topic, bytes(row.value)) for row in records.collect())

    def run(*topics: str) -> None:
        records = KafkaSource(broker.bootstrap, topics, 100).stream(spark, iter, ddl(RECORDS))
        writer = records.writeStream.foreachBatch(collect)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        query.awaitTermination()

    send(broker, "older", b"1", b"2")
    run("older")
    send(broker, "older-control", b"3")
    send(broker, "older", b"4")
    run("older", "older-control")
    send(broker, "older-control", b"5")
    run("older", "older-control")

    stream, control = (
        [value for topic, value in read if topic == name] for name in ("older", "older-control")
    )
    assert (stream, control) == ([b"1", b"2", b"4"], [b"3", b"5"])


def test_a_topic_that_the_broker_does_not_make(broker: Broker) -> None:
    """The error says what to create."""
    make_topic(broker.bootstrap, "made-control")
    make_topic(broker.bootstrap, "made-control")
    with pytest.raises(MissingPartError, match=r"no topic \.\., .* create it with one partition"):
        make_topic(broker.bootstrap, "..")

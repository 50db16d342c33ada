"""A job that gets more buckets, with its checkpoint in an object store, and is killed while it gets them."""

from __future__ import annotations

import json
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaProducer

from endmark.driver.checkpoint import fewer_buckets, pinned_settings
from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.pipeline.file import load
from endmark.storage import location
from endmark.verify.verification import verify
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.message import ITEMS
from endmark_feed.producer import create_topics
from support.s3_server import S3Server
from support.warehouse import Warehouse, wait_for

# Four stages: a join, a join on another key, groups by a further column, and groups of these groups.
SHOP = """
name: rescaled
unbounded_state: allow
streams:
  orders:
    topic: rescaled-orders
    columns: {order_id: long, customer_id: long, city: long, at: timestamp}
    event_time: {column: at}
    punctuated_on: city
  payments:
    topic: rescaled-payments
    columns: {order_id: long, at: timestamp}
    event_time: {column: at}
    punctuated_on: order_id
  tickets:
    topic: rescaled-tickets
    columns: {customer_id: long, at: timestamp}
    event_time: {column: at}
    punctuated_on: customer_id
steps:
  paid: {join: [orders, payments], on: order_id}
  served: {join: [paid, tickets], on: customer_id}
  by_city: {from: served, aggregate: {by: orders.city, measures: {rows: count}}}
  by_rows: {from: by_city, aggregate: {by: rows, measures: {cities: count}}}
tables:
  served: {}
  by_city: {}
  by_rows: {mode: upsert}
"""


def test_buckets_are_doubled_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records come all the time, and no row is lost or doubled."""
    options = FeedOptions(seed=8, minutes=2.5, rate=300, sellers=2_000, bad_rate=0.01)
    with S3Server(tmp_path / "s3") as server, Broker(tmp_path / "broker") as broker:
        server.make_bucket("shop")
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        tables, checkpoint = (location(f"s3://shop/auction/{name}") for name in ("tables", "checkpoint"))
        relation = f"sqlite:///{tmp_path / 'relation.db'}"
        warehouse = Warehouse(tmp_path, broker, relation, options, tables=tables, checkpoint=checkpoint)
        feed = threading.Thread(target=warehouse.feed)
        feed.start()
        first = warehouse.start_job("--buckets=2", "--set=batch.records=500")
        wait_for(lambda: warehouse.batches() > 2, first)
        first.kill()
        read = warehouse.batches()
        splitting = warehouse.start_job("--buckets=4")
        wait_for(lambda: b"copied" in splitting.log.read_bytes(), splitting)
        splitting.kill()
        # The copies stay until a batch is committed. On a slow machine all other records were read before.
        with closing(KafkaProducer(bootstrap_servers=broker.bootstrap)) as producer:
            producer.send(ITEMS, b"one more record")
        warehouse.run_to_the_end("--buckets=4")
        feed.join()
        assert warehouse.batches() > read
        fewer = fewer_buckets(checkpoint)
        warehouse.run_to_the_end("--buckets=8")
        now = pinned_settings(checkpoint) or {}
        after = warehouse.verify()

    assert fewer is None, "the copies of two buckets are still there"
    assert now["buckets"] == 8
    assert after.ok, after.to_json()
    assert sum(table.actual for table in after.tables) > 5_000


def test_buckets_of_several_stages_are_doubled(broker: Broker, jars: list[Path], tmp_path: Path) -> None:
    """Each stage goes on with its own state: two joins, groups by another column, and groups of these.

    No record has come before buckets are doubled first, so none of them has a state.
    """
    assert jars
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP)
    create_topics(
        broker.bootstrap, dict.fromkeys(("rescaled-orders", "rescaled-payments", "rescaled-tickets"), 1)
    )
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)

    def send(name: str, **values: object) -> None:
        producer.send(f"rescaled-{name}", json.dumps(values).encode())

    def run(buckets: int) -> None:
        producer.flush()
        command = [sys.executable, "-m", "endmark.cli", "run", str(file), f"--buckets={buckets}"]
        command += [
            "--available-now",
            f"--bootstrap={broker.bootstrap}",
            f"--warehouse={tmp_path / 'warehouse'}",
        ]
        command += [f"--checkpoint={tmp_path / 'checkpoint'}", f"--ops-url=sqlite:///{tmp_path / 'ops.db'}"]
        ManagedProcess("job", command, tmp_path / f"job-{buckets}.log", stop_seconds=90).wait_done(300)

    run(1)
    for number in range(40):
        send("orders", order_id=number, customer_id=number % 8, city=number % 3, at="2026-01-01T12:00:00Z")
        send("tickets", customer_id=number % 8, at="2026-01-01T12:00:00Z")
        if number % 2:
            send("payments", order_id=number, at="2026-01-01T12:00:00Z")
    run(2)
    for number in range(0, 40, 2):
        send("payments", order_id=number, at="2026-01-01T12:00:00Z")
    for name, column in (("orders", "city"), ("payments", "order_id"), ("tickets", "customer_id")):
        send(name, **{"$punctuation": {column: {"between": {}}}})
    run(4)
    producer.close()

    report = verify(load(file, {}), broker.bootstrap, tmp_path / "warehouse")
    assert report.ok, report.to_json()
    counts = {table.table: table.actual for table in report.tables}
    assert (counts["served"], counts["by_city"]) == (200, 3)
    assert counts["by_rows"] > 0

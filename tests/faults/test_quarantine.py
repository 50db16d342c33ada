"""A job whose records are bad for the greater part, on real parts: it stops by itself, and loses nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.embedded.process import ManagedProcess
from endmark.errors import MissingPartError
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.commands import endmark
from support.warehouse import Warehouse, errors, wait_for

BID = (
    b'{"bid_id": 1, "item_id": %d, "seller_id": 1, "bidder_id": 1, "price": 2.0, '
    b'"bid_at": "2026-01-01T00:00:01Z"}'
)


def send(broker: Broker, *values: bytes) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    for value in values:
        producer.send("bids", value, partition=0)
    producer.close()


def refused(job: ManagedProcess) -> str:
    """Wait until a job ends by itself with code 1, and return its error."""
    with pytest.raises(MissingPartError, match="failed with code 1"):
        job.wait_done(300)
    [error] = errors(job)
    return str(error)


def letters(warehouse: Warehouse) -> list[dict[str, Any]]:
    table = DeltaTable(warehouse.directory / "warehouse" / "dead_letters")
    return sorted(table.to_pyarrow_table().to_pylist(), key=lambda letter: letter["offset"])


def test_a_job_stops_behind_too_many_dead_letters(tmp_path: Path) -> None:
    """The batch that was too much is committed and no other begins, whether records wait or not. The next run
    goes on behind it, and counts anew."""
    pipeline = tmp_path / "auction.yaml"
    pipeline.write_text(AUCTION.read_text().replace("records: 20000", "records: 500"))
    with Broker(tmp_path / "broker") as broker, MariaDb(tmp_path / "mariadb") as database:
        create_topics(broker.bootstrap, {"items": 1, "bids": 1, "auction-control": 1})
        warehouse = Warehouse(tmp_path, broker, database.url, FeedOptions(seed=5, sellers=20), pipeline)
        good = [BID % number for number in range(2_000)]
        send(broker, *good[:200], *(250 * [b"{"]), *good[200:])

        first = refused(warehouse.start_job("--available-now"))
        status = endmark("status", "auction", f"--ops-url={warehouse.ops_url}")
        read = warehouse.batch()
        kept = letters(warehouse)

        warehouse.run_to_the_end()
        job = warehouse.start_job()
        wait_for(lambda: b"running" in job.log.read_bytes(), job)
        before = warehouse.batches()
        send(broker, *(300 * [b"[]"]))
        second = refused(job)
        report = warehouse.verify()

    assert re.match(r"stream bids: 250 of its last (4\d\d|500) records are dead letters", first)
    assert "250 of them for malformed, such as bids/0/200: not JSON" in first
    assert f"error: {first}" in status.stdout
    assert read is not None
    assert (read.batch_id, read.offsets["bids"]["0"]) == (
        0,
        len(kept) + read.samples["rows_total{stream=bids}"],
    )
    assert [(letter["offset"], letter["value"]) for letter in kept] == [(200 + at, b"{") for at in range(250)]
    assert "300 of them for not_an_object, such as bids/0/2250" in second
    assert warehouse.batches() == before + 1
    assert [letter["value"] for letter in letters(warehouse)] == [*(250 * [b"{"]), *(300 * [b"[]"])]
    assert report.ok, report.to_json()

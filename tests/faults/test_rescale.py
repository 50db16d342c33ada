"""A job that gets more buckets, with its checkpoint in an object store, and is killed while it gets them."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from endmark.driver.checkpoint import fewer_buckets, pinned_settings
from endmark.embedded.broker import Broker
from endmark.storage import location
from endmark_feed.auction_feed import FeedOptions
from support.s3_server import S3Server
from support.warehouse import Warehouse, wait_for


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

"""A job that tunes its own knobs, on real parts: what it tries is in the audit, and people win."""

from __future__ import annotations

import json
import random
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.tuning.autotune import WHO
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.kafka.sending import send
from endmark.pipelines import AUCTION
from endmark.wire.control import Turn
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.warehouse import Warehouse, wait_for

SELLERS = 1_000
BATCH = 2_000  # records, of which each page has some: twice as large, half as many are read
BATCHES = 120  # as many as a move that noise made look bad rests, and those around


def turns(warehouse: Warehouse) -> list[dict[str, Any]]:
    with closing(OpsDatabase(warehouse.ops_url)) as ops:
        return list(ops.turns.of("auction"))


def feed(bootstrap: str) -> None:
    """Bids of sellers at random, which lie apart unless pages are large."""
    chance = random.Random(5)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(BATCH * BATCHES):
        row = {"bid_id": number, "item_id": number, "seller_id": chance.randint(1, SELLERS), "bidder_id": 1}
        made = {"price": 2.0, "bid_at": "2026-01-01T00:00:01Z"}
        producer.send("bids", json.dumps(row | made).encode(), partition=0)
    producer.close()


def test_a_job_leaves_a_bad_size_of_pages_and_yields(tmp_path: Path) -> None:
    """It tries larger ones and keeps them, and says why; a person's turn ends that."""
    pipeline = tmp_path / "auction.yaml"
    text = AUCTION.read_text().replace("page_rows: 500", "page_rows: 2")
    lookup = "strategy: scan, autotune: true"
    pipeline.write_text(text.replace("strategy: hybrid, time_per_batch: 200ms", lookup))
    with Broker(tmp_path / "broker") as broker, MariaDb(tmp_path / "mariadb") as database:
        create_topics(broker.bootstrap, {"items": 1, "bids": 1, "auction-control": 1})
        sellers = FeedOptions(seed=5, sellers=SELLERS)
        warehouse = Warehouse(tmp_path, broker, database.url, sellers, pipeline)
        feed(broker.bootstrap)
        job = warehouse.start_job(f"--set=batch.records={BATCH}", "--set=batch.every=0s")
        wait_for(lambda: any(turn["value"] == 8 for turn in turns(warehouse)), job, seconds=300)
        offset = send(
            broker.bootstrap, "auction-control", Turn("steps.known.lookup.page_rows", 700, "Ann").written()
        )
        wait_for(lambda: any(turn["offset"] == offset for turn in turns(warehouse)), job)
        read_by = warehouse.batches()
        wait_for(lambda: warehouse.batches() > read_by + 12, job)
        job.stop()
        report = warehouse.verify()

    found = turns(warehouse)
    assert report.ok, report.to_json()
    by_hand = next(at for at, turn in enumerate(found) if turn["by"] == "Ann")
    sizes = [2, *(turn["value"] for turn in found[:by_hand])]
    assert {turn["by"] for turn in found[:by_hand]} == {WHO}
    assert [turn["before"] for turn in found[: by_hand + 1]] == sizes
    assert sizes[1] == 4
    assert all(after in (before * 2, before // 2) for before, after in pairwise(sizes))
    assert all(turn["why"].startswith("a row costs ") for turn in found if turn["by"] == WHO)
    assert [turn["value"] for turn in found[by_hand:]] == [700]

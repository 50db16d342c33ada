"""A job closes, behind each batch, the sockets that the batch has opened."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from kafka import KafkaProducer

from endmark.embedded.broker import Broker
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.processes import descendants, open_sockets
from support.warehouse import Warehouse, wait_for

BATCHES = 12
BID = {"item_id": 1, "seller_id": 1, "bidder_id": 1, "price": 2.0, "bid_at": "2026-01-01T00:00:01Z"}


def _is_past(warehouse: Warehouse, seen: int) -> bool:
    return warehouse.batches() > seen


def test_batches_leave_no_socket_open(tmp_path: Path) -> None:
    """Spark 4.2.0 kept a socket of each task of the stateful operator: two more after every batch."""
    with Broker(tmp_path / "broker") as broker:
        create_topics(broker.bootstrap, {"items": 1, "bids": 1, "auction-control": 1})
        relation = f"sqlite:///{tmp_path / 'relation.db'}"
        warehouse = Warehouse(tmp_path, broker, relation, FeedOptions(seed=5, sellers=20))
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
        with warehouse.start_job() as job:
            wait_for(lambda: b"running" in job.log.read_bytes(), job)
            found = []
            for number in range(2 * BATCHES):
                seen = warehouse.batches()
                producer.send("bids", json.dumps({"bid_id": number, **BID}).encode(), partition=0)
                producer.flush()
                wait_for(partial(_is_past, warehouse, seen), job)
                found.append(open_sockets(descendants(job.pid)))
            job.stop()
        producer.close()

    assert max(found[BATCHES:]) <= max(found[:BATCHES]) + BATCHES // 2

"""A job whose batches are turned smaller and further apart, on real parts: it goes on by itself."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

from kafka import KafkaProducer

from endmark.control.ops_database.batches import FinishedBatch
from endmark.control.ops_database.database import OpsDatabase
from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.kafka.sending import send
from endmark.wire.control import Turn
from endmark_feed.auction_feed import FeedOptions
from endmark_feed.producer import create_topics
from support.warehouse import Warehouse, wait_for

BIDS = 20_000
FIRST, LATER = 400, 90  # records a batch
APART = 3.0  # seconds
# The job notes the start of a batch after Spark has planned it, and no two plans take equally long.
PLANNED = 1.0  # seconds


def feed(bootstrap: str) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(BIDS):
        row = {"bid_id": number, "item_id": number % 7, "seller_id": 1, "bidder_id": 1, "price": 2.0}
        producer.send("bids", json.dumps(row | {"bid_at": "2026-01-01T00:00:01Z"}).encode(), partition=0)
    producer.close()


class Turned:
    """A warehouse whose pace is turned."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def turn(self, job: ManagedProcess, name: str, value: Any) -> int:
        """Turn a knob; returns the batch that has read it."""
        offset = send(self._warehouse.broker.bootstrap, "auction-control", Turn(name, value, "Ann").written())

        def read_by() -> list[int]:
            with closing(OpsDatabase(self._warehouse.ops_url)) as ops:
                return [turn["batch_id"] for turn in ops.turns.of("auction") if turn["offset"] == offset]

        wait_for(lambda: read_by() != [], job)
        return read_by()[0]

    def spoil(self, name: str, value: Any) -> None:
        """Store a turn to something that a knob cannot be turned to, behind all others."""
        place = {"partition": 0, "offset": 1_000_000, "set_at": 7.0, "by": "Bo", "why": None}
        with closing(OpsDatabase(self._warehouse.ops_url)) as ops:
            ops.turns.record("auction", 1, [{**place, "name": name, "value": value, "refused": None}], {})

    def after(self, job: ManagedProcess, batch_id: int, count: int) -> list[FinishedBatch]:
        """So many batches from the second one after."""
        wait_for(lambda: self._warehouse.batches() > batch_id + 1 + count, job)
        with closing(OpsDatabase(self._warehouse.ops_url)) as ops:
            return list(ops.batches.after("auction", batch_id + 1, count))


def records(batch: FinishedBatch) -> float:
    return batch.samples.get("records_total{stream=bids}", 0.0)


def shortest(batches: int) -> float:
    """The least time from the first start to the last of `batches` in a row, in seconds.

    Spark triggers at multiples of the interval. After a batch that overran it, Spark triggers at once, but a
    multiple lies between any two starts. So only the first and the last distance may be short."""
    return (batches - 2) * APART - PLANNED


def test_the_pace_of_a_job_is_turned_while_it_runs(tmp_path: Path) -> None:
    """A turn holds from the second batch after its reader, since Spark has planned the next batch by then.

    It still holds after a kill, and the job ignores a stored turn that its knob no longer takes. A turn ends
    an hour's wait at once. Nothing is lost or done twice, and Spark's log has no error of the new pace."""
    with Broker(tmp_path / "broker") as broker:
        create_topics(broker.bootstrap, {"items": 1, "bids": 1, "auction-control": 1})
        feed(broker.bootstrap)
        relation_url = f"sqlite:///{tmp_path / 'relation.db'}"
        warehouse = Warehouse(tmp_path, broker, relation_url, FeedOptions(seed=1, sellers=5))
        # Else the rows of a full batch would enter the join with the next one.
        at_once = "--set=steps.known.lookup.time_per_batch=null"
        said = f"--set=batch.records={FIRST}", "--set=batch.every=0s", at_once
        turned, job = Turned(warehouse), warehouse.start_job(*said)

        large = turned.after(job, 0, 3)
        smaller = turned.after(job, turned.turn(job, "batch.records", LATER), 4)
        apart = turned.after(job, turned.turn(job, "batch.every", f"{APART}s"), 5)
        job.kill()
        last = warehouse.batches()
        turned.spoil("batch.every", 1e-05)
        job = warehouse.start_job(*said)
        still = turned.after(job, last, 5)
        turned.turn(job, "batch.every", "1h")
        turned.turn(job, "batch.records", 1_000_000)
        turned.turn(job, "batch.every", "0s")
        wait_for(lambda: (turned.after(job, warehouse.batches() - 3, 1)[0].offsets["bids"]["0"]) == BIDS, job)
        job.stop()
        report = warehouse.verify()

    assert report.ok, report.to_json()
    ignored = "ignores what Bo turned in batch 1: batch.every: 1e-05 is no whole number of milliseconds"
    assert sum(ignored in log.read_text() for log in tmp_path.glob("job-*.log")) == 1
    for log in tmp_path.glob("job-*.log"):
        assert "NewPaceError" not in log.read_text()
    assert {records(batch) for batch in large} == {FIRST}
    assert 0 < max(records(batch) for batch in smaller) <= LATER
    assert 0 < max(records(batch) for batch in [*apart, *still]) <= LATER
    for batches in (apart, still):
        starts = [batch.committed_at - batch.samples["compute_seconds"] for batch in batches]
        assert starts[-1] - starts[0] > shortest(len(starts)), starts

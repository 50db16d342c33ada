"""The results of a join as a stream of the next stage: its promises, its progress, its rows without a key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endmark.engine import channels
from endmark.engine.bucket.task import BucketTask
from endmark.metrics import sample
from endmark.pipeline import Pipeline
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.wire.control import Turn
from support.bucket_tasks import BucketTasks, Tables
from support.two_stages import NAMES, row, told, two_stages
from support.verify_recompute import SELLERS
from support.verify_world import Record, instant, locate

PROMISED = {"orders": ["order_id", "customer_id"], "payments": ["order_id"], "tickets": ["customer_id"]}


def heartbeat(name: str, seconds: float) -> Record:
    return told(name, {"at": {"between": {"to": instant(seconds)}}})


class Run:
    """A pipeline of two stages that reads records batch by batch, from one partition of each topic."""

    def __init__(self, pipeline: Pipeline, directory: Path, buckets: int = 3) -> None:
        self.tasks = BucketTasks(pipeline, SELLERS, 1, directory, buckets=buckets)
        self._records: list[Record] = []
        self.tables: Tables = {}

    def __call__(self, *records: Record) -> list[dict[str, Any]]:
        """Read a batch; return its results."""
        before = len(self._records)
        self._records += records
        self.tables = self.tasks.batch(locate(self._records)[before:])
        return self.tables["results"]

    def of(self, name: str, **labels: str) -> float:
        """A metric of the last batch, summed over buckets."""
        key = sample(name, **labels)
        return sum(float(report.get("samples", {}).get(key, 0)) for report in self.tasks.reports)

    def rows(self, stream: str) -> float:
        return self.of("state_rows", operator="join", stream=stream)

    def behind(self, stream: str) -> float:
        """The seconds for which the progress of a stream is behind that of the orders."""
        told = {name: at for each in self.tasks.reports for name, at in each.get("alike", {}).items()}
        orders, own = (sample("progress_event_time_seconds", stream=name) for name in ("orders", stream))
        return float(told[orders] - told[own])


def orders_and_payments(*numbers: int, seconds: float = 1, customer: int | None = 1) -> list[Record]:
    return [
        record
        for number in numbers
        for record in (
            row("orders", seconds, order_id=number, customer_id=customer),
            row("payments", seconds, order_id=number),
        )
    ]


def test_rows_meet_by_another_key(tmp_path: Path) -> None:
    run = Run(two_stages(), tmp_path)
    assert run(*orders_and_payments(1, 2, 3)) == []
    found = run(row("tickets", 1, customer_id=1))
    assert {each["orders_order_id"] for each in found} == {1, 2, 3}
    assert {each["tickets_customer_id"] for each in found} == {1}


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_promise_of_a_stream_is_one_of_its_join(tmp_path: Path, buckets: int) -> None:
    """Customer 1 is closed for tickets once no bucket holds an order of this customer."""
    run = Run(two_stages(promised=PROMISED), tmp_path, buckets)
    run(*[row("orders", 1, order_id=number, customer_id=1) for number in range(4)])
    run(row("tickets", 1, customer_id=1), row("tickets", 1, customer_id=2))
    run(told("orders", {"customer_id": {"equals": 1}}))
    assert run.rows("tickets") == 2
    run(*[told("payments", {"order_id": {"equals": number}}) for number in range(3)])
    assert run.rows("tickets") == 2
    found = run(row("payments", 1, order_id=3), told("payments", {"order_id": {"equals": 3}}))
    assert [each["tickets_customer_id"] for each in found] == [1]
    assert run.rows("tickets") == 1
    assert run.of("closed_keys", stream="paid") == 1


@pytest.mark.parametrize("named", [{"equals": 1}, {"between": {"to": 1}}])
def test_a_group_of_the_second_join_is_final(tmp_path: Path, named: dict[str, Any]) -> None:
    """Customer 1 is over once no order of this customer waits for a payment, and no payment for a ticket."""
    promised = {"orders": ["order_id", "customer_id"], "payments": ["order_id"]}
    pipeline = two_stages(
        promised=promised, served={"window": {"paid": "9s", "tickets": None}}, by=["customer_id"]
    )
    run = Run(pipeline, tmp_path)
    run(row("orders", 1, order_id=1, customer_id=1), row("tickets", 1, customer_id=1))
    run(told("orders", {"customer_id": named}))
    assert run.tables["groups"] == run.tables["announced"] == []
    run(row("payments", 1, order_id=1), told("payments", {"order_id": {"equals": 1}}))
    assert run.tables["groups"] == run.tables["announced"] == []
    run(heartbeat("tickets", 11))
    assert run.tables["groups"] == [{"customer_id": 1, "n": 1}]
    texts = [json.loads(each["punctuation"]) for each in run.tables["announced"]]
    assert {"orders_customer_id": named} in texts
    assert {"tickets_customer_id": named} in texts


def test_a_range_of_customers_is_closed_in_all_buckets(tmp_path: Path) -> None:
    run = Run(two_stages(promised=PROMISED), tmp_path)
    run(*[row("tickets", 1, customer_id=number) for number in range(9)])
    run(told("orders", {"customer_id": {"between": {"to": 5}}}))
    assert run.rows("tickets") == 3


def test_the_end_of_a_stream_ends_its_join(tmp_path: Path) -> None:
    """It may say so of its key or of another column, since each result has a row of it."""
    run = Run(two_stages(promised=PROMISED, served={"type": "full"}), tmp_path)
    run(*[row("tickets", 1, customer_id=number) for number in range(4)])
    found = run(told("payments", {"order_id": {"anything": True}}))
    assert sorted(each["tickets_customer_id"] for each in found) == [0, 1, 2, 3]
    assert run.rows("tickets") == 0


def test_the_end_of_a_stream_that_may_lack_is_none_of_its_join(tmp_path: Path) -> None:
    run = Run(two_stages(promised=PROMISED, paid={"type": "left"}), tmp_path)
    run(row("tickets", 1, customer_id=1), told("payments", {"order_id": {"anything": True}}))
    found = run(row("orders", 1, order_id=1, customer_id=1))
    assert [each["payments_order_id"] for each in found] == [None]


def test_progress_is_that_of_the_oldest_order(tmp_path: Path) -> None:
    """It waits for orders that may still be paid in any bucket, and follows when they have left."""
    run = Run(two_stages(paid={"window": "10s"}, served={"window": "1s"}), tmp_path)
    run(row("tickets", 5, customer_id=1))
    run(*[row("orders", 5 + number, order_id=number, customer_id=1) for number in range(6)])
    assert (run.behind("paid"), run.rows("tickets")) == (5, 1)
    run(row("payments", 5, order_id=9), heartbeat("orders", 60))
    assert (round(run.behind("paid")), run.rows("tickets")) == (55, 1)
    found = run(row("payments", 6, order_id=0))
    assert [each["orders_order_id"] for each in found] == [0]
    run(heartbeat("payments", 60))
    assert (run.behind("paid"), run.rows("tickets")) == (0, 0)


def test_without_a_window_progress_stands_still(tmp_path: Path) -> None:
    run = Run(two_stages(served={"window": "1s"}), tmp_path)
    run(row("orders", 1, order_id=1, customer_id=1), row("tickets", 1, customer_id=1))
    run(heartbeat("orders", 99), heartbeat("payments", 99))
    found = run(row("payments", 100, order_id=1))
    assert [each["tickets_customer_id"] for each in found] == [1]


@pytest.mark.parametrize("kind", ["inner", "left"])
def test_rows_without_a_key_are_dropped_and_counted(tmp_path: Path, kind: str) -> None:
    run = Run(
        two_stages(nullable=True, promised={"tickets": ["customer_id"]}, served={"type": kind}), tmp_path
    )
    found = run(*orders_and_payments(1, 2, customer=None), *orders_and_payments(3))
    found += run(told("tickets", {"customer_id": {"anything": True}}))
    assert run.of("join_null_key_rows_total", stream="paid") == 0
    assert [each["orders_order_id"] for each in found] == ([3] if kind == "left" else [])


def test_a_lookup_alone_asks_for_rows_of_a_join(tmp_path: Path) -> None:
    document: dict[str, Any] = two_stages(lookup=("paid", {"miss": "nulls"}), nullable=True).model_dump()
    del document["streams"]["tickets"], document["steps"]["served"]
    document["steps"]["grouped"] = {
        "from": "known",
        "aggregate": {"by": "sellers.name", "measures": {"n": "count"}},
    }
    document["tables"] = {"known": {}, "grouped": {"mode": "changes"}}
    run = Run(Pipeline.model_validate(document), tmp_path)
    found = run(*orders_and_payments(1, 2), *orders_and_payments(3, customer=None))
    assert sorted((each["orders_order_id"], each["sellers_name"]) for each in found[:2]) != []
    assert {each["orders_order_id"]: each["sellers_name"] for each in found} == {1: "Ann", 2: "Ann", 3: None}


def test_a_promise_beside_both_keys_makes_a_group_final(tmp_path: Path) -> None:
    """Payer 0 is over once no payment of this payer waits for an order, and no paid order for a ticket."""
    promised = {"orders": ["order_id"], "payments": ["order_id", "payer_id"]}
    served = {"window": {"paid": "9s", "tickets": None}}
    run = Run(two_stages(promised=promised, served=served, by=["payments.payer_id"]), tmp_path)
    run(
        *orders_and_payments(1),
        row("tickets", 1, customer_id=1),
        told("payments", {"payer_id": {"equals": 0}}),
    )
    run(heartbeat("tickets", 5), told("orders", {"order_id": {"equals": 1}}))
    assert run.tables["groups"] == run.tables["announced"] == []
    run(heartbeat("tickets", 11))
    assert run.tables["groups"] == [{"payments_payer_id": 0, "n": 1}]
    assert [each["punctuation"] for each in run.tables["announced"]] == [
        '{"payments_payer_id": {"equals": 0}}'
    ]


def test_a_key_that_is_announced_closes_the_same_key(tmp_path: Path) -> None:
    """Order 1 is over behind a lookup, too, once the join of orders and payments announces it by name."""
    document: dict[str, Any] = two_stages(promised=PROMISED, lookup=("paid", {"miss": "nulls"})).model_dump()
    del document["streams"]["tickets"], document["steps"]["served"]
    document["steps"]["grouped"] = {
        "from": "known",
        "aggregate": {"by": "order_id", "measures": {"n": "count"}},
    }
    document["tables"] = {"known": {}, "grouped": {}}
    run = Run(Pipeline.model_validate(document), tmp_path)
    run(*orders_and_payments(1, 2), told("orders", {"order_id": {"equals": 1}}))
    assert run.tables["groups"] == []
    run(told("payments", {"order_id": {"equals": 1}}))
    assert run.tables["groups"] == [{"order_id": 1, "n": 1}]


def test_knobs_reach_both_stages(tmp_path: Path) -> None:
    """A turn counts in the join that it names."""
    pipeline = two_stages(promised=PROMISED)
    run = Run(pipeline, tmp_path, buckets=1)
    run(Record(pipeline.control_topic, 0, Turn("steps.served.purge_every", 3, "Ann").written()))
    run(row("orders", 1, order_id=1, customer_id=1), row("payments", 1, order_id=1))
    run(row("payments", 1, order_id=2))
    # Two rows of what is paid wait for a third punctuation; orders are purged by the first.
    run(told("tickets", {"customer_id": {"equals": 1}}), row("tickets", 1, customer_id=2))
    assert run.rows("paid") == 1
    run(told("payments", {"order_id": {"equals": 1}}), row("tickets", 1, customer_id=3))
    assert run.rows("orders") == 0


def test_a_missing_report_stops_the_job(tmp_path: Path) -> None:
    run = Run(two_stages(), tmp_path, buckets=2)
    plan = run.tasks.plans[1].bucket
    task = BucketTask(plan, SegmentStore(MemoryBlobs(), tmp_path), None)
    report = json.dumps({"released": {}, "waiting": [], "progress": 0, "to": 3}).encode()
    with pytest.raises(AssertionError, match="1 of 2 buckets have reported on paid"):
        list(task.run([(channels.REPORT, report)]))


def test_metrics_tell_streams_apart(tmp_path: Path) -> None:
    run = Run(two_stages(), tmp_path)
    run(*orders_and_payments(1), row("tickets", 1, customer_id=1))
    assert [run.rows(name) for name in (*NAMES, "paid")] == [1, 1, 1, 1]

"""The task of a bucket with three streams: its metrics, and what it tells of a condition that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endmark.metrics import Samples, add, sample
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks
from support.several_streams import NAMES, joined, row, stream
from support.verify_keys import LONG
from support.verify_recompute import SELLERS
from support.verify_world import close, locate

THREE = NAMES[:3]
PARTITIONS = {f"all.{name}": 1 for name in THREE}


def three(**join: Any) -> Pipeline:
    streams = {name: stream(LONG, name) for name in THREE}
    windows = {"orders": None, "payments": None, "shipments": 9}
    return joined(LONG, streams, {}, join, windows=windows)


def of(tasks: BucketTasks) -> Samples:
    """The samples of the last batch."""
    return add(report["samples"] for report in tasks.reports)


def test_each_stream_has_its_samples(tmp_path: Path) -> None:
    """A closed key with rows of its stream is pending there, and says what it waits for."""
    tasks = BucketTasks(three(memory=1), SELLERS, PARTITIONS, tmp_path, full_batch=1)
    tasks.batch(locate([]))
    orders = [row("orders", key, 1, LONG) for key in (0, 1, 2)]
    shipments = [row("shipments", key, 2, LONG) for key in (1, 2)]
    tasks.batch(locate([*orders, *shipments, close("orders", 0, 0), close("shipments", 1, 0)]))

    found = of(tasks)
    held = {name: found[sample("state_rows", operator="join", stream=name)] for name in THREE}
    assert held == {"orders": 3, "payments": 0, "shipments": 2}
    waits = {"orders": "closing", "payments": "closing", "shipments": "window"}
    pending = {
        name: found[sample("pending_punctuations", stream=name, waits_for=waits[name])] for name in THREE
    }
    assert pending == {"orders": 1, "payments": 0, "shipments": 1}
    closed = {name: found[sample("closed_keys", stream=name)] for name in THREE}
    assert closed == {"orders": 1, "payments": 0, "shipments": 1}
    assert {name: found[sample("join_spilled_segments", stream=name)] > 0 for name in THREE} == {
        "orders": True,
        "payments": False,
        "shipments": True,
    }


def test_results_on_which_the_condition_fails_are_told(tmp_path: Path) -> None:
    """With the place of a row of each stream. They are no results, however they come."""
    where = "payments_amount > 0 OR orders_seller_id + 9223372036854775806 > 0"
    tasks = BucketTasks(three(where=where), SELLERS, PARTITIONS, tmp_path)
    records = locate(
        [
            row("orders", 0, 1, LONG),
            row("orders", 0, 1, LONG, seller=2),
            row("payments", 0, 1, LONG),
            row("shipments", 0, 1, LONG),
        ]
    )

    found = tasks.batch(records)

    assert [result["orders_seller_id"] for result in found["results"]] == [1]
    (failure,) = (each for report in tasks.reports for each in report.get("failures", []))
    assert (failure["field"], failure["count"]) == ("steps.joined.where", 1)
    assert failure["why"].startswith("Out of Range Error: Overflow in addition")
    assert failure["at"] == [
        {"stream": "orders", "partition": 0, "offset": 1},
        {"stream": "payments", "partition": 0, "offset": 0},
        {"stream": "shipments", "partition": 0, "offset": 0},
    ]
    assert of(tasks)[sample("join_failed_pairs_total")] == 1

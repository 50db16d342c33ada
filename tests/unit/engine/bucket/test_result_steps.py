"""The row steps behind a join in the task of a bucket: what is left, what is counted, and what is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endmark.expressions.condition_failures import lines
from endmark.metrics import add
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables
from support.stepped_joins import stepped
from support.two_stages import row
from support.verify_world import Record, locate

LARGE = 9_223_372_036_854_775_800


def run(pipeline: Pipeline, records: list[Record], directory: Path) -> tuple[Tables, BucketTasks]:
    tasks = BucketTasks(pipeline, [], 1, directory)
    return tasks.batch(locate(records)), tasks


def history() -> list[Record]:
    """An order and its payment for each of three orders, and a ticket of each customer."""
    found = []
    for order in range(3):
        found += [
            row("orders", order, order_id=order, customer_id=order),
            row("payments", order + 0.5, order_id=order, payer_id=order),
            row("tickets", order, customer_id=order),
        ]
    return found


def test_a_result_goes_through_the_steps_of_both_joins(tmp_path: Path) -> None:
    late = {"where": "payer_id <> 1", "derive": {"twice": "2 * payer_id"}, "drop": "payer_id"}
    behind: list[dict[str, Any]] = [
        {"derive": {"later": "tickets.at > orders.at"}},
        {"where": "not later and twice > 0"},
    ]

    found, tasks = run(stepped(late, *behind), history(), tmp_path)

    (result,) = found["results"]
    assert (result["orders_order_id"], result["paid_twice"], result["served_later"]) == (2, 4, False)
    assert "payments_payer_id" not in result
    samples = add(report["samples"] for report in tasks.reports)
    assert samples["filtered_results_total{step=late}"] == 1
    assert samples["filtered_results_total{step=behind_1}"] == 1
    assert (samples["step_rows_total{step=late}"], samples["step_rows_total{step=behind_1}"]) == (2, 1)
    assert samples["join_results_total"] == 5


def test_a_result_on_which_a_step_fails_is_left_out(tmp_path: Path) -> None:
    """It is counted, and the log has the first one with the places of its records."""
    late: dict[str, Any] = {
        "where": f"payer_id + {LARGE + 6} > 0",
        "derive": {"large": f"customer_id + {LARGE + 7}"},
    }
    found, tasks = run(stepped(late), history(), tmp_path)

    assert [result["orders_order_id"] for result in found["results"]] == [0]
    samples = add(report["samples"] for report in tasks.reports)
    assert samples["failed_results_total{step=late}"] == 2
    assert samples["filtered_results_total{step=late}"] == 0
    told = lines([each for report in tasks.reports for each in report.get("failures", [])], 7)
    assert {line.partition(": Out of Range Error")[0] for line in told} == {
        f"batch 7: steps.late.{failure}"
        for failure in (
            "where failed once and does not hold there, such as on orders 0@2 with payments 0@2",
            "derive.large failed once and its rows are left out, such as on orders 0@1 with payments 0@1",
        )
    }


def test_a_result_without_a_partner_has_one_place(tmp_path: Path) -> None:
    late = {"derive": {"large": f"customer_id + {LARGE + 7}"}}
    pipeline = stepped(late, paid={"type": "left", "window": "1s"})
    records = [row("orders", 0, order_id=1, customer_id=1), row("payments", 9, order_id=2)]

    _, tasks = run(pipeline, [*records, row("orders", 9, order_id=2, customer_id=0)], tmp_path)

    (told,) = (each for report in tasks.reports for each in report.get("failures", []))
    assert told["at"] == [{"stream": "orders", "partition": 0, "offset": 0}]

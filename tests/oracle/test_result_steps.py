"""Row steps behind two joins, batch by batch through the tasks of both stages, against `verify`."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from endmark.metrics import parse
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables, pauses, upserted
from support.cases import cases
from support.graph_world import behind_joins
from support.kept_promises import broken_promises
from support.sizes import BUCKETS, MERGING
from support.stepped_joins import stepped
from support.two_stages import (
    ends,
    partition_counts,
    row,
    told,
    two_stage_histories,
    two_stage_pipelines,
)
from support.verify_recompute import SELLERS, recomputed, require_within
from support.verify_world import Record, locate

LARGE = 9_223_372_036_854_775_800


@cases(6)
@given(data=st.data())
def test_results_behind_row_steps_equal_their_recomputation(data: st.DataObject) -> None:
    """Whatever the joins, the steps, the batches and the buckets; and no result is lost without a count."""
    declared, partitions = data.draw(two_stage_pipelines()), data.draw(partition_counts())
    document, _ = data.draw(behind_joins(declared.model_dump(), "served"))
    pipeline = Pipeline.model_validate(document)
    records = data.draw(two_stage_histories(pipeline, partitions))
    records = [*records, *ends(pipeline, partitions)]
    size = data.draw(st.integers(1, 20))
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as directory, data.draw(MERGING).limits():
        tasks = BucketTasks(
            pipeline,
            SELLERS,
            partitions,
            Path(directory),
            full_batch=data.draw(st.sampled_from([None, 1, size])),
            buckets=data.draw(BUCKETS),
            group_buckets=data.draw(BUCKETS),
        )
        located = locate(records)
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        came: list[Tables] = []
        for tables in map(tasks.batch, batches):
            came.append(tables)
            _count(tasks, counts)
        for tables in pauses(tasks):
            came.append(tables)
            _count(tasks, counts)
    left_out = counts["filtered_results_total"] + counts["failed_results_total"]
    event(f"left out: {left_out > 0}")
    if all(stage.columns.row_steps for stage in pipeline.stages):
        assert counts["join_results_total"] == left_out + counts["step_rows_total"]
    assert list(broken_promises(pipeline, came)) == []
    with recomputed(pipeline, records, upserted(pipeline, came), partitions) as session:
        require_within(session, pipeline)


def _count(tasks: BucketTasks, counts: Counter[str]) -> None:
    """Add up what a batch has counted, by the name of the metric."""
    for report in tasks.reports:
        for key, value in report.get("samples", {}).items():
            counts[parse(key)[0]] += value


def test_no_group_counts_a_result_that_is_left_out() -> None:
    """Neither in the table of results nor in groups: one is filtered, and on one the derived column fails."""
    late = {"where": "payer_id <> 0", "derive": {"large": f"payer_id + {LARGE + 6}"}}
    pipeline = stepped(late, by=["customer_id"])
    records = []
    for order in range(3):
        records += [
            row("orders", order, order_id=order, customer_id=order),
            row("payments", order, order_id=order, payer_id=order),
            row("tickets", order, customer_id=order),
        ]

    found = _run(pipeline, records)

    assert [each["orders_order_id"] for each in found["results"]] == [1]
    assert [(each["customer_id"], each["n"]) for each in found["running"]] == [(1, 1)]


def test_every_result_is_counted() -> None:
    """One batch has three results: a step filters one of them and fails on the other two."""
    late = {"where": "customer_id <> 0", "derive": {"large": f"payer_id + {LARGE + 6}"}}
    records = []
    for order in range(3):
        records += [
            row("orders", order, order_id=order, customer_id=min(order, 1)),
            row("payments", order, order_id=order, payer_id=2),
        ]
    with tempfile.TemporaryDirectory() as directory:
        tasks = BucketTasks(stepped(late), SELLERS, 1, Path(directory), buckets=1)
        tasks.batch(locate(records))
    counts: Counter[str] = Counter()
    _count(tasks, counts)
    assert (counts["filtered_results_total"], counts["failed_results_total"]) == (1, 2)


def test_a_lost_name_is_given_anew() -> None:
    """The column of a stream is dropped, and a later step derives another one of this name."""
    first = {"derive": {"other": "payer_id + 1"}, "drop": "payer_id"}
    pipeline = stepped(
        None,
        first | {"derive": {"other": "twice + 1"}, "drop": "paid.twice"},
        {"derive": {"twice": "other * 2"}},
        {"where": "twice = 6"},
    )
    records = [
        row("orders", 0, order_id=1, customer_id=1),
        row("payments", 0, order_id=1, payer_id=1),
        row("tickets", 0, customer_id=1),
    ]

    (result,) = _run(pipeline, records)["results"]

    assert result["served_twice"] == 6
    assert "paid_twice" not in result


def test_a_filtered_row_of_a_semi_join() -> None:
    """It has been put out once, so it holds back no pattern, though it is no result behind the step.

    So the ticket of its customer is alone."""
    pipeline = stepped(
        {"where": "customer_id <> 1"},
        paid={"type": "semi"},
        served={"type": "right"},
        promised={"orders": ["order_id", "customer_id"], "payments": ["order_id"]},
    )
    records = [
        row("orders", 0, order_id=1, customer_id=1),
        row("payments", 0, order_id=1),
        told("orders", {"customer_id": {"equals": 1}}),
        row("tickets", 0, customer_id=1),
    ]

    (result,) = _run(pipeline, records)["results"]

    assert (result["orders_order_id"], result["tickets_customer_id"]) == (None, 1)


def _run(pipeline: Pipeline, records: list[Record]) -> dict[str, list[dict[str, Any]]]:
    with tempfile.TemporaryDirectory() as directory:
        tasks = BucketTasks(pipeline, SELLERS, 1, Path(directory))
        found = tasks.batch(locate(records))
    partitions = {stream.topic: 1 for stream in pipeline.streams.values()}
    with recomputed(pipeline, records, found, partitions) as session:
        require_within(session, pipeline)
    return found

"""A stream without a join, in the tasks of its buckets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from endmark.engine.stored_task import is_idle
from endmark.metrics import add, parse
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables, total
from support.verify_alone import alone
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, Record, bid, close, locate, make_pipeline, promise

ONE_EACH = {"all.bids": PARTITIONS}


def tasks_of(pipeline: Pipeline, directory: Path, full_batch: int | None = None) -> BucketTasks:
    sellers = sellers_of(pipeline)
    return BucketTasks(pipeline, sellers, PARTITIONS, directory, full_batch, others=OTHERS)


def in_batches(tasks: BucketTasks, records: list[Record], size: int) -> list[Tables]:
    located = locate(records)
    return [tasks.batch(located[at : at + size]) for at in range(0, len(located), size)]


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_rows_are_results_once_they_are_answered(tmp_path: Path, size: int) -> None:
    """They carry what each relation has, and the group of a key is closed by the stream alone."""
    others = {"ranks": {"stream": "bids", "miss": "nulls"}}
    pipeline = alone(make_pipeline(others=others, running=True), "bids")
    rows = [bid(0, 1), bid(0, 2, seller=2), bid(1, 1, seller=4), bid(0, 3, price=9.0)]
    records = [*rows, close("bids", 0), bid(0, 4), bid(2, 5)]

    batches = in_batches(tasks_of(pipeline, tmp_path), records, size)

    found = total(batches)
    assert list(found["results"][0]) == list(pipeline.result_columns())
    names = sorted(
        (row["bids_kafka_offset"], row["sellers_name"], row["ranks_rank"]) for row in found["results"]
    )
    assert names == [(0, "Ann", "first"), (1, "Bo", None), (2, "Ann", "first"), (5, "Ann", "first")]
    assert [(row["item_id"], row["bids"], row["best"]) for row in found["groups"]] == [(0, 3, 9.0)]
    assert [row["offset"] for row in found["violations"]] == [4]
    assert found["announced"] == [
        {"punctuation": '{"bids_item_id": {"equals": 0}}', "completed_by": "closed"}
    ]
    with recomputed(pipeline, records, found, ONE_EACH) as session:
        require_within(session, pipeline)


def test_waiting_rows_hold_back_what_came_after_them(tmp_path: Path) -> None:
    """A promise is announced, and a group closed, when the rows before it are out."""
    looking: dict[str, Any] = {"strategy": "hybrid", "time_per_batch": "0ms"}
    pipeline = alone(make_pipeline(looking=looking, wider=("seller_id",)), "bids")
    rows = [bid(0, at, seller=seller) for at, seller in enumerate((1, 2, 3), 1)]
    over = [promise("bids", {"seller_id": {"equals": 5}}, partition) for partition in range(PARTITIONS)]
    records = [*rows, close("bids", 0), *over]
    tasks = tasks_of(pipeline, tmp_path, full_batch=1)
    tasks.batch([])  # the first batch is always a pause

    batches = [tasks.batch(locate(records))]
    while sum(len(batch["results"]) for batch in batches) < len(rows):
        assert not any(batch["announced"] or batch["groups"] for batch in batches)
        assert not all(map(is_idle, tasks.snapshots))
        batches.append(tasks.batch([]))

    assert len(batches) > 1
    assert all(map(is_idle, tasks.snapshots))
    found = total(batches)
    assert [row["bids"] for row in batches[-1]["groups"]] == [3]
    assert {row["punctuation"] for row in batches[-1]["announced"]} == {
        '{"bids_item_id": {"equals": 0}}',
        '{"bids_seller_id": {"equals": 5}}',
    }
    with recomputed(pipeline, records, found, ONE_EACH) as session:
        require_within(session, pipeline)


def test_nothing_is_kept_of_a_row_and_nothing_told_of_a_join(tmp_path: Path) -> None:
    pipeline = alone(make_pipeline(), "bids")
    tasks = tasks_of(pipeline, tmp_path)
    tasks.batch(locate([bid(key, 1) for key in range(9)]))

    samples = add(report["samples"] for report in tasks.reports)
    parsed = [(*parse(key), value) for key, value in samples.items()]
    told = {(name, labels.get("stream")): value for name, labels, value in parsed}
    assert told["join_results_total", None] == 9
    assert told["state_rows", "bids"] == 0
    assert {stream for _, stream in told} == {None, "bids", "by_key"}
    rows = {name for (name, _), value in told.items() if name.startswith("join_") and value}
    assert rows == {"join_results_total"}

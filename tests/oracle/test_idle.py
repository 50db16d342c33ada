"""Streams whose partitions fall silent, from Kafka's bytes to the tables, against what `verify` allows."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from endmark.operators.stream_join.presets import PRESETS
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, total
from support.cases import cases
from support.sizes import SIZES
from support.verify_histories import broken_histories, pipelines, stamped
from support.verify_keys import LONG
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, bid, item, locate, make_pipeline

PASSING = [preset for preset, able in PRESETS.items() if able.window]  # by which time matters


@pytest.mark.parametrize("kind", [*JoinType, None])
@cases(2, among=33)
@given(data=st.data())
def test_tables_are_within_their_recomputation(kind: JoinType | None, data: st.DataObject) -> None:
    """Whatever the batches, each row that `verify` is sure of is there, and none that it finds impossible."""
    preset = data.draw(st.sampled_from(PASSING))
    pipeline = data.draw(pipelines(kind, LONG, chosen=preset, idle=True))
    sizes = data.draw(SIZES)
    records = data.draw(broken_histories(LONG, sizes.partitions, pipeline.streams))
    size = data.draw(st.integers(1, 4))
    with tempfile.TemporaryDirectory() as directory, sizes.merging.limits():
        sellers, buckets = sellers_of(pipeline), sizes.buckets
        tasks = BucketTasks(pipeline, sellers, sizes.partitions, Path(directory), buckets=buckets)
        located = locate(records)
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        found = total(tasks.batch(batch) for batch in [*batches, []])  # the last one is a pause

    event(f"overtaken: {any(row['reason'] == 'idle' for row in found.get('violations', []))}")
    with recomputed(pipeline, records, found, sizes.partitions) as session:
        event(f"uncertain results: {session.count('uncertain_results') > 0}")
        require_within(session, pipeline)


@pytest.mark.parametrize(("size", "overtaken"), [(1, 2), (5, 0)])
def test_rows_held_back_are_overtaken_batch_by_batch(size: int, overtaken: int, tmp_path: Path) -> None:
    """The first to come back does not take back the progress that overtook the next, whose partner has come
    out alone; unless they are read together with what overtook them."""
    pipeline = make_pipeline(kind=JoinType.LEFT, windows=(2, 2), idle=(None, 10))
    held = [(bid(1, second), 12) for second in (20, 21)]
    records = stamped((item(1, 21), 0), (bid(0, 50), 0), (bid(0, 60), 11), *held)
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)
    located = locate(records)

    found = total(tasks.batch(located[at : at + size]) for at in range(0, len(located), size))

    reasons = [row["reason"] for row in found.get("violations", [])]
    assert reasons == ["idle"] * overtaken
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)


def test_an_overtaken_row_does_not_take_its_unique_key(tmp_path: Path) -> None:
    """It is not processed, so a later one that is new enough is no repetition."""
    pipeline = make_pipeline(windows=(2, 2), idle=(None, 10), declared=({}, {"unique": "item_id"}))
    back = [(bid(1, second), 12) for second in (20, 61)]
    records = stamped((bid(0, 50), 0), (bid(2, 60), 11), *back)
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, tmp_path)

    found = total(tasks.batch([each]) for each in locate(records))

    assert [(row["offset"], row["reason"]) for row in found["violations"]] == [(0, "idle")]
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)

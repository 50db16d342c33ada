"""The task of a bucket with three and four streams, from Kafka's bytes to tables, against `verify`.

A task joins them in one operator, after their lookups and before the groups of their key.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.engine.bucket import lookups
from endmark.operators.stream_join.presets import PRESETS, Preset
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables, pauses, total
from support.cases import cases
from support.kept_promises import broken_promises
from support.key_answers import NUMBERS, answers_of, questions, require_answers
from support.several_streams import (
    NAMES,
    TURNS,
    joined,
    partition_counts,
    row,
    several_histories,
    several_pipelines,
    stream,
)
from support.sizes import BUCKETS, MERGING
from support.verify_keys import COMPOSITE, KEY_KINDS, LONG, KeyKind
from support.verify_others import OTHERS
from support.verify_recompute import SELLERS, recomputed, require_within
from support.verify_steps import with_row_steps
from support.verify_world import Record, close, locate, promise

STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


def recompute(data: st.DataObject, pipeline: Pipeline, keys: KeyKind) -> None:
    """Run a random history of a pipeline in random batches; recompute the tables, and answers about keys."""
    partitions = data.draw(partition_counts(pipeline))
    records = data.draw(several_histories(keys, partitions, pipeline))
    for turn in data.draw(st.lists(st.sampled_from(TURNS), max_size=2)):
        place = data.draw(st.integers(0, len(records)))
        records.insert(place, Record(pipeline.control_topic, 0, turn.written()))
    size = data.draw(st.integers(1, 20))
    clock = count(0, STEP)
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.object(lookups, "_now", clock.__next__),
        data.draw(MERGING).limits(),
    ):
        tasks = BucketTasks(
            pipeline,
            SELLERS,
            partitions,
            Path(directory),
            full_batch=data.draw(st.sampled_from([None, 1, size])),
            others=OTHERS,
            buckets=data.draw(BUCKETS),
        )
        located = locate(records)
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        came: list[Tables] = [*map(tasks.batch, batches), *pauses(tasks)]
        records += questions(pipeline, keys)
        came.append(tasks.batch(locate(records)[-len(NUMBERS) :]))
        answers = answers_of(tasks)

    assert list(broken_promises(pipeline, came)) == []
    with recomputed(pipeline, records, total(came), partitions) as session:
        require_within(session, pipeline)
        if all(declared.event_time.idle is None for declared in pipeline.streams.values()):
            require_answers(session, pipeline, keys, answers)


@pytest.mark.parametrize("preset", Preset)
@cases(2, among=len(Preset))
@given(data=st.data(), keys=st.sampled_from([LONG, LONG, *KEY_KINDS.values()]))
def test_several_streams_equal_their_recomputation(
    preset: Preset, data: st.DataObject, keys: KeyKind
) -> None:
    """Whatever the lookups, the condition, the knobs and the batches, in which the buckets are not in step
    where rows are parked; and no result breaks a punctuation of an earlier batch."""
    recompute(data, data.draw(several_pipelines(preset, keys)), keys)


@pytest.mark.parametrize("preset", [preset for preset, able in PRESETS.items() if able.window])
@cases(2, among=3)
@given(data=st.data(), keys=st.sampled_from([LONG, COMPOSITE]))
def test_several_streams_go_on_without_idle_partitions(
    preset: Preset, data: st.DataObject, keys: KeyKind
) -> None:
    recompute(data, data.draw(several_pipelines(preset, keys, idle=True)), keys)


@pytest.mark.parametrize("lookup", NAMES[:3])
def test_several_streams_hold_back_patterns_of_parked_rows(tmp_path: Path, lookup: str) -> None:
    """A bucket that parks a row has not heard of what came with it, whichever stream is looked up.

    The pattern is announced when the results of the row are out."""
    park = {"delay": "1s", "attempts": 3, "then": "nulls"}
    streams = {name: stream(LONG, name, wider=True) for name in NAMES[:3]}
    pipeline = joined(LONG, streams, {"sellers": (lookup, {"miss": {"park": park}})}, {}, windows={})
    partitions = {f"all.{name}": 1 for name in streams}
    others = [name for name in streams if name != lookup]
    # No seller has the number 4.
    records = [row(name, 0, 1, LONG) for name in others] + [row(lookup, 0, 1, LONG, seller=4)]
    records += [promise(lookup, {"seller_id": {"equals": 4}}, 0), *(close(name, 0, 0) for name in others)]
    clock = count(0, STEP)
    with patch.object(lookups, "_now", clock.__next__):
        tasks = BucketTasks(pipeline, SELLERS, partitions, tmp_path, buckets=3)
        batches = [tasks.batch(locate(records)), *pauses(tasks)]

    results = [at for at, found in enumerate(batches) if found["results"]]
    pattern = {"punctuation": f'{{"{lookup}_seller_id": {{"equals": 4}}}}', "completed_by": "closed"}
    announced = [at for at, found in enumerate(batches) if pattern in found["announced"]]
    assert results == announced
    assert results[0] > 1
    with recomputed(pipeline, records, total(batches), partitions) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("size", [1, 2, 3, 99])
@pytest.mark.parametrize("memory", [None, 1])
def test_several_streams_are_one_row_of_a_finished_order(
    tmp_path: Path, memory: int | None, size: int
) -> None:
    """Orders with their payments and shipments, one group of each order that is paid for and sent."""
    streams = {name: stream(LONG, name) for name in NAMES[:3]}
    pipeline = joined(
        LONG,
        streams,
        {"sellers": ("orders", {})},
        {"memory": memory},
        windows={"payments": 9},
        measures={"rows": "count", "sellers": {"sorted": "sellers.name"}},
    )
    partitions = {f"all.{name}": 2 for name in streams}
    records = [row("orders", 0, 1, LONG), row("payments", 0, 2, LONG), close("orders", 0)]
    records += [row("payments", 0, 3, LONG), row("payments", 1, 3, LONG, 1), row("shipments", 0, 9, LONG)]
    records += [close("payments", 0), close("shipments", 0), close("orders", 1), close("orders", 2)]
    tasks = BucketTasks(pipeline, SELLERS, partitions, tmp_path, full_batch=1)
    located = locate(records)
    batches = [tasks.batch(located[at : at + size]) for at in range(0, len(located), size)]
    came = [*batches, *pauses(tasks)]

    assert list(broken_promises(pipeline, came)) == []
    found = total(came)
    assert found["groups"] == [{"item_id": 0, "rows": 2, "sellers": ["Ann", "Ann"]}]
    announced = {row["punctuation"] for row in found["announced"]}
    assert announced == {
        f'{{"{name}_item_id": {{"equals": {key}}}}}' for name in streams for key in (0, 1, 2)
    }
    with recomputed(pipeline, records, found, partitions) as session:
        require_within(session, pipeline)


def test_several_streams_hear_of_a_pattern_on_the_key(tmp_path: Path) -> None:
    """It is announced over the key of each stream that cannot say it itself."""
    streams = {name: stream(LONG, name) for name in NAMES}
    for name in ("payments", "returns"):
        streams[name]["punctuated_on"] = []
    pipeline = joined(LONG, streams, {}, {}, windows=dict.fromkeys(NAMES, 5))
    partitions = {f"all.{name}": 1 for name in streams}
    records = [promise("orders", {"item_id": {"between": {"to": 3}}}, 0)]

    found = BucketTasks(pipeline, SELLERS, partitions, tmp_path).batch(locate(records))

    assert {row["punctuation"] for row in found["announced"]} == {
        f'{{"{name}_item_id": {{"between": {{"to": 3}}}}}}' for name in ("orders", "payments", "returns")
    }
    with recomputed(pipeline, records, found, partitions) as session:
        require_within(session, pipeline)


@cases(2, among=3)
@given(data=st.data(), keys=st.sampled_from([LONG, COMPOSITE]), idle=st.booleans())
def test_several_streams_behind_row_steps(data: st.DataObject, keys: KeyKind, idle: bool) -> None:
    """Filtered rows keep their promises; derived columns take the way of all others."""
    pipeline = data.draw(several_pipelines(Preset.AUTO, keys, idle=idle))
    recompute(data, data.draw(with_row_steps(pipeline)), keys)

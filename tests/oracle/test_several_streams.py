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
from support.several_streams import TURNS, partition_counts, several_histories, several_pipelines
from support.sizes import BUCKETS, MERGING
from support.verify_keys import COMPOSITE, KEY_KINDS, LONG, KeyKind
from support.verify_others import OTHERS
from support.verify_recompute import SELLERS, recomputed, require_within
from support.verify_world import Record, locate

STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


def recompute(data: st.DataObject, pipeline: Pipeline, keys: KeyKind) -> None:
    """Run a random history of a pipeline in random batches, and recompute the tables."""
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

    assert list(broken_promises(pipeline, came)) == []
    with recomputed(pipeline, records, total(came), partitions) as session:
        require_within(session, pipeline)


@pytest.mark.parametrize("preset", Preset)
@cases(15, among=len(Preset))
@given(data=st.data(), keys=st.sampled_from([LONG, LONG, *KEY_KINDS.values()]))
def test_several_streams_equal_their_recomputation(
    preset: Preset, data: st.DataObject, keys: KeyKind
) -> None:
    """Whatever the lookups, the condition, the knobs and the batches, in which the buckets are not in step
    where rows are parked; and no result breaks a punctuation of an earlier batch."""
    recompute(data, data.draw(several_pipelines(preset, keys)), keys)


@pytest.mark.parametrize("preset", [preset for preset, able in PRESETS.items() if able.window])
@cases(15, among=3)
@given(data=st.data(), keys=st.sampled_from([LONG, COMPOSITE]))
def test_several_streams_go_on_without_idle_partitions(
    preset: Preset, data: st.DataObject, keys: KeyKind
) -> None:
    recompute(data, data.draw(several_pipelines(preset, keys, idle=True)), keys)

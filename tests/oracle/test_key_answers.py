"""The answers of buckets to questions about keys of two streams against `verify`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.types import JoinType
from support.bucket_tasks import BucketTasks
from support.cases import cases
from support.key_answers import NUMBERS, answers_of, questions, require_answers
from support.sizes import SIZES
from support.verify_histories import histories, pipelines
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, sellers_of
from support.verify_world import locate


@pytest.mark.parametrize("kind", JoinType)
@cases(4, among=len(JoinType))
@given(data=st.data(), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_answers_equal_the_recomputation(kind: JoinType, data: st.DataObject, keys: KeyKind) -> None:
    """Whatever the key, the join and the batches; and no question changes a table."""
    pipeline = data.draw(pipelines(kind, keys))
    sizes = data.draw(SIZES)
    records = data.draw(histories(keys, sizes.partitions, pipeline.streams))
    size = data.draw(st.integers(1, 20))
    with tempfile.TemporaryDirectory() as directory, sizes.merging.limits():
        tasks = BucketTasks(
            pipeline,
            sellers_of(pipeline),
            sizes.partitions,
            Path(directory),
            others=OTHERS,
            buckets=sizes.buckets,
        )
        located = locate(records)
        for at in range(0, len(located), size):
            tasks.batch(located[at : at + size])
        records += questions(pipeline, keys)
        tables = tasks.batch(locate(records)[-len(NUMBERS) :])
        answers = answers_of(tasks)

    assert not any(rows for channel, rows in tables.items() if channel != "running")
    with recomputed(pipeline, records, None, sizes.partitions) as session:
        if all(declared.event_time.idle is None for declared in pipeline.streams.values()):
            require_answers(session, pipeline, keys, answers)

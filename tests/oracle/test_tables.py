"""The engine, from Kafka's bytes to its tables, against the recomputation of `verify`.

The two share no code but the pipeline file, so they agree on what a pipeline means or this test fails.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, total
from support.cases import cases
from support.verify_histories import histories, pipelines
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_recompute import SELLERS, recomputed, require_equal
from support.verify_world import PARTITIONS, locate


@pytest.mark.parametrize("kind", JoinType)
@cases(40, among=100)
@given(data=st.data(), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_tables_equal_their_recomputation(kind: JoinType, data: st.DataObject, keys: KeyKind) -> None:
    """Whatever the key, the join, the condition and the batches."""
    pipeline = data.draw(pipelines(kind, keys))
    records = data.draw(histories(keys, pipeline.streams))
    size = data.draw(st.integers(1, 20))
    with tempfile.TemporaryDirectory() as directory:
        tasks = BucketTasks(
            pipeline,
            [(key, *seller) for key, seller in SELLERS.items()],
            PARTITIONS,
            Path(directory),
            full_batch=data.draw(st.sampled_from([None, 1, size])),
        )
        located = locate(records)
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        found = total(tasks.batch(batch) for batch in [*batches, []])  # the last one is a pause

    with recomputed(pipeline, records) as session:
        require_equal(session, pipeline, found)

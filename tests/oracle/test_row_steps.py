"""Row steps in the engine, against the recomputation of `verify`."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, total
from support.cases import cases
from support.kept_promises import broken_promises
from support.sizes import SIZES
from support.verify_histories import histories, pipelines
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_steps import with_row_steps
from support.verify_world import locate


@pytest.mark.parametrize("kind", [*JoinType, None])
@cases(20, among=25)
@given(data=st.data(), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_rows_behind_steps_equal_their_recomputation(
    kind: JoinType | None, data: st.DataObject, keys: KeyKind
) -> None:
    """Whatever the streams declare: filtered rows keep their promises, and failing rows are dead letters."""
    pipeline = data.draw(with_row_steps(data.draw(pipelines(kind, keys, several=True, gaps=True))))
    sizes = data.draw(SIZES)
    located = locate(records := data.draw(histories(keys, sizes.partitions, pipeline.streams)))
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
        batches = [located[at : at + size] for at in range(0, len(located), size)]
        came = [tasks.batch(batch) for batch in [*batches, []]]

    assert list(broken_promises(pipeline, came)) == []
    with recomputed(pipeline, records, total(came), sizes.partitions) as session:
        require_within(session, pipeline)

"""Random pipelines of any shape, of which all streams end: what `validate` says of their state then holds."""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from unittest.mock import patch

from hypothesis import event, given
from hypothesis import strategies as st

from endmark.engine.bucket import lookups
from support import graph_records as any_records
from support import graph_world as any_graphs
from support.bucket_tasks import BucketTasks, pauses
from support.cases import cases
from support.graph_ends import Ending
from support.graph_features import pairs
from support.graph_records import graph_records
from support.graph_runs import STEP
from support.graph_world import graphs
from support.sizes import BUCKETS, MERGING, PARTITIONS
from support.verify_others import OTHERS
from support.verify_recompute import sellers_of
from support.verify_world import EPOCH, locate


@cases(6)
@given(data=st.data())
def test_no_state_stays_that_a_bound_has_ended(data: st.DataObject) -> None:
    """No row, group, seen value or pending key is left once streams have closed keys, times or both."""
    often = data.draw(pairs())
    union, timed = (data.draw(st.integers(0, 3)) == 0 for _ in range(2))
    with patch.object(any_graphs, "FORMATS", [{"format": "xml"}]):  # changes of a database have no end
        pipeline = data.draw(graphs(union=union, timed=timed, often=often))
    partitions = {stream.topic: data.draw(PARTITIONS) for stream in pipeline.streams.values()}
    # No progress leaves a window at the end of all times.
    with patch.object(any_records, "LAST_EPOCH", EPOCH):
        records = data.draw(graph_records(pipeline, partitions, often))
    ending = data.draw(st.sampled_from([Ending(True, True), Ending(True, False), Ending(False, True)]))
    located = locate([*records, *ending.records(pipeline, partitions)])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(located)), max_size=6)))
    clock = count(0, STEP)
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.object(lookups, "_now", clock.__next__),
        data.draw(MERGING).limits(),
    ):
        sizes = {"buckets": data.draw(BUCKETS), "group_buckets": data.draw(BUCKETS)}
        sellers = sellers_of(pipeline)
        tasks = BucketTasks(pipeline, sellers, partitions, Path(directory), others=OTHERS, **sizes)
        for start, end in zip([0, *cuts], [*cuts, len(located)], strict=True):
            tasks.batch(located[start:end])
        list(pauses(tasks))
        left = list(ending.left_behind(pipeline, tasks.reports))
    event(f"closes: {ending.closes}, passes: {ending.passes}")
    assert not left, left

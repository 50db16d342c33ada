"""Random pipelines of any shape, from Kafka's bytes to tables, against the recomputation of `verify`.

A pipeline has one to five streams, row steps, lookups, a join and groups, as its file may say.
"""

from __future__ import annotations

import tempfile
from itertools import count
from pathlib import Path
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from endmark.engine import channels
from endmark.engine.bucket import lookups
from endmark.pipeline import Pipeline
from support.bucket_tasks import BucketTasks, Tables, pauses, total
from support.cases import cases
from support.graph_records import graph_records
from support.graph_world import graphs
from support.kept_promises import broken_promises
from support.sizes import BUCKETS, MERGING, PARTITIONS
from support.verify_others import OTHERS
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import locate

STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


@cases(15)
@given(data=st.data())
def test_graphs_equal_their_recomputation(data: st.DataObject) -> None:
    """Whatever the batches and the buckets of both stages, which are restored before each batch; and no result
    breaks a punctuation of an earlier batch."""
    pipeline = data.draw(graphs())
    partitions = {stream.topic: data.draw(PARTITIONS) for stream in pipeline.streams.values()}
    records = data.draw(graph_records(pipeline, partitions))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(records)), max_size=6)))
    merging = data.draw(MERGING)
    clock = count(0, STEP)
    with (
        tempfile.TemporaryDirectory() as directory,
        patch.object(lookups, "_now", clock.__next__),
        merging.limits(),
    ):
        tasks = BucketTasks(
            pipeline,
            sellers_of(pipeline),
            partitions,
            Path(directory),
            full_batch=data.draw(st.sampled_from([None, 1, 8])),
            others=OTHERS,
            buckets=data.draw(BUCKETS),
            group_buckets=data.draw(BUCKETS),
        )
        located = locate(records)
        batches = [
            located[start:end] for start, end in zip([0, *cuts], [*cuts, len(located)], strict=True)
        ]
        came = [*map(tasks.batch, batches), *pauses(tasks)]

    if pipeline.shows_results:
        assert list(broken_promises(pipeline, came)) == []
    with recomputed(pipeline, records, written(pipeline, came), partitions) as session:
        require_within(session, pipeline)


def written(pipeline: Pipeline, batches: list[Tables]) -> Tables:
    """The rows of all tables. In an upserted one, a newer row has replaced the older one of its group."""
    tables = total(batches)
    running = pipeline.laid_out.get("running")
    if running is not None and running.mode == "upsert":
        rows = {tuple(row[name] for name in pipeline.group_key): row for row in tables[channels.RUNNING]}
        tables[channels.RUNNING] = list(rows.values())
    return tables

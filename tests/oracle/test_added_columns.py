"""New columns of streams between two batches, against the recomputation of `verify` by the changed file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import assume, event, given
from hypothesis import strategies as st

from endmark.driver.checkpoint import settings
from endmark.driver.column_changes import column_changes
from endmark.pipeline import Pipeline
from support.cases import cases
from support.graph_records import graph_records
from support.graph_runs import require_same
from support.graph_world import OWN, graphs, require
from support.sizes import BUCKETS, MERGING, PARTITIONS

NOWHERE = Path("/nonexistent")  # a checkpoint without a batch


@st.composite
def with_more_columns(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """The pipeline whose streams have one or two more columns, anywhere among theirs."""
    document: dict[str, Any] = pipeline.model_dump(by_alias=True)
    members = {member for each in pipeline.flow.unions.values() for member in each}
    for name, stream in pipeline.streams.items():
        alike = members if name in members else {name}
        known = {column for each in alike for column in pipeline.streams[each].columns}
        free = [column for column in OWN if column not in known]
        new = free[:1] if name in members else draw(st.permutations(free))[:2]
        columns = [(column, str(kind)) for column, kind in stream.columns.items()]
        for column in new:
            columns.insert(draw(st.integers(0, len(columns))), (column, f"{OWN[column][0]}?"))
        document["streams"][name]["columns"] = dict(columns)
        if stream.format != "xml" and draw(st.booleans()):
            document["streams"][name]["extra"] = "ignore"
    return require(document)


def without_more_columns(changed: Pipeline, pipeline: Pipeline) -> Pipeline:
    """The changed pipeline with the columns that its streams had before, in their order."""
    document: dict[str, Any] = changed.model_dump(by_alias=True)
    for name, stream in pipeline.streams.items():
        document["streams"][name]["columns"] = {column: str(kind) for column, kind in stream.columns.items()}
    return require(document)


@cases(12, among=100)
@given(data=st.data(), union=st.sampled_from([False, False, True]))
def test_columns_are_added_between_two_batches(data: st.DataObject, union: bool) -> None:
    """Rows in state, rows that wait and parked ones have null there, though their records have a value."""
    pipeline = data.draw(graphs(union=union))
    changed = data.draw(with_more_columns(pipeline))
    pipeline = without_more_columns(changed, pipeline)
    changes = column_changes(settings(pipeline, 2), settings(changed, 2), NOWHERE, NOWHERE)
    assume(changes.taken and not changes.refusals)
    partitions = {stream.topic: data.draw(PARTITIONS) for stream in changed.streams.values()}
    records = data.draw(graph_records(changed, partitions))
    cuts = data.draw(st.sets(st.integers(1, len(records)), min_size=1, max_size=6))
    number = data.draw(st.integers(1, len(cuts)))
    sizes: dict[str, Any] = {"buckets": data.draw(BUCKETS), "group_buckets": data.draw(BUCKETS)}
    with data.draw(MERGING).limits():
        found = require_same(
            changed, records, cuts, partitions, before=(number, pipeline), full_batch=8, **sizes
        )
    event(f"results: {bool(found.get('results') or found.get('groups'))}")

"""New columns of streams between two batches, against the recomputation of `verify` by the changed file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st

from endmark.driver.column_changes import column_changes
from endmark.driver.settings import settings
from endmark.pipeline import Pipeline
from endmark.pipeline.formats import FORMATS
from endmark.types import JoinType
from support.cases import cases
from support.graph_records import graph_records
from support.graph_runs import require_same
from support.graph_values import OWN
from support.graph_world import graphs, require
from support.sizes import BUCKETS, MERGING, PARTITIONS, Merging
from support.verify_world import TWO_EACH, Record, bid, item, make_pipeline

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
            nested = ["value.in.{}"] if FORMATS[stream.format].members else []
            if part := draw(st.sampled_from([None, "header.{}", *nested])):
                document["streams"][name]["taken_from"][column] = part.format(column)
        document["streams"][name]["columns"] = dict(columns)
        if stream.format != "xml" and draw(st.booleans()):
            document["streams"][name]["extra"] = "ignore"
    return require(document)


def without_more_columns(changed: Pipeline, pipeline: Pipeline) -> Pipeline:
    """The changed pipeline with the columns that its streams had before, in their order."""
    document: dict[str, Any] = changed.model_dump(by_alias=True)
    for name, stream in pipeline.streams.items():
        document["streams"][name]["columns"] = {column: str(kind) for column, kind in stream.columns.items()}
        document["streams"][name]["taken_from"] = stream.model_dump()["taken_from"]
    return require(document)


@cases(6, among=100)
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


@pytest.mark.parametrize("waiting", ["parked", "waiting"])
def test_rows_that_wait_for_a_relation_get_a_column(waiting: str) -> None:
    """Their batch is held, with rows that have a match and rows that have none. They meet rows of later
    batches in state, whose columns then have the order of the changed file."""
    looking: dict[str, Any] = {"time_per_batch": "0ms"}
    if waiting == "parked":
        looking = {"miss": {"park": {"delay": "1s", "attempts": 9, "then": "dead_letter"}}}
    changed = make_pipeline(
        lookup="items",
        looking=looking,
        windows=(None, None),
        nullable=({"seller_id"}, ()),
        kind=JoinType.LEFT,
    )
    document: dict[str, Any] = changed.model_dump(by_alias=True)
    columns = {column: str(kind) for column, kind in changed.streams["items"].columns.items()}
    document["streams"]["items"] |= {"columns": {"note": "string?", **columns}, "extra": "ignore"}
    changed = Pipeline.model_validate(document)
    document["streams"]["items"]["columns"] = columns
    records = [bid(0, 0), *(noted(0, place, seller) for place, seller in enumerate([1, 4, None, 2]))]
    records += [noted(0, second, seller) for second in range(9, 15) for seller in (1, 4)]

    with Merging(3, 1 << 19).limits():
        found = require_same(
            changed,
            records,
            [1, *range(5, len(records), 2)],
            TWO_EACH,
            before=(2, Pipeline.model_validate(document)),
            full_batch=1,
            buckets=1,
        )

    notes = {row["items_kafka_offset"]: row["items_note"] for row in found["results"]}
    assert notes == {0: None, 3: None, **{4 + 2 * later: f"from {9 + later}" for later in range(6)}}


def test_rows_that_were_published_before_lack_a_column() -> None:
    """Readers must accept this, and `verify` reads the topic as they do."""
    document: dict[str, Any] = make_pipeline(windows=(None, None), aggregated=False).model_dump(by_alias=True)
    columns = document["streams"]["items"]["columns"]
    document["streams"]["items"]["extra"] = "ignore"
    document["publish"] = {"matched": {"topic": "joined"}, "items": {"topic": "listed"}}
    earlier = Pipeline.model_validate(document)
    document["streams"]["items"]["columns"] = {**columns, "note": "string?"}
    records = [noted(0, 0, 1), bid(0, 0), noted(0, 1, 1), bid(0, 1)]

    found = require_same(Pipeline.model_validate(document), records, [2], TWO_EACH, before=(1, earlier))

    assert sorted(str(row.get("items_note")) for row in found["results"]) == ["None"] * 2 + ["from 1"] * 2


def noted(key: int, seconds: float, seller: int | None) -> Record:
    """A row of an item, with a note and perhaps without a seller."""
    record = item(key, seconds, partition=0)
    row = json.loads(record.value or b"") | {"seller_id": seller, "note": f"from {seconds}"}
    return replace(record, value=json.dumps(row).encode())

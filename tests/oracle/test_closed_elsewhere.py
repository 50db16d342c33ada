"""Rows whose key another partition has closed: they are joined or set aside, and never vanish.

A producer that spreads keys over partitions breaks its stream's contract. `verify` takes the job's word for
which rows came behind a promise of another partition, and recomputes all else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from support import unions
from support.cases import cases
from support.graph_records import graph_records
from support.graph_runs import require_same
from support.graph_world import graphs
from support.sizes import BUCKETS, MERGING, PARTITIONS
from support.verify_world import TWO_EACH, Record, bid, close, item, make_pipeline

JOINED = [item(1, 0), bid(1, 1), close("items", 1), close("bids", 1)]


def elsewhere(record: Record) -> Record:
    return replace(record, partition=1 - record.partition)


@pytest.mark.parametrize("cuts", [{4}, {1, 4}, {2, 3, 4}])
def test_a_row_behind_a_promise_of_another_partition_is_set_aside(cuts: Collection[int]) -> None:
    records = [*JOINED, elsewhere(bid(1, 2))]

    found = require_same(make_pipeline(), records, cuts, TWO_EACH)

    [violation] = found["violations"]
    assert violation["reason"] == "closed"
    assert (violation["partition"], violation["offset"]) == (records[-1].partition, 0)
    assert violation["promise"] == '{"item_id": {"equals": 1}}'
    assert (violation["promise_partition"], violation["promise_offset"]) == (JOINED[-1].partition, 1)
    assert len(found["results"]) == 1


@pytest.mark.parametrize("cuts", [(), {3}, {1, 2, 3}])
def test_a_row_of_the_batch_of_that_promise_is_joined(cuts: Collection[int]) -> None:
    found = require_same(make_pipeline(), [*JOINED, elsewhere(bid(1, 2))], cuts, TWO_EACH)

    assert found["violations"] == []
    assert len(found["results"]) == 2


@pytest.mark.parametrize(
    ("declared", "reason", "offset"),
    [({"unique": ["item_id"]}, "repeated", 0), ({"clustered": ["item_id"]}, "unclustered", 1)],
)
def test_a_row_of_a_key_that_a_row_elsewhere_has_closed_is_set_aside(
    declared: Mapping[str, Any], reason: str, offset: int
) -> None:
    """The row of a unique key has closed it; a clustered key is closed by the row that ended its run."""
    rows = [replace(bid(number, number), partition=0) for number in (1, 2)]
    records = [item(1, 0), *rows, replace(bid(1, 3), partition=1)]

    found = require_same(make_pipeline(declared=({}, declared)), records, [3], TWO_EACH)

    [violation] = found["violations"]
    assert violation["reason"] == reason
    assert (violation["promise_partition"], violation["promise_offset"]) == (0, offset)


def test_the_promise_is_one_of_the_rows_own_stream_in_a_union() -> None:
    """The stores have named the key, too, in a partition with a lower number in the union."""
    records = [unions.closes("web", 1, 1), unions.closes("stores", 1), unions.order("web", 1)]

    found = require_same(unions.pipeline(), records, [2], unions.TOPICS)

    [violation] = found["violations"]
    assert (violation["topic"], violation["partition"]) == ("of.web", 0)
    assert (violation["promise_partition"], violation["promise_offset"]) == (1, 0)


@cases(5)
@given(data=st.data())
def test_tables_equal_their_recomputation_if_keys_are_in_any_partition(data: st.DataObject) -> None:
    pipeline = data.draw(graphs(union=data.draw(st.booleans())))
    partitions = {stream.topic: data.draw(PARTITIONS) for stream in pipeline.streams.values()}
    records = [
        replace(record, partition=data.draw(st.integers(0, partitions[record.topic] - 1)))
        if record.topic in partitions and data.draw(st.integers(0, 3)) == 0
        else record
        for record in data.draw(graph_records(pipeline, partitions))
    ]
    cuts = data.draw(st.sets(st.integers(0, len(records)), max_size=6))
    with data.draw(MERGING).limits():
        found = require_same(
            pipeline,
            records,
            cuts,
            partitions,
            buckets=data.draw(BUCKETS),
            group_buckets=data.draw(BUCKETS),
        )
    for row in found.get("violations", []):
        moved = row["promise_partition"] not in (None, row["partition"])
        event(f"{row['reason']} elsewhere: {moved}")
    event(f"violations: {bool(Counter(row['reason'] for row in found['violations']))}")

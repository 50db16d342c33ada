"""Measures of groups, from Kafka's bytes to the table, against the recomputation of `verify`: few keys with
many rows, in any order of time, and every group final."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, total
from support.cases import cases
from support.verify_histories import MATCHINGS, PRICES, matched
from support.verify_keys import COMPOSITE
from support.verify_measures import every_measure
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, bid, close, item, locate, make_pipeline

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["item", "bid", "bid"]),
        st.integers(0, 1),  # key
        st.integers(0, 3),  # seconds
        st.integers(1, 4),  # seller
        st.integers(0, PARTITIONS - 1),
    ),
    min_size=10,
    max_size=25,
)


@cases(15, among=40)
@given(data=st.data(), kind=st.sampled_from(JoinType), rows=ROWS)
def test_measures_equal_their_recomputation(
    data: st.DataObject, kind: JoinType, rows: list[tuple[str, int, int, int, int]]
) -> None:
    """All of them, of every column."""
    lookup = data.draw(st.sampled_from(["items", "bids"]))
    pipeline = make_pipeline(
        windows=(None, None),
        lateness=(9, 9),
        lookup=lookup,
        looking={"miss": "nulls", **matched(data.draw(st.sampled_from(MATCHINGS)), lookup)},
        keys=COMPOSITE,
        kind=kind,
        measures=every_measure(lookup, kind),
    )
    records = [
        item(key, at, seller, home, COMPOSITE)
        if stream == "item"
        else bid(key, at, seller, PRICES[seller % 3], home, COMPOSITE)
        for stream, key, at, seller, home in rows
    ]
    records += [close(stream, key, None, COMPOSITE) for stream in ("items", "bids") for key in (0, 1)]
    located, size = locate(records), data.draw(st.integers(1, 12))
    with tempfile.TemporaryDirectory() as directory:
        tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, Path(directory))
        found = total(tasks.batch(located[at : at + size]) for at in range(0, len(located), size))

    if kind is JoinType.FULL:
        assert len(found["groups"]) == len({key for _, key, *_ in rows})
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)

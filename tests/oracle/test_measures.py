"""Measures of groups, from Kafka's bytes to the table, against the recomputation of `verify`: few keys with
many rows, in any order of time, and every group final."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from endmark.types import JoinType
from support.bucket_tasks import BucketTasks
from support.bucket_tasks import total as total_of
from support.cases import cases
from support.sizes import MERGING, SIZES, Merging
from support.verify_histories import MATCHINGS, PRICES, matched
from support.verify_keys import COMPOSITE
from support.verify_measures import every_measure
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, bid, close, item, locate, make_pipeline

TIPS = ["0.07", "1234.56", "-9.99"]  # no double has as many hundredths
LONGS = [-(2**63), 2**63 - 1, -(2**63) - 1, 2**63]  # the ends of what a long can be, and beyond
ODD = [-(2**63), -(2**62) - 1025]  # DuckDB's own cast of their sum to a double is one off
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["item", "bid", "bid"]),
        st.integers(0, 1),  # key
        st.integers(0, 3),  # seconds
        st.integers(1, 4),  # seller
        st.integers(0, 3),  # partition, modulo their number
    ),
    min_size=10,
    max_size=25,
)


@cases(4, among=40)
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
    sizes = data.draw(SIZES)
    of_items, of_bids = sizes.partitions.values()
    records = [
        item(key, at, seller, home % of_items, COMPOSITE)
        if stream == "item"
        else bid(key, at, seller, PRICES[seller % 3], home % of_bids, COMPOSITE, TIPS[seller % 3])
        for stream, key, at, seller, home in rows
    ]
    records += [close(stream, key, 0, COMPOSITE) for stream in ("items", "bids") for key in (0, 1)]
    located, size = locate(records), data.draw(st.integers(1, 12))
    with tempfile.TemporaryDirectory() as directory, sizes.merging.limits():
        sellers, buckets = sellers_of(pipeline), sizes.buckets
        tasks = BucketTasks(pipeline, sellers, sizes.partitions, Path(directory), buckets=buckets)
        found = total_of(tasks.batch(located[at : at + size]) for at in range(0, len(located), size))

    if kind is JoinType.FULL:
        assert len(found["groups"]) == len({key for _, key, *_ in rows})
    with recomputed(pipeline, records, found, sizes.partitions) as session:
        require_within(session, pipeline)


@cases(5, among=40)
@given(
    total=st.sampled_from(LONGS),
    pieces=st.integers(2, 5),
    cents=st.lists(st.integers(-999_999, 999_999), min_size=1, max_size=5),
    size=st.integers(1, 12),
    merging=MERGING,
)
def test_sums_reach_the_ends_of_their_types(
    total: int, pieces: int, cents: list[int], size: int, merging: Merging
) -> None:
    """A sum of longs is null where no long is so large, and nowhere else; an average is the nearest double of
    the exact sum, divided."""
    measures = {f"{how}_{of}": {how: f"bids.{of}"} for how in ("sum", "avg") for of in ("seller_id", "tip")}
    pipeline = make_pipeline(windows=(None, None), looking={"miss": "nulls"}, measures=measures)
    parts = [total // pieces + (at < total % pieces) for at in range(pieces)]
    records = [item(0, 0), *(bid(0, 0, seller=part, tip="0.00") for part in parts)]
    records += [bid(0, 0, seller=0, tip=str(Decimal(each).scaleb(-2))) for each in cents]
    records += [item(2, 0), bid(2, 0, seller=LONGS[0]), bid(2, 0, seller=0)]
    records += [item(4, 0), *(bid(4, 0, seller=part) for part in ODD)]
    records += [close(stream, key) for stream in ("items", "bids") for key in (0, 2, 4)]
    located = locate(records)
    with tempfile.TemporaryDirectory() as directory, merging.limits():
        tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, Path(directory))
        found = total_of(tasks.batch(located[at : at + size]) for at in range(0, len(located), size))

    ours, alone, odd = sorted(found["groups"], key=lambda row: row["item_id"])
    tips, count = Decimal(sum(cents)).scaleb(-2), pieces + len(cents)
    assert ours["sum_seller_id"] == (total if total in range(LONGS[0], LONGS[1] + 1) else None)
    assert ours["avg_seller_id"] == float(total) / count
    assert ours["sum_tip"] == tips
    assert ours["avg_tip"] == float(tips) / count
    assert alone["sum_seller_id"] == LONGS[0]
    assert (odd["sum_seller_id"], odd["avg_seller_id"]) == (None, float(sum(ODD)) / 2)
    with recomputed(pipeline, records, found=found) as session:
        require_within(session, pipeline)

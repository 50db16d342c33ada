"""The engine, from Kafka's bytes to its tables, against the recomputation of `verify`.

The two share no code but the pipeline file, so they agree on what a pipeline means or this test fails.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, total
from support.cases import cases
from support.verify_keys import KEY_KINDS, KeyKind
from support.verify_recompute import COMPARED, SELLERS, recomputed, rows_of
from support.verify_world import PARTITIONS, Record, bid, close, item, locate, make_pipeline, promises, raw

CONDITIONS = [
    None,
    "bids_price >= 0.1 AND items_seller_id <> bids_seller_id",
    "SELLERS_rating > 0 OR bids_due = DATE '2026-01-12' -- a comment",
]
# What the tables keep that both sides can know, by channel.
COLUMNS = {
    "results": slice(None),
    "groups": slice(None),
    "dead_letters": slice(0, 3),
    "violations": slice(0, 5),
}


@st.composite
def pipelines(draw: st.DrawFn, kind: JoinType, keys: KeyKind) -> Pipeline:
    bound = st.one_of(st.integers(0, 5), st.none())
    return make_pipeline(
        windows=(draw(bound), draw(bound)),
        lateness=(draw(st.integers(0, 3)), draw(st.integers(0, 3))),
        lookup=draw(st.sampled_from(["items", "bids"])),
        punctuated=draw(st.sampled_from([(True, True), (True, False), (False, True)])),
        keys=keys,
        kind=kind,
        where=draw(st.sampled_from(CONDITIONS)),
    )


@st.composite
def histories(draw: st.DrawFn, keys: KeyKind) -> list[Record]:
    """Records of five keys, in partitions by key; time moves on, else nearly every row would be late."""
    pace = draw(st.sampled_from([0.25, 0.5, 1]))
    records = []
    for place in range(draw(st.integers(0, 40))):
        key, seller = draw(st.integers(0, 4)), draw(st.sampled_from([1, 1, 2, 3, 4]))
        now = place * pace + draw(st.integers(-2, 2))
        kind = draw(
            st.sampled_from(["item"] * 4 + ["bid"] * 6 + ["items", "bids"] * 2 + ["items!", "bids!", "bad"])
        )
        if kind == "item":
            records.append(item(key, now, seller, keys=keys))
        elif kind == "bid":
            records.append(bid(key, now, seller, [0.1, 2.0, -3.5][seller % 3], keys=keys))
        elif kind == "bad":
            records.append(raw("bids", b"{"))
        elif kind.endswith("!"):
            records += draw(promises(kind[:-1], keys))
        else:
            records.append(close(kind, key, keys=keys))
    return records


@pytest.mark.parametrize("kind", JoinType)
@cases(40, among=100)
@given(data=st.data(), keys=st.sampled_from(list(KEY_KINDS.values())))
def test_tables_equal_their_recomputation(kind: JoinType, data: st.DataObject, keys: KeyKind) -> None:
    """Whatever the key, the join, the condition and the batches."""
    pipeline, records = data.draw(pipelines(kind, keys)), data.draw(histories(keys))
    size = data.draw(st.integers(1, 20))
    with tempfile.TemporaryDirectory() as directory:
        tasks = BucketTasks(
            pipeline, [(key, *seller) for key, seller in SELLERS.items()], PARTITIONS, Path(directory)
        )
        located = locate(records)
        found = total(tasks.batch(located[at : at + size]) for at in range(0, len(located), size))

    with recomputed(pipeline, records) as session:
        for table in COMPARED:
            actual = Counter(tuple(row.values())[COLUMNS[table]] for row in found.get(table, []))
            expected = Counter(row[COLUMNS[table]] for row in rows_of(session, table).elements())
            assert actual == expected, table

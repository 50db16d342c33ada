"""Tables that have the newest row of each key of a change stream, against the recomputation of `verify`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.engine.bucket import lookups
from endmark.pipeline import Pipeline
from endmark.verify.compare.tables import check_conservation
from endmark.verify.formats.patterns import MARK
from support.bucket_tasks import BucketTasks, Tables, pauses, upserted
from support.cases import cases
from support.change_stream import (
    LATEST,
    PARTITIONS,
    TOPIC,
    change,
    changes,
    customer,
    in_avro,
    promises,
    replica,
    replica_pipeline,
)
from support.sizes import BUCKETS, MERGING
from support.verify_histories import stamp
from support.verify_recompute import SELLERS, recomputed, require_within
from support.verify_world import Record, bid, close, item, locate, make_pipeline

STEP = 200_000  # microseconds, of the clock that tells when parked rows are due


def found_in(
    pipeline: Pipeline,
    records: list[Record],
    cuts: Iterable[int],
    partitions: Mapping[str, int] | None = None,
    **sizes: Any,
) -> Tables:
    """The rows of all tables after batches that end behind some records. They equal their recomputation."""
    partitions = partitions or {TOPIC: PARTITIONS}
    located, places, clock = locate(records), sorted(cuts), count(0, STEP)
    batches = [located[start:end] for start, end in zip([0, *places], [*places, len(located)], strict=True)]
    with tempfile.TemporaryDirectory() as directory, patch.object(lookups, "_now", clock.__next__):
        tasks = BucketTasks(pipeline, SELLERS, partitions, Path(directory), **sizes)
        came = [*map(tasks.batch, batches), *pauses(tasks)]
    found = upserted(pipeline, came)
    with recomputed(pipeline, records, found, partitions) as session:
        require_within(session, pipeline)
    return found


@cases(8, among=40)
@given(data=st.data())
def test_each_key_has_its_newest_row_unless_it_is_deleted(data: st.DataObject) -> None:
    """Whatever the batches and buckets, and with rows that wait for a relation or are late.

    In Avro, there are also punctuations that come as their own records, which delete nothing.
    """
    avro = data.draw(st.booleans())
    pipeline = replica_pipeline(
        lateness=data.draw(st.sampled_from([3600, 1])),
        looked_up=data.draw(st.booleans()),
        derived=data.draw(st.booleans()),
        closing=data.draw(st.booleans()),
        avro=avro,
    )
    records = data.draw(changes())
    if avro:
        for promise in data.draw(st.lists(promises(), max_size=4)):
            records.insert(data.draw(st.integers(0, len(records))), promise)
        records = [in_avro(record) for record in records]
    cuts = data.draw(st.sets(st.integers(0, len(records)), max_size=6))
    with data.draw(MERGING).limits():
        found_in(
            pipeline,
            records,
            cuts,
            buckets=data.draw(BUCKETS),
            full_batch=data.draw(st.sampled_from([None, 1, 4])),
        )


@pytest.mark.parametrize("pattern", [{"equals": 0}, {"one_of": [0]}])
@pytest.mark.parametrize("cuts", [[], [1], [1, 2]])
def test_a_punctuation_that_is_a_record_deletes_no_row(cuts: list[int], pattern: dict[str, Any]) -> None:
    """It closes the key, so a later row is a violation, and the row before it stays the newest."""
    promise = Record(TOPIC, 0, json.dumps({MARK: {"customer_id": pattern}}).encode(), stamp(1))
    records = [change("c", 0, 1, name="kept"), promise, change("u", 0, 2, name="late")]
    found = found_in(replica_pipeline(closing=True, avro=True), list(map(in_avro, records)), cuts)

    assert [row["changes_name"] for row in found[LATEST]] == ["kept"]


@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 4, 5, 6, 7, 8], [4]])
def test_the_newest_row_by_offset(cuts: list[int]) -> None:
    """Its event time may be older. A deleted key that is closed has no row, even if it comes again."""
    records = [
        change("r", 0, 5, name="old"),
        change("c", 1, 5),
        change("u", 0, 9, name="newer"),
        change("u", 0, 7, name="newest"),
        change("d", 1, 9),
        change("c", 1, 10),
        change("c", 2, 10, name=None),
        Record(TOPIC, 1, None),
        change("d", 4, 10),
    ]
    found = found_in(replica_pipeline(closing=True), records, cuts)

    assert {row["changes_customer_id"]: row["changes_name"] for row in found[LATEST]} == {
        0: "newest",
        2: None,
    }
    assert [json.loads(row["record"])["customer_id"] for row in found["violations"]] == [1]


@pytest.mark.parametrize("cuts", [[], [1, 2, 3, 4, 5, 6, 7, 8], [5], [2]])
@pytest.mark.parametrize("waiting", [False, True])
def test_a_deleted_key_comes_again(cuts: list[int], waiting: bool) -> None:
    """In the same batch or a later one, and also if its rows wait for a relation. The last change counts."""
    records = [
        change("c", 0, 1, name="old"),
        change("c", 1, 1, name="gone"),
        change("d", 0, 2),
        change("d", 1, 2),
        Record(TOPIC, 0, None),
        change("c", 0, 0, name="again"),
        change("c", 1, 3, name="again"),
        change("c", 2, 3),
        change("d", 1, 4),
    ]
    found = found_in(replica_pipeline(looked_up=waiting), records, cuts, full_batch=1)

    rows = found["latest:known" if waiting else LATEST]
    assert {row["changes_customer_id"]: row["changes_name"] for row in rows} == {0: "again", 2: "Ann"}
    assert not found["violations"]
    assert not found["announced"]


def test_a_late_row_brings_no_deleted_key_back() -> None:
    """It is a violation, so the deletion is still the last change."""
    records = [change("c", 0, 100), change("d", 0, 100), change("c", 0, 50), change("c", 2, 100)]

    found = found_in(replica_pipeline(lateness=1), records, [2])

    assert [row["changes_customer_id"] for row in found[LATEST]] == [2]
    assert [row["reason"] for row in found["violations"]] == ["late"]


def test_a_key_that_rows_close_is_not_deleted() -> None:
    """A row may say that it is the last one of its key, and stays in the table; a deletion removes it."""
    document = replica()
    document["streams"]["changes"]["closes"] = {"on": "customer_id", "when": "name = 'last'"}
    records = [
        change("c", 0, 1),
        change("u", 0, 2, name="last"),
        change("c", 0, 3),
        change("c", 2, 3, name="last"),
        change("d", 2, 4),
    ]

    found = found_in(Pipeline.model_validate(document), records, [2])

    assert {row["changes_customer_id"]: row["changes_name"] for row in found[LATEST]} == {0: "last"}
    assert [row["reason"] for row in found["violations"]] == ["closed"]


def test_a_closed_key_of_another_format_keeps_its_row() -> None:
    """It is no deletion: no more changes come."""
    document = make_pipeline(windows=(None, None)).model_dump(by_alias=True)
    document["tables"]["now"] = {"from": "items", "mode": "upsert", "key": "item_id"}
    records = [item(0, 1, seller=1), item(0, 2, seller=2), close("items", 0), bid(0, 3), item(1, 3)]

    found = found_in(Pipeline.model_validate(document), records, [2], {"all.items": 2, "all.bids": 2})

    assert {row["items_item_id"]: row["items_seller_id"] for row in found["latest:items"]} == {0: 2, 1: 1}


def test_all_changes_in_a_table_of_their_own() -> None:
    """The history has a row for each insertion and update. A deletion is a punctuation, and no row."""
    document = replica(closing=True)
    document["tables"]["history"] = {"from": "changes"}
    records = [change("c", 0, 1), change("u", 0, 2), change("d", 0, 3), change("c", 2, 4)]

    found = found_in(Pipeline.model_validate(document), records, [1, 3])

    assert [row["changes_customer_id"] for row in found[LATEST]] == [2]
    assert sorted(row["changes_kafka_offset"] for row in found["results"]) == [0, 1, 3]
    assert found["announced"] == [
        {"punctuation": '{"changes_customer_id": {"equals": 0}}', "completed_by": "closed"}
    ]


def test_a_key_in_two_partitions_is_a_breach() -> None:
    """`verify` says so, since neither row is the newer one."""
    pipeline = replica_pipeline()
    one = change("c", 0, 1)
    records = [one, Record(TOPIC, 1, one.value, one.timestamp)]

    with recomputed(pipeline, records, None, {TOPIC: PARTITIONS}) as session:
        breaches = {each.rule: each.examples for each in check_conservation(session, pipeline)}

    assert breaches["table now: a key with rows in several partitions"] == [
        {"changes_customer_id": customer(0, 1)["customer_id"], "partitions": 2}
    ]

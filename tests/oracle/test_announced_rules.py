"""The rules of `docs/semantics` on what a punctuation names, and on what is announced of it.

Each case is small enough to be read. The engine runs it, from Kafka's bytes to its tables, and `verify`
recomputes it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.bucket_tasks import BucketTasks, Tables, total
from support.verify_recompute import recomputed, require_within, sellers_of
from support.verify_world import PARTITIONS, Record, bid, close, item, locate, make_pipeline, promise

FOR_EVER = (None, None)


def run(pipeline: Pipeline, directory: Path, *batches: list[Record], full_batch: int | None = None) -> Tables:
    """The engine's tables after these batches, which equal those of `verify`."""
    directory.mkdir(exist_ok=True)
    tasks = BucketTasks(pipeline, sellers_of(pipeline), PARTITIONS, directory, full_batch)
    located = locate([record for batch in batches for record in batch])
    found = []
    for batch in batches:
        found.append(tasks.batch(located[: len(batch)]))
        located = located[len(batch) :]
    tables = total(found)
    with recomputed(pipeline, [record for batch in batches for record in batch], found=tables) as session:
        require_within(session, pipeline)
    return tables


def announced(tables: Tables) -> list[Any]:
    return [json.loads(row["punctuation"]) for row in tables["announced"]]


def everywhere(stream: str, patterns: dict[str, Any]) -> list[Record]:
    """A promise of every partition of a stream."""
    return [promise(stream, patterns, partition) for partition in range(PARTITIONS)]


@pytest.mark.parametrize("column", ["seller_id", "listed_at", "item_id"])
def test_the_end_of_a_stream_is_announced_by_its_key(tmp_path: Path, column: str) -> None:
    """A promise of anything ends its stream, whatever column it is written with, and whether or not the
    stream declares punctuations on its key."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"punctuated_on": ["seller_id"]}, {})
    pipeline = make_pipeline(punctuated=(True, False), declared=declared, aggregated=False)
    end = everywhere("items", {column: {"anything": True}})

    found = run(pipeline, tmp_path, [item(1, 0), bid(1, 0), *end, item(3, 0)], [bid(1, 9), bid(2, 9)])

    assert [row["reason"] for row in found["violations"]] == ["closed"]
    assert {"items_item_id": {"between": {}}} in announced(found)
    assert {"bids_item_id": {"between": {}}} in announced(found)  # which says nothing of its key itself


@pytest.mark.parametrize(("cut", "rows"), [(0, 1), (2, 2)])
def test_patterns_of_one_text_are_one_row_of_a_batch(tmp_path: Path, cut: int, rows: int) -> None:
    """The end of the bids is said of the items' key, too, which the items do not punctuate; so is their own.
    Both are one row if one batch brings them, and two if two batches do."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({"punctuated_on": ["seller_id"]}, {})
    pipeline = make_pipeline(windows=FOR_EVER, declared=declared, aggregated=False)
    ends = [
        *everywhere("bids", {"item_id": {"anything": True}}),
        *everywhere("items", {"seller_id": {"anything": True}}),
    ]

    found = run(pipeline, tmp_path, *filter(None, [ends[:cut], ends[cut:]]))

    assert announced(found).count({"items_item_id": {"between": {}}}) == rows
    assert announced(found).count({"bids_item_id": {"between": {}}}) == 1


def test_one_batch_announces_closed_and_expired_keys(tmp_path: Path) -> None:
    """The items close keys 4 to 7, which are held as long as the window of their rows. The batch in which the
    bids' progress passes that window closes keys 0 to 3 in both streams."""
    pipeline = make_pipeline(aggregated=False)
    rows = [each for key in range(8) for each in (item(key, 0), bid(key, 1))]
    held = [close("items", key) for key in range(4, 8)]
    closed = [close(stream, key) for key in range(4) for stream in ("items", "bids")]
    progress = [bid(8, 100), bid(9, 100)]

    found = run(pipeline, tmp_path, [*rows, *held], [*closed, *progress])

    assert {row["completed_by"] for row in found["announced"]} == {"closed", "expired"}
    for name in ("items_item_id", "bids_item_id"):
        assert [key for key in range(8) if {name: {"equals": key}} not in announced(found)] == []


def test_what_a_full_batch_completes_is_announced_by_it(tmp_path: Path) -> None:
    """A key that the batch names itself frees its rows for patterns of the same batch, even where purging is
    put off: nothing would bring on another batch."""
    pipeline = make_pipeline(windows=FOR_EVER, join={"purge_every": 5})
    upto = everywhere("items", {"item_id": {"between": {"to": 2}}})

    found = run(pipeline, tmp_path, [item(1, 0)], [bid(1, 0), *upto, close("bids", 1)], full_batch=1)

    assert {"items_item_id": {"between": {"to": 2}}} in announced(found)


def test_partitions_that_promise_different_patterns_announce_none(tmp_path: Path) -> None:
    """A pattern is announced if some partition says something new by it. What both partitions have promised
    by patterns of their own, and then say again, is not; where one of them says more, it is."""
    apart = [
        promise("items", {"item_id": {"between": {"from": low, "to": high}}}, partition)
        for partition, (low, high) in enumerate([(0, 10), (5, 20)])
    ]
    again = everywhere("items", {"item_id": {"between": {"from": 5, "to": 10}}})
    wider = everywhere("items", {"item_id": {"between": {"from": 5, "to": 11}}})

    found = run(make_pipeline(windows=FOR_EVER), tmp_path, [*apart, *again], wider)

    assert announced(found) == [{"items_item_id": {"between": {"from": 5, "to": 11}}}]


SPELLINGS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("seller_id", {"one_of": [4]}, {"equals": 4}),
    ("seller_id", {"between": {"from": 4, "to": 4}}, {"equals": 4}),
    ("seller_id", {"between": {"from": 3, "from_open": True, "to": 5, "to_open": True}}, {"equals": 4}),
    ("seller_id", {"one_of": [6, 4, 5, 5]}, {"between": {"from": 4, "to": 6}}),
    ("seller_id", {"one_of": [6, 4]}, {"one_of": [4, 6]}),
    ("seller_id", {"between": {"to": 2**63 - 1}}, {"between": {}}),
    ("urgent", {"one_of": [True, False]}, {"between": {}}),
    ("price", {"equals": 7}, {"equals": 7.0}),
    ("price", {"between": {"from": 1, "to": 1}}, {"equals": 1.0}),
    ("note", {"between": {"from": ""}}, {"between": {}}),
    ("note", {"one_of": ["b", "a"]}, {"one_of": ["a", "b"]}),
    (
        "due",
        {"one_of": ["2026-02-01", "2026-01-31"]},
        {"between": {"from": "2026-01-31", "to": "2026-02-01"}},
    ),
    ("tip", {"between": {"from": "1.50", "to": "2.00"}}, {"between": {"from": "1.5", "to": "2"}}),
    ("bid_at", {"equals": "2026-01-01T00:00:00Z"}, {"equals": "2026-01-01T00:00:00.000000Z"}),
]


@pytest.mark.parametrize(("column", "written", "normal"), SPELLINGS)
def test_a_pattern_is_announced_in_its_one_normal_form(
    tmp_path: Path, column: str, written: dict[str, Any], normal: dict[str, Any]
) -> None:
    """Partitions that promise the same values have promised the same pattern, however each has written it."""
    declared: tuple[dict[str, Any], dict[str, Any]] = ({}, {"punctuated_on": [column]})
    pipeline = make_pipeline(punctuated=(True, False), declared=declared)
    records = [promise("bids", {column: written}, 0), promise("bids", {column: normal}, 1)]

    found = run(pipeline, tmp_path, records)

    assert announced(found) == [{f"bids_{column}": normal}]


def test_a_range_names_no_key_even_if_it_holds_one_value(tmp_path: Path) -> None:
    """So all partitions must promise it, where one that promises the value by name closes the key."""
    pipeline = make_pipeline(windows=FOR_EVER)
    rows = [item(1, 0), bid(1, 0), item(3, 0), bid(3, 0), close("items", 1), close("items", 3)]
    one = {"item_id": {"between": {"from": 1, "to": 1}}}

    found = run(
        pipeline,
        tmp_path,
        [*rows, promise("bids", one, 1), promise("bids", {"item_id": {"one_of": [3]}}, 1)],
        [bid(1, 0, partition=0), promise("bids", one, 0)],
    )

    assert {group["item_id"]: group["bids"] for group in found["groups"]} == {1: 2, 3: 1}
    assert {"bids_item_id": {"equals": 1}} in announced(found)


@pytest.mark.parametrize("wider", [(), ("seller_id",)])
def test_anything_beside_a_key_says_nothing(tmp_path: Path, wider: tuple[str, ...]) -> None:
    """The punctuation names the key as it would without, whether or not the column is one of
    `punctuated_on`."""
    pipeline = make_pipeline(windows=FOR_EVER, wider=wider)
    named = {"item_id": {"equals": 1}, "seller_id": {"anything": True}}

    found = run(
        pipeline,
        tmp_path,
        [item(1, 0), bid(1, 0), promise("items", named, 1), promise("bids", named, 1), bid(1, 0)],
    )

    assert announced(found) == [{"items_item_id": {"equals": 1}}, {"bids_item_id": {"equals": 1}}]
    assert [row["promise"] for row in found["violations"]] == ['{"item_id": {"equals": 1}}']
    assert len(found["groups"]) == 1


def test_a_stream_without_punctuations_is_not_ended_by_one(tmp_path: Path) -> None:
    """A promise of anything restricts no column; without `punctuated_on` it is a dead letter all the same."""
    pipeline = make_pipeline(windows=FOR_EVER, punctuated=(True, False))
    end = everywhere("bids", {"seller_id": {"anything": True}})

    found = run(pipeline, tmp_path, [item(1, 0), *end, bid(1, 0)])

    assert [row["reason"] for row in found["dead_letters"]] == ["bad_punctuation"] * PARTITIONS
    assert len(found["results"]) == 1
    assert announced(found) == []


def test_a_row_that_a_semi_join_has_put_out_holds_back_no_pattern(tmp_path: Path) -> None:
    """It cannot come out again. Rows without a partner hold back those that match them, on both sides: a
    right row may still bring a left one out."""
    pipeline = make_pipeline(
        windows=FOR_EVER, kind=JoinType.SEMI, aggregated=False, punctuated=(False, True), wider=("seller_id",)
    )
    sellers = [everywhere("items", {"seller_id": {"equals": seller}}) for seller in (1, 2)]
    keys = [everywhere("bids", {"item_id": {"between": {"to": to}}}) for to in (2, 6)]
    rows = [item(1, 0, seller=1), item(4, 0, seller=2), bid(1, 0), bid(6, 0)]

    first = run(pipeline, tmp_path / "first", rows, sellers[0] + sellers[1], keys[0])
    both = run(pipeline, tmp_path / "both", rows, sellers[0] + sellers[1], keys[0] + keys[1])

    # Item 1 has been put out. Item 4 has not, and bids up to 6 close it.
    assert announced(first) == [{"items_seller_id": {"equals": 1}}]
    assert announced(both) == [{"items_seller_id": {"equals": 1}}, {"items_seller_id": {"equals": 2}}]

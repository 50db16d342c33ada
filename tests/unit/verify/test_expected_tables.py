"""The recomputation follows the definitions at every bound."""

from __future__ import annotations

from typing import Any

import pytest

from endmark.pipeline import Pipeline
from support.verify_keys import COMPOSITE, KEY_KINDS, KeyKind
from support.verify_places import to_kafka
from support.verify_recompute import (
    groups,
    recomputed,
    rows_of,
)
from support.verify_world import PARTITIONS, Record, bid, close, item, make_pipeline, promise, raw


def violations(pipeline: Pipeline, records: list[Record]) -> list[tuple[str, int, int, str]]:
    with recomputed(pipeline, records) as session:
        return sorted(row[:4] for row in rows_of(session, "violations"))


def joined(pipeline: Pipeline, records: list[Record]) -> int:
    with recomputed(pipeline, records) as session:
        return session.count("expected_results")


@pytest.mark.parametrize(
    ("listed", "bid_at", "pairs"), [(10, 13, 1), (10, 13.000001, 0), (12, 10, 1), (12.000001, 10, 0)]
)
def test_both_window_bounds_belong_to_the_window(listed: float, bid_at: float, pairs: int) -> None:
    """A pair exactly `window.left` or `window.right` apart joins, a microsecond more does not."""
    assert joined(make_pipeline(windows=(3, 2)), [item(1, listed), bid(1, bid_at)]) == pairs


def test_a_window_without_end_joins_for_ever() -> None:
    """A row without a window meets every later row of its key, however far away; the other way is bounded."""
    far = 10_000_000
    assert (
        joined(make_pipeline(windows=(None, 0)), [item(1, 0), bid(1, far), bid(3, far), item(3, far + 1)])
        == 1
    )
    assert (
        joined(make_pipeline(windows=(0, None)), [item(1, 0), bid(1, far), bid(3, far), item(3, far + 1)])
        == 1
    )


def test_a_row_may_be_exactly_lateness_behind() -> None:
    """A row `lateness` behind the newest before it is processed, a microsecond more is late."""
    records = [bid(1, 10), bid(1, 7), bid(1, 6.999999), bid(0, 0)]
    assert violations(make_pipeline(lateness=(0, 3)), records) == [("all.bids", 1, 2, "late")]


def test_a_violation_too_moves_its_partition_in_time() -> None:
    """The newest event time counts closed rows as well, so the row after one can be late."""
    records = [close("bids", 1), bid(1, 10), bid(3, 9)]
    assert violations(make_pipeline(), records) == [("all.bids", 1, 1, "closed"), ("all.bids", 1, 2, "late")]


def test_a_promise_speaks_for_its_own_partition_from_then_on() -> None:
    """Rows before a punctuation and rows of other partitions are processed; closed comes before late."""
    elsewhere = [bid(0, 5), bid(0, 5), bid(1, 5, partition=0)]
    records = [bid(1, 5), close("bids", 1), bid(1, 0), *elsewhere, close("bids", 1), bid(1, 6)]
    assert violations(make_pipeline(), records) == [
        ("all.bids", 1, 2, "late"),
        ("all.bids", 1, 4, "closed"),
    ]


def test_rows_without_a_match_are_processed_but_never_join() -> None:
    """A lookup miss is no violation, joins nothing and keeps no group open."""
    pipeline = make_pipeline(windows=(None, None))
    records = [item(1, 0), bid(1, 0), bid(1, 0, seller=9), close("bids", 1), bid(0, 0), item(0, 0)]
    assert violations(pipeline, records) == []
    assert joined(pipeline, records) == 2
    assert groups(pipeline, records) == {}
    assert groups(pipeline, [*records, close("items", 1)]) == {1: 1}


def test_a_group_is_final_when_both_streams_closed_it() -> None:
    """One promise alone leaves a group open while the window is; the second closes it."""
    pipeline = make_pipeline(windows=(None, None))
    records = [item(1, 0), bid(1, 0), bid(1, 1), close("bids", 1)]
    assert groups(pipeline, records) == {}
    assert groups(pipeline, [*records, close("items", 1)]) == {1: 2}


def test_a_group_is_final_when_the_window_has_passed_and_not_at_its_bound() -> None:
    """Progress exactly at the end of the window leaves the group open: a row there may still come."""
    pipeline = make_pipeline(windows=(3, 0), lateness=(0, 2))
    records = [item(1, 10), bid(1, 10), close("items", 1), bid(0, 20)]
    assert groups(pipeline, [*records, bid(1, 15)]) == {}
    assert groups(pipeline, [*records, bid(1, 15.000001)]) == {1: 1}


def test_a_silent_partition_holds_progress_back() -> None:
    """A partition without rows, even one with dead letters or punctuations, keeps windows open."""
    pipeline = make_pipeline(windows=(3, 0))
    records = [item(1, 10), bid(1, 10), close("items", 1), bid(1, 99), raw("bids", b"?"), close("bids", 0)]
    assert groups(pipeline, records) == {}
    assert groups(pipeline, [*records, bid(2, 20)]) == {1: 1}


def test_nothing_comes_of_nothing() -> None:
    """Empty topics give empty tables."""
    with recomputed(make_pipeline(), []) as session:
        assert not any(session.count(f"expected_{role}") for role in make_pipeline().outputs.directories)


def test_partitions_are_those_of_the_ranges() -> None:
    """The worlds here have as many partitions as the oracle believes."""
    found: list[Any] = to_kafka([])[0]
    assert len(found) == 2 * PARTITIONS


def test_a_pattern_closes_once_every_partition_has_promised_it() -> None:
    """In its own partition it rules rows out at once; keys of the others are closed by nobody yet."""
    pipeline = make_pipeline(windows=(None, None))
    upto = {"item_id": {"between": {"to": 2}}}
    both = [promise(stream, upto, 0) for stream in ("items", "bids")]
    records = [
        item(1, 0),
        bid(1, 0),
        item(2, 0),
        bid(2, 0),
        item(3, 0),
        bid(3, 0),
        *both,
        bid(2, 0),
        bid(1, 0),
    ]

    assert violations(pipeline, records) == [("all.bids", 0, 2, "closed")]
    assert groups(pipeline, records) == {}
    assert groups(pipeline, [*records, *(promise(stream, upto, 1) for stream in ("items", "bids"))]) == {
        1: 2,
        2: 1,
    }


def test_a_punctuation_that_names_several_keys_closes_each() -> None:
    """Without those of other partitions; it is one punctuation all the same."""
    pipeline = make_pipeline(windows=(None, None))
    both = [promise(stream, {"item_id": {"one_of": [1, 3]}}, 1) for stream in ("items", "bids")]

    assert groups(pipeline, [item(1, 0), bid(1, 0), item(2, 0), bid(2, 0), *both]) == {1: 1}


def test_a_closed_row_names_what_it_broke() -> None:
    """The pattern of its partition before it, as of the one that last widened its interval; else the first
    promise that names its key. Of a composite key it is the newest pattern."""
    day, lots = KEY_KINDS["date"], COMPOSITE
    records = [
        close("bids", 1, partition=0, keys=day),
        close("bids", 1, partition=0, keys=day),
        bid(1, 0, partition=0, keys=day),
        promise("bids", {"item_id": {"between": {"to": "2026-01-03"}}}, 0),
        promise("bids", {"item_id": {"between": {"from": "2026-01-06"}}}, 0),
        promise("bids", {"item_id": {"between": {"from": "2026-01-03", "to": "2026-01-04"}}}, 0),
        promise("bids", {"item_id": {"between": {"from": "2026-01-02", "to": "2026-01-03"}}}, 0),
        bid(1, 0, partition=0, keys=day),
        promise("bids", {"item_id": {"anything": True}}, 0),
        bid(4, 0, partition=0, keys=day),
    ]
    both = [
        promise("bids", {"lot": {"one_of": ["b", "d"]}}, 0),
        promise("bids", {"item_id": {"one_of": [1, 0]}, "lot": {"one_of": ["a", "c"]}}, 0),
        promise("bids", {"item_id": {"one_of": [1, 0]}, "lot": {"equals": "b"}}, 0),
        bid(0, 0, partition=0, keys=lots),
        bid(1, 0, partition=0, keys=lots),
    ]

    def named(keys: KeyKind, given: list[Record]) -> list[tuple[int, str, int]]:
        with recomputed(make_pipeline(keys=keys), given) as session:
            return sorted((row[2], row[5], row[7]) for row in rows_of(session, "violations"))

    assert named(day, records) == [
        (2, '{"item_id": {"equals": "2026-01-02"}}', 0),
        (7, '{"item_id": {"between": {"to": "2026-01-04"}}}', 5),
        (9, '{"item_id": {"between": {}}}', 8),
    ]
    assert named(lots, both) == [
        (3, '{"item_id": {"between": {"from": 0, "to": 1}}, "lot": {"one_of": ["a", "c"]}}', 1),
        (4, '{"lot": {"equals": "b"}}', 0),
    ]


def test_a_scattered_key_is_closed_once_every_partition_promised_it() -> None:
    """By its name or by a pattern, and not by one of them twice."""
    pipeline = make_pipeline(
        windows=(None, None), punctuated=(False, True), declared=({}, {"punctuation_scope": "topic"})
    )
    low = promise("bids", {"item_id": {"between": {"to": 1}}}, 1)
    once = [item(1, 0), close("bids", 1, 0), close("bids", 2, 0), close("bids", 1, 0), low, low]

    def closed(records: list[Record]) -> list[int]:
        with recomputed(pipeline, records) as session:
            return sorted(row["#item_id"] for row in session.run('FROM "closed_bids"'))

    assert closed(once[:4]) == []
    assert closed(once) == [1]
    assert closed([*once, close("bids", 2, 1)]) == [1, 2]

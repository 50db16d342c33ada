"""Join types and conditions: which rows are results without a partner, when, and what that does to groups."""

from __future__ import annotations

import pytest

from endmark.errors import ConfigError
from endmark.pipeline import Pipeline
from endmark.types import JoinType
from support.verify_recompute import agreed, groups, recomputed
from support.verify_world import Record, bid, close, item, make_pipeline


def alone(pipeline: Pipeline, records: list[Record]) -> list[tuple[int | None, int | None]]:
    """Results without a partner, as the item of the left and of the right row."""
    names = list(pipeline.result_columns())
    left, right = names.index("items_item_id"), names.index("bids_item_id")
    found = [(row[left], row[right]) for row in agreed(pipeline, records, "results")]
    return sorted((pair for pair in found if None in pair), key=str)


@pytest.mark.parametrize(
    ("kind", "left_alone", "right_alone"),
    [("inner", False, False), ("left", True, False), ("right", False, True), ("full", True, True)],
)
def test_rows_without_a_partner_are_results_of_outer_joins(
    kind: JoinType, left_alone: bool, right_alone: bool
) -> None:
    """A row of a preserved side comes with nulls once the other side has closed its key, and not before."""
    pipeline = make_pipeline(windows=(None, None), kind=kind)
    records = [item(1, 0), bid(2, 0), item(3, 0), bid(3, 0)]
    assert alone(pipeline, records) == []
    records += [close("bids", key) for key in (1, 3)] + [close("items", key) for key in (2, 3)]
    expected: list[tuple[int | None, int | None]] = [(1, None)] * left_alone + [(None, 2)] * right_alone
    assert alone(pipeline, records) == expected


def test_a_row_that_left_its_window_has_no_partner() -> None:
    """At exactly the end of its window one may still come; each side's window is its own."""
    pipeline = make_pipeline(windows=(3, 1), lateness=(0, 2), kind=JoinType.FULL)
    records = [item(1, 10), bid(0, 20)]
    assert alone(pipeline, [*records, bid(1, 15)]) == []
    assert alone(pipeline, [*records, bid(1, 15.000001)]) == [(1, None)]
    records = [bid(1, 10), item(0, 20)]
    assert alone(pipeline, [*records, item(1, 11)]) == []
    assert alone(pipeline, [*records, item(1, 11.000001)]) == [(None, 1)]


def test_violations_and_lookup_misses_are_never_alone() -> None:
    """Only what enters the join can be a result without a partner."""
    pipeline = make_pipeline(windows=(None, None), kind=JoinType.FULL)
    records = [close("items", 1), item(1, 0), bid(3, 0, seller=9), close("items", 3), bid(1, 0)]
    assert alone(pipeline, records) == [(None, 1)]


def test_a_pair_that_fails_the_condition_leaves_both_rows_alone() -> None:
    """A partner is a row that meets `where` as well."""
    pipeline = make_pipeline(kind=JoinType.FULL, where="bids_price > 5")
    records = [item(1, 0), bid(1, 0, price=5.0), close("items", 1), close("bids", 1)]
    with recomputed(pipeline, records) as session:
        found = session.run("SELECT items_item_id AS l, bids_item_id AS r FROM expected_results ORDER BY ALL")
        assert [tuple(row.values()) for row in found] == [(1, None), (None, 1)]
        assert [tuple(row.values())[:2] for row in session.run('FROM "expected_groups:by_key"')] == [(1, 2)]


@pytest.mark.parametrize("where", ["bids_prize > 5", "bids_price >", "true) OR (true", "price; DROP TABLE x"])
def test_a_condition_that_cannot_be_is_named(where: str) -> None:
    """A condition that is no expression, or of no column, is a fault of the pipeline file."""
    with (
        pytest.raises(ConfigError, match=r"steps\.matched\.where: "),
        recomputed(make_pipeline(where=where), []),
    ):
        pass


def test_a_semi_join_gives_each_left_row_once() -> None:
    """However many partners a row has, its own columns come once, and only if it has any."""
    pipeline = make_pipeline(kind=JoinType.SEMI)
    records = [item(1, 0), item(1, 1), bid(1, 1), bid(1, 2), item(0, 1)]
    results = agreed(pipeline, records, "results")
    assert sorted(row[-1] for row in results) == [0, 1]
    assert groups(pipeline, [*records, close("items", 1), close("bids", 1)]) == {1: 2}


def test_a_group_of_an_outer_join_waits_for_the_preserved_side() -> None:
    """While that side has not closed a key, a row without a partner may still come."""
    records = [item(1, 0), bid(1, 0), close("items", 1), bid(0, 99), bid(1, 99)]
    assert groups(make_pipeline(kind=JoinType.LEFT), records) == {1: 1}
    for kind in (JoinType.RIGHT, JoinType.FULL):
        assert groups(make_pipeline(kind=kind), records) == {}
        assert groups(make_pipeline(kind=kind), [*records, close("bids", 1)]) == {1: 2}

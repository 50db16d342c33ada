"""What each strategy reads next."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from endmark.joins.lookup.costs import ReadCosts, measure
from endmark.joins.lookup.strategies import (
    Auto,
    BestPage,
    Hybrid,
    KeyLists,
    Mesh,
    Read,
    ReadAll,
    ReadKeys,
    ReadPages,
    SingleKeys,
)
from endmark.joins.lookup.waiting import SERIAL, Waiting
from endmark.state.keys import KeySpec
from support.memory_relation import MemoryRelation

RELATION = MemoryRelation(pa.record_batch({"k": pa.array(range(100), pa.int64())}), ("k",))
PAGES = RELATION.directory(10)  # page n holds 10 n to 10 n + 9
KEY = KeySpec.of(["k"], [pa.int64()])


def _waiting(keys: list[int]) -> Waiting:
    serials = pa.array(range(len(keys)), pa.int64())
    return Waiting(pa.record_batch({"k": pa.array(keys, pa.int64()), SERIAL: serials}), KEY, PAGES)


def _pages(read: Read) -> list[int]:
    assert isinstance(read, ReadPages)
    return [int(number) for number in read.numbers]


def test_hybrid_reads_the_pages_of_the_oldest_rows() -> None:
    waiting = _waiting([55, 12, 57, 91, 13, 30])
    assert _pages(Hybrid().plan(waiting, 2)) == [1, 5]
    waiting.answer(waiting.on_pages(np.array([1, 5])))
    assert len(waiting) == 2
    assert _pages(Hybrid().plan(waiting, 1)) == [9]


def test_best_page_reads_the_fullest_unless_a_row_is_overdue() -> None:
    waiting = _waiting([55, 12, 91, 13, 14, 92])
    assert _pages(BestPage(overdue=6).plan(waiting, 1)) == [1]
    assert _pages(BestPage(overdue=5).plan(waiting, 1)) == [5]
    assert _pages(BestPage(overdue=5).plan(waiting, 2)) == [1, 5]


def test_mesh_goes_round_from_where_it_was() -> None:
    mesh = Mesh(pages=10, segment_pages=4, position=4)
    waiting = _waiting([1])
    assert [_pages(mesh.plan(waiting, 1)) for _ in range(3)] == [[4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
    assert mesh.position == 4


def test_mesh_begins_anew_when_r_has_shrunk() -> None:
    assert Mesh(pages=3, segment_pages=2, position=7).position == 0


def test_lists_hold_distinct_keys_of_the_oldest_rows() -> None:
    waiting = _waiting([55, 12, 55, 91, 13, 12])
    read = KeyLists(2).plan(waiting, 1)
    assert isinstance(read, ReadKeys)
    rows = waiting.of_keys(read.groups)
    assert sorted(waiting.take(rows).column("k").to_pylist()) == [12, 12, 55, 55]
    assert waiting.distinct_keys(rows).column("k").to_pylist() == [12, 55]


def test_inlj_reads_one_key_at_a_time() -> None:
    read = SingleKeys().plan(_waiting([55, 12, 55]), 64)
    assert isinstance(read, ReadKeys)
    assert len(read.groups) == 1


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        (ReadCosts(page=1.0, trip=1.0, key=1.0, scan=0.5), ReadAll),
        (ReadCosts(page=1.0, trip=0.0, key=0.1, scan=9.0), ReadKeys),
        (ReadCosts(page=1.0, trip=0.0, key=2.0, scan=90.0), ReadPages),
    ],
)
def test_auto_takes_the_cheapest(costs: ReadCosts, expected: type[Read]) -> None:
    auto = Auto(costs, overdue=100)
    assert isinstance(auto.plan(_waiting([55, 12, 57, 91]), 64), expected)
    assert auto.predicted["auto"] <= min(auto.predicted.values())


def test_auto_reads_crowded_pages_whole_and_other_keys_one_by_one() -> None:
    auto = Auto(ReadCosts(page=2.5, trip=0.0, key=1.0, scan=90.0), overdue=100)
    waiting = _waiting([55, 12, 91, 13, 14])
    assert _pages(auto.plan(waiting, 64)) == [1]
    assert auto.predicted == pytest.approx(
        {"hybrid": 7.5, "batched": 5.0, "inlj": 5.0, "scan": 90.0, "auto": 4.5}
    )
    waiting.answer(waiting.on_pages(np.array([1])))
    assert isinstance(auto.plan(waiting, 64), ReadKeys)


def test_auto_serves_an_overdue_key_before_crowded_pages() -> None:
    auto = Auto(ReadCosts(page=2.5, trip=0.0, key=1.0, scan=90.0), overdue=4)
    assert isinstance(auto.plan(_waiting([55, 12, 91, 13, 14]), 64), ReadKeys)


def test_costs_follow_what_reads_take() -> None:
    costs = ReadCosts(page=1.0, trip=1.0, key=0.01, scan=1.0)
    for _ in range(60):
        costs.saw_pages(10, 30.0)
        costs.saw_keys(1, 2.01)
        costs.saw_scan(7.0)
    assert (costs.page, costs.trip, costs.scan) == pytest.approx((3.0, 2.0, 7.0), rel=0.01)
    for _ in range(60):
        costs.saw_keys(2_000, 102.0)
    assert costs.key == pytest.approx(0.05, rel=0.05)


def test_costs_are_measured_without_reading_all_of_r() -> None:
    relation = MemoryRelation(pa.record_batch({"k": pa.array(range(1_000), pa.int64())}), ("k",))
    found = measure(relation, relation.directory(5))
    assert min(found.page, found.trip, found.scan) > 0
    assert len(relation.ranges) == 2 * 64
    assert relation.scans == 1


def test_costs_of_an_empty_relation_can_be_measured() -> None:
    relation = MemoryRelation(pa.record_batch({"k": pa.array([], pa.int64())}), ("k",))
    assert measure(relation, relation.directory(5)).scan >= 0

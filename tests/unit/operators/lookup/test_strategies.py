"""What each strategy reads next."""

from __future__ import annotations

import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from endmark.errors import ConfigError
from endmark.operators.lookup import reads, strategies
from endmark.operators.lookup.auto import Auto
from endmark.operators.lookup.costs import ReadCosts
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.reads import LIST_KEYS, Read, ReadKeys, ReadPages, parts
from endmark.operators.lookup.strategies import (
    STRATEGIES,
    BestPage,
    Hybrid,
    KeyLists,
    Mesh,
    Scan,
    SingleKeys,
    require_readable,
)
from endmark.operators.lookup.waiting_rows import SERIAL, Piece, Waiting
from endmark.relation.contract import PageDirectory
from endmark.state.keys import KeySpec
from support.memory_relation import MemoryRelation

RELATION = MemoryRelation(pa.record_batch({"k": pa.array(range(100), pa.int64())}), ("k",))
PAGES = RELATION.directory(10)  # page n holds 10 n to 10 n + 9
KEY = KeySpec.of(["k"], [pa.int64()])


def _waiting(keys: list[int]) -> Waiting:
    serials = pa.array(range(len(keys)), pa.int64())
    rows = pa.record_batch({"k": pa.array(keys, pa.int64()), SERIAL: serials})
    return Waiting([Piece(rows)], KEY, PAGES)


def _pages(read: Read) -> list[int]:
    assert isinstance(read, ReadPages)
    return [int(number) for number in read.numbers]


def _keys(waiting: Waiting, read: Read) -> list[int]:
    assert isinstance(read, ReadKeys)
    found: list[int] = waiting.keys_in(read.groups).column("k").to_pylist()
    return found


def test_the_docs_have_every_strategy() -> None:
    """docs/lookup.md has a table of them, and the pipeline file of docs/pipeline-file.md names them."""
    root = Path(__file__).parents[4]
    rows = [f"| `{each.name}` | {each.reads} | {each.paper}" for each in STRATEGIES.values()]
    table = "".join(f"{row.strip()} |\n" for row in rows)
    others = ", ".join(name for name in STRATEGIES if name != "auto")

    assert f"| paper |\n|---|---|---|\n{table}\n" in (root / "docs/lookup.md").read_text()
    assert re.search(rf"strategy: auto +# or {others}\n", (root / "docs/pipeline-file.md").read_text())


def test_hybrid_reads_the_pages_of_the_oldest_rows() -> None:
    waiting = _waiting([55, 12, 57, 91, 13, 30])
    assert _pages(Hybrid().plan(waiting, 2, drain=False)) == [1, 5]
    waiting.answer(waiting.on_pages(np.array([1, 5])))
    assert len(waiting) == 2
    assert _pages(Hybrid().plan(waiting, 1, drain=False)) == [9]


def test_best_page_reads_the_fullest_unless_a_row_is_overdue() -> None:
    waiting = _waiting([55, 12, 91, 13, 14, 92])
    assert _pages(BestPage().plan(waiting, 1, drain=False)) == [1]
    with patch.object(reads, "OVERDUE_TIMES", 5 / 6):  # the first of the six rows is
        assert _pages(BestPage().plan(waiting, 1, drain=False)) == [5]
        assert _pages(BestPage().plan(waiting, 2, drain=False)) == [1, 5]


def test_mesh_goes_round_from_where_it_was() -> None:
    with patch.object(strategies, "PAGES_AT_ONCE", 4):
        mesh = Mesh(pages=10, position=4)
        plans = [_pages(mesh.plan(_waiting([1]), 1, drain=False)) for _ in range(3)]
    assert plans == [[4, 5, 6, 7], [8, 9], [0, 1, 2, 3]]
    assert mesh.position == 4


def test_mesh_begins_anew_when_r_has_shrunk() -> None:
    assert Mesh(pages=3, position=7).position == 0


def test_scan_reads_every_page_that_is_wanted() -> None:
    waiting = _waiting([55, 12, 91, 13])
    assert _pages(Scan().plan(waiting, 1, drain=False)) == [1, 5, 9]
    waiting.answer(waiting.on_pages(np.array([5])))
    assert _pages(Scan().plan(waiting, 1, drain=False)) == [1, 9]


def test_lists_hold_distinct_keys_of_the_oldest_rows() -> None:
    waiting = _waiting([55, 12, 55, 91, 13, 12])
    with patch.object(strategies, "LIST_KEYS", 2):
        read = KeyLists().plan(waiting, 1, drain=False)
    assert _keys(waiting, read) == [55, 12]
    assert isinstance(read, ReadKeys)
    rows = waiting.of_keys(read.groups)
    assert sorted(waiting.take(rows).column("k").to_pylist()) == [12, 12, 55, 55]


def test_inlj_reads_one_key_at_a_time() -> None:
    waiting = _waiting([55, 12, 55])
    assert _keys(waiting, SingleKeys().plan(waiting, 64, drain=False)) == [55]


def test_a_large_read_is_done_in_parts() -> None:
    numbers = np.arange(150)
    assert [len(part.numbers) for part in parts(ReadPages(numbers)) if isinstance(part, ReadPages)] == [
        64,
        64,
        22,
    ]
    groups = np.arange(20 * LIST_KEYS)
    sizes = [len(part.groups) for part in parts(ReadKeys(groups)) if isinstance(part, ReadKeys)]
    assert sizes == [8 * LIST_KEYS, 8 * LIST_KEYS, 4 * LIST_KEYS]


CROWDED = [55, 12, 91, 13, 14]  # three on page 1, one each on 5 and 9


def test_auto_answers_all_in_the_cheapest_way() -> None:
    """Crowded pages whole and other keys in lists."""
    auto = Auto(ReadCosts(seek=1.5, page=1.0, trip=0.0, key=0.9), len(PAGES))
    waiting = _waiting(CROWDED)
    assert _pages(auto.plan(waiting, 64, drain=True)) == [1]
    waiting.answer(waiting.on_pages(np.array([1])))
    assert sorted(_keys(waiting, auto.plan(waiting, 64, drain=True))) == [55, 91]


@pytest.mark.parametrize("drain", [True, False])
def test_auto_says_what_all_that_waited_would_take(*, drain: bool) -> None:
    """Once for a batch, and whether or not rows may go on waiting."""
    auto = Auto(ReadCosts(seek=1.5, page=1.0, trip=0.0, key=0.9), len(PAGES))
    waiting = _waiting(CROWDED)
    expected = {"hybrid": 7.5, "batched": 4.5, "inlj": 4.5, "scan": 7.5, "auto": 4.3}

    auto.plan(waiting, 1, drain=drain)
    assert auto.predicted == pytest.approx(expected)

    waiting.answer(waiting.on_pages(np.array([1])))
    auto.plan(waiting, 1, drain=drain)
    assert auto.predicted == pytest.approx(expected)

    auto.plan(_waiting([55]), 1, drain=drain)
    assert auto.predicted["hybrid"] == pytest.approx(2.5)


def test_auto_reads_neighbours_of_pages_that_are_read_anyhow() -> None:
    """Each of these pages alone is dearer than its key, all in one range are cheaper than the keys."""
    auto = Auto(ReadCosts(seek=1.0, page=0.5, trip=0.0, key=1.0), len(PAGES))
    assert _pages(auto.plan(_waiting([5, 15, 25, 35]), 64, drain=True)) == [0, 1, 2, 3]
    assert auto.predicted["auto"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("costs", "expected"),
    [
        (ReadCosts(seek=1.0, page=1.0, trip=0.0, key=0.1), [12, 13, 14, 55, 91]),
        (ReadCosts(seek=1.0, page=1.0, trip=0.0, key=9.0), [1, 5, 9]),
        (ReadCosts(seek=9.0, page=0.0, trip=0.0, key=9.0), list(range(10))),
    ],
)
def test_auto_answers_most_rows_a_second_where_some_may_wait(costs: ReadCosts, expected: list[int]) -> None:
    waiting = _waiting(CROWDED)
    read = Auto(costs, len(PAGES)).plan(waiting, 64, drain=False)
    assert (sorted(_keys(waiting, read)) if isinstance(read, ReadKeys) else _pages(read)) == expected


def test_auto_takes_the_fullest_key_or_page_alone() -> None:
    waiting = _waiting([55, 12, 91, 13, 14, 91])
    with patch.object(reads, "LIST_KEYS", 1), patch("endmark.operators.lookup.auto.LIST_KEYS", 1):
        by_key = Auto(ReadCosts(seek=9.0, page=9.0, trip=0.0, key=1.0), len(PAGES))
        assert _keys(waiting, by_key.plan(waiting, 1, drain=False)) == [91]
    by_page = Auto(ReadCosts(seek=1.0, page=1.0, trip=9.0, key=9.0), len(PAGES))
    assert _pages(by_page.plan(waiting, 1, drain=False)) == [1]


def test_auto_groups_no_keys_unless_they_answer_many_more_than_pages() -> None:
    """Three pages are read in 3, the five keys in 0.5; rows are joined in 10, in 2.5 and in 0.5."""
    for row, by_key in ((2.0, False), (0.5, False), (0.1, True)):
        costs = ReadCosts(seek=0.0, page=1.0, trip=0.0, key=0.1, row=row)
        waiting = _waiting(CROWDED)
        read = Auto(costs, len(PAGES)).plan(waiting, 64, drain=False)
        assert isinstance(read, ReadKeys) == ("keys" in vars(waiting)) == by_key
        assert by_key or _pages(read) == [1, 5, 9]


def test_most_rows_of_some_keys() -> None:
    waiting = _waiting([55, 12, 55, 91, 55, 12, 13])
    found = [waiting.most_rows_of(keys) for keys in (1, 2, 3, 9)]
    assert found == [(3, 1), (5, 2), (6, 3), (7, 4)]


@pytest.mark.parametrize(("key", "by_key"), [(0.1, True), (9.0, False)])
def test_auto_serves_an_overdue_row_before_crowded_pages(key: float, *, by_key: bool) -> None:
    """In the way that answers more rows a second."""
    costs = ReadCosts(seek=1.0, page=1.0, trip=0.0, key=key)
    waiting = _waiting(CROWDED)
    with patch.object(reads, "OVERDUE_TIMES", 4 / 5):
        read = Auto(costs, len(PAGES)).plan(waiting, 1, drain=False)
    assert (_keys(waiting, read)[0] == 55) if by_key else (_pages(read) == [5])


@pytest.mark.parametrize(("seek", "expected"), [(0.0, [5]), (9.0, [4, 5])])
def test_auto_counts_rows_by_their_age(seek: float, expected: list[int]) -> None:
    """Two rows that came first have waited for longer than three that came last."""
    costs = ReadCosts(seek=seek, page=1.0, trip=99.0, key=9.0)
    waiting = _waiting([55, 56, 21, 71, 91, 12, 13, 14])
    read = Auto(costs, len(PAGES)).plan(waiting, len(expected), drain=False)
    assert _pages(read) == expected


def test_costs_follow_what_reads_take() -> None:
    costs = ReadCosts(seek=1.0, page=1.0, trip=1.0, key=0.01, row=1.0)
    for _ in range(60):
        costs.saw_pages(np.array([1, 2, 3, 4]), 15.0)
        costs.saw_pages(np.array([1, 3, 5, 7]), 24.0)
        costs.saw_keys(2_000, 42.0)
        costs.saw_rows(10, 40.0)
    assert (costs.seek, costs.page) == pytest.approx((3.0, 3.0), rel=0.01)
    assert (costs.trip, costs.key) == pytest.approx((2.0, 0.02), rel=0.01)
    assert costs.row == pytest.approx(4.0, rel=0.01)


@pytest.mark.parametrize(
    ("pages", "seconds", "expected"),
    [([1, 3, 5, 7], 2.0, (0.0, 0.5)), ([1, 2, 3, 4], 0.5, (0.5, 0.0))],
)
def test_what_costs_nothing_leaves_the_rest_to_the_other(
    pages: list[int], seconds: float, expected: tuple[float, float]
) -> None:
    costs = ReadCosts(seek=1.0, page=1.0, trip=1.0, key=0.01)
    for _ in range(60):
        costs.saw_pages(np.array(pages), seconds)
    assert (costs.seek, costs.page) == pytest.approx(expected, abs=0.01)


def test_one_slow_read_is_not_believed() -> None:
    costs = ReadCosts(seek=1.0, page=1.0, trip=1.0, key=0.01)
    costs.saw_pages(np.array([1]), 2_000.0)
    assert costs.seek + costs.page == pytest.approx(2 * 2.8)


def test_costs_are_measured_without_reading_all_of_r() -> None:
    relation = MemoryRelation(pa.record_batch({"k": pa.array(range(1_000), pa.int64())}), ("k",))
    found = measure(relation, relation.directory(5))
    assert min(vars(found).values()) > 0
    assert len(relation.ranges) == 6 * 32 + 5


@pytest.mark.parametrize("rows", [0, 1, 3, 1_000])
def test_costs_of_keys_alone_are_measured_without_pages(rows: int) -> None:
    """A relation without pages may be too large to be read as one page."""
    relation = MemoryRelation(pa.record_batch({"k": pa.array(range(rows), pa.int64())}), ("k",))
    keys = pa.record_batch({"k": pa.array([*range(rows), *range(rows)], pa.int64())})
    found = measure(relation, PageDirectory.without_pages(keys, "why"))
    assert min(vars(found).values()) > 0
    assert relation.ranges == []
    assert len(relation.lists) > 5 or rows < 5


def test_costs_of_an_empty_relation_can_be_measured() -> None:
    relation = MemoryRelation(pa.record_batch({"k": pa.array([], pa.int64())}), ("k",))
    assert min(vars(measure(relation, relation.directory(5))).values()) > 0


def test_strategies_without_pages() -> None:
    """`auto` reads lists of keys, and strategies that read pages are refused with the others' names."""
    waiting = _waiting([55, 12, 55])
    assert _keys(
        waiting, STRATEGIES["auto"].planner(ReadCosts(1, 1, 1, 1), 0, 0).plan(waiting, 1, drain=True)
    ) == [55, 12]
    for each in STRATEGIES.values():
        require_readable("strategy", each.name, None)
        if each.name in ("auto", "inlj", "batched"):
            require_readable("strategy", each.name, "it is a view")
        else:
            said = (
                f"strategy: '{each.name}' reads pages, but it is a view; or take one of auto, inlj, batched"
            )
            with pytest.raises(ConfigError, match=said):
                require_readable("strategy", each.name, "it is a view")


def test_costs_of_another_make_are_not_taken_from_a_snapshot() -> None:
    fresh = ReadCosts(seek=1.0, page=1.0, trip=1.0, key=1.0)
    assert ReadCosts.restored({"page": 2.0, "trip": 2.0, "key": 2.0}, fresh) == fresh
    kept = {"seek": 2.0, "page": 2.0, "trip": 2.0, "key": 2.0, "row": 2.0}
    assert ReadCosts.restored(kept, fresh).key == 2.0

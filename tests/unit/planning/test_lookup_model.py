"""The cost model of lookup strategies: known points, directions, and the optimum it claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from endmark.operators.lookup.costs import JoinCosts
from endmark.operators.lookup.strategies import STRATEGIES
from endmark.operators.lookup.workload import Setup, distinct_keys, zipf_shares
from endmark.planning import lookup_model
from endmark.planning.lookup_model import Prediction
from endmark_feed.zipf import zipf_keys

# The paper's regime: an old disk, where reading a page dominates.
DISK = JoinCosts(seek=8e-3, page=500 * 120 * 16.7e-9, row=1e-6, trip=8e-3, key=1e-4)
# A database on the same machine: 10 us for a key in a list, 0.5 ms for a page of 500 rows.
LOCAL = JoinCosts(seek=1e-4, page=500 * 120 * 6.7e-9, row=1e-7, trip=1e-4, key=1e-5)
PAPER = Setup(
    relation_rows=2_000_000,
    page_rows=500,
    row_bytes=120,
    waiting_bytes=157,
    memory=50_000_000,
    exponent=1.0,
    batch_rows=10_000,
    at_once=1,
)
PAGE = 500 * 120


def predictions(costs: JoinCosts, setup: Setup) -> dict[str, Prediction]:
    return {each.strategy: each for each in lookup_model.predict(costs, setup)}


@pytest.mark.parametrize(("rows", "expected"), [(500_000, 596), (2_000_000, 157), (8_000_000, 45)])
def test_hybrid_answers_rows_by_the_page_model(rows: int, expected: int) -> None:
    """The paper's density; its own 1.36 H D / R gives 432, 108 and 27."""
    found = lookup_model.hybrid(DISK, replace(PAPER, relation_rows=rows))
    assert found.rows_per_read == pytest.approx(expected, rel=0.01)


def test_mesh_answers_the_same_however_keys_are_asked_for() -> None:
    """Twice the paper's, whose rows stay for a whole round."""
    for exponent in (0.0, 0.5, 1.0):
        mesh = predictions(DISK, replace(PAPER, exponent=exponent))["mesh"]
        assert mesh.rows_per_read == pytest.approx(2 * 81, rel=0.02)


def test_auto_lets_rows_wait_unless_answering_at_once_is_twice_as_fast() -> None:
    waiting = [Prediction("hybrid", 90.0, 1, 1), Prediction("mesh", 100.0, 1, 1)]
    at_once = [Prediction("batched", 199.0, 1, 1), Prediction("scan", 50.0, 1, 1)]
    faster = Prediction("inlj", 201.0, 1, 1)

    assert lookup_model.chosen_by_auto(waiting, at_once).strategy == "mesh"
    assert lookup_model.chosen_by_auto(waiting, [*at_once, faster]).strategy == "inlj"
    assert lookup_model.chosen_by_auto([], at_once).strategy == "batched"


def test_hot_keys_at_the_beginning_of_r_answer_more_than_scattered_ones() -> None:
    hot = replace(PAPER, exponent=1.25)
    together, apart = (
        lookup_model.hybrid(DISK, setup).rows_per_read for setup in (hot, replace(hot, scattered=True))
    )
    assert together > 1.1 * apart


def test_waiting_is_paid_for_in_every_batch() -> None:
    """318,000 rows wait for 32 batches of 10,000."""
    waits = replace(DISK, wait=1e-7)
    page = lookup_model.hybrid(DISK, PAPER)
    assert lookup_model.hybrid(waits, PAPER).read_seconds - page.read_seconds == pytest.approx(
        page.rows_per_read * 32 * 1e-7, rel=0.02
    )


@pytest.mark.parametrize(
    ("costs", "expected"),
    [(DISK, 4.4e6), (JoinCosts(seek=1e-4, page=PAGE * 2e-9, trip=0.0, key=0.0, row=0.0), 1.53e6)],
)
def test_best_page_is_that_of_the_closed_form(costs: JoinCosts, expected: float) -> None:
    assert lookup_model.paper_page_rows(costs, PAPER) * 120 == pytest.approx(expected, rel=0.02)


def test_no_other_page_is_faster_without_skew() -> None:
    setup = replace(PAPER, exponent=0.0)
    best = lookup_model.paper_page_rows(DISK, setup)
    sizes = [int(best * factor) for factor in (0.25, 0.5, 1, 2, 4)]
    rates = [lookup_model.hybrid(*lookup_model.with_pages(DISK, setup, size)).rate for size in sizes]
    assert max(rates) == rates[2]


def test_many_pages_at_once_are_best_smaller() -> None:
    """64 of v_P* would be all of R: no row would wait for its page for long."""
    at_once = replace(PAPER, exponent=0.0, at_once=64)
    best, paper = lookup_model.best_page_rows(DISK, at_once), int(lookup_model.paper_page_rows(DISK, at_once))
    rates = [
        lookup_model.hybrid(*lookup_model.with_pages(DISK, at_once, size)).rate for size in (best, paper)
    ]
    assert best < paper / 2
    assert rates[0] > 1.2 * rates[1]


def test_the_best_page_of_a_small_relation_is_smaller() -> None:
    """v_P* has more rows than such a relation. Neither half nor twice the best size is faster."""
    small = replace(PAPER, exponent=0.0, relation_rows=20_000)
    best = lookup_model.best_page_rows(DISK, small)
    sizes = (best, best // 2, 2 * best)
    rates = [lookup_model.hybrid(*lookup_model.with_pages(DISK, small, size)).rate for size in sizes]
    assert best < small.relation_rows < lookup_model.paper_page_rows(DISK, small)
    assert rates[0] == max(rates)


def test_what_is_read_at_once_answers_rows_that_memory_had_room_for() -> None:
    """64 pages of 2,000 rows are a quarter of R; measured: 1,197 to 1,288 rows a page."""
    setup = Setup(500_000, 2_000, 120, 140, 20_000_000, 0.0, 100_000)
    assert lookup_model.hybrid(LOCAL, setup).rows_per_read == pytest.approx(1_220, rel=0.03)
    assert setup.seeks == pytest.approx(187 / 250)


def test_distinct_keys_are_those_of_random_rows() -> None:
    rows = 10_000
    drawn = [len(np.unique(zipf_keys(np.random.default_rng(seed), rows, 1.0, 50_000))) for seed in range(5)]
    assert distinct_keys(zipf_shares(1.0, 50_000), rows) == pytest.approx(np.mean(drawn), rel=0.02)


def test_shares_of_pages_are_sums_of_those_of_keys() -> None:
    for exponent in (0.0, 0.5, 1.0, 1.25):
        keys = zipf_shares(exponent, 1_003)
        pages = zipf_shares(exponent, 1_003, 100)
        assert np.add.reduceat(keys, np.arange(0, 1_003, 100)) == pytest.approx(pages)
        assert pages.sum() == pytest.approx(1)


def test_lists_of_keys_win_where_lookups_are_cheap_and_batches_small() -> None:
    """Break-even of `algorithms.md` B.10: at 10,000 rows lists win by far, at 300,000 they draw level."""
    small, large = (replace(PAPER, batch_rows=rows, memory=rows * 157 + PAGE) for rows in (10_000, 318_000))
    ratios = [
        found["batched"].rate / found["hybrid"].rate
        for found in (predictions(LOCAL, setup) for setup in (small, large))
    ]
    assert ratios[0] > 5
    assert 0.5 < ratios[1] < 2


def test_predictions_come_the_fastest_first() -> None:
    found = lookup_model.predict(DISK, PAPER)
    assert {each.strategy for each in found} == {
        "hybrid",
        "mesh",
        "hybrid at once",
        "inlj",
        "batched",
        "scan",
    }
    assert [each.rate for each in found] == sorted((each.rate for each in found), reverse=True)
    # Neighbouring pages share a seek, and a row need not stay for a whole round.
    assert [each.strategy for each in found[:2]] == ["mesh", "hybrid"]


def test_every_strategy_that_has_costs_is_predicted() -> None:
    """The others are `auto` and `best_page`, for which no paper has equations."""
    found = {name.removesuffix(lookup_model.AT_ONCE) for name in predictions(LOCAL, PAPER)}
    assert STRATEGIES.keys() - found == {"auto", "best_page"}
    assert lookup_model.WAITING == ("hybrid", "mesh")


def test_only_rows_that_wait_need_memory() -> None:
    less, more = (predictions(LOCAL, replace(PAPER, memory=size)) for size in (50_000_000, 100_000_000))
    assert {name for name in less if less[name] != more[name]} == set(lookup_model.WAITING)


def test_more_memory_is_faster() -> None:
    found = lookup_model.what_if(DISK, PAPER, [50_000_000, 100_000_000, 250_000_000])
    rates = [each.rate for each in found.values()]
    assert rates == sorted(rates)
    assert rates[2] > 2 * rates[0]

"""The cost model of lookup strategies: known points, directions, and the optimum it claims."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from endmark.planning import cost_model
from endmark.planning.cost_model import Costs, Setup
from endmark_feed.zipf import zipf_keys

# The paper's regime: an old disk, where reading a page dominates.
DISK = Costs(seek=8e-3, byte=16.7e-9, match=0.0, row=1e-6, trip=8e-3, key=1e-4)
# A database on the same machine: 10 us for a key in a list, 0.5 ms for a page of 500 rows.
LOCAL = Costs(seek=1e-4, byte=6.7e-9, match=0.0, row=1e-7, trip=1e-4, key=1e-5)
PAPER = Setup(
    relation_rows=2_000_000,
    row_bytes=120,
    waiting_bytes=157,
    memory=50_000_000,
    exponent=1.0,
    batch_rows=10_000,
    at_once=1,
)
PAGE = 500 * 120


@pytest.mark.parametrize(("rows", "expected"), [(500_000, 596), (2_000_000, 157), (8_000_000, 45)])
def test_hybrid_answers_rows_by_the_page_model(rows: int, expected: int) -> None:
    """The paper's density; its own 1.36 H D / R gives 432, 108 and 27."""
    found = cost_model.hybrid(DISK, replace(PAPER, relation_rows=rows), PAGE)
    assert found.rows_per_read == pytest.approx(expected, rel=0.01)


def test_mesh_answers_the_same_however_keys_are_asked_for() -> None:
    """Twice the paper's, whose rows stay for a whole round."""
    for exponent in (0.0, 0.5, 1.0):
        mesh = cost_model.mesh(DISK, replace(PAPER, exponent=exponent), PAGE)
        assert mesh.rows_per_read == pytest.approx(2 * 81, rel=0.02)


def test_hot_keys_at_the_beginning_of_r_answer_more_than_scattered_ones() -> None:
    hot = replace(PAPER, exponent=1.25)
    together, apart = (
        cost_model.hybrid(DISK, setup, PAGE).rows_per_read for setup in (hot, replace(hot, scattered=True))
    )
    assert together > 1.1 * apart


def test_waiting_is_paid_for_in_every_batch() -> None:
    """318,000 rows wait for 32 batches of 10,000."""
    waits = replace(DISK, wait=1e-7)
    page = cost_model.hybrid(DISK, PAPER, PAGE)
    assert cost_model.hybrid(waits, PAPER, PAGE).read_seconds - page.read_seconds == pytest.approx(
        page.rows_per_read * 32 * 1e-7, rel=0.02
    )


@pytest.mark.parametrize(
    ("costs", "expected"), [(DISK, 4.4e6), (Costs(1e-4, 2e-9, 0.0, 0.0, 0.0, 0.0), 1.53e6)]
)
def test_best_page_is_that_of_the_closed_form(costs: Costs, expected: float) -> None:
    assert cost_model.paper_page_bytes(costs, PAPER) == pytest.approx(expected, rel=0.02)


def test_no_other_page_is_faster_without_skew() -> None:
    setup = replace(PAPER, exponent=0.0)
    best = cost_model.paper_page_bytes(DISK, setup)
    rates = [cost_model.hybrid(DISK, setup, int(best * factor)).rate for factor in (0.25, 0.5, 1, 2, 4)]
    assert max(rates) == rates[2]


def test_many_pages_at_once_are_best_smaller() -> None:
    """64 of v_P* would be all of R: no row would wait for its page for long."""
    at_once = replace(PAPER, exponent=0.0, at_once=64)
    best, paper = (of(DISK, at_once) for of in (cost_model.best_page_bytes, cost_model.paper_page_bytes))
    assert best < paper / 2
    assert cost_model.hybrid(DISK, at_once, best).rate > 1.2 * cost_model.hybrid(DISK, at_once, paper).rate


def test_what_is_read_at_once_answers_rows_that_memory_had_room_for() -> None:
    """64 pages of 2,000 rows are a quarter of R; measured: 1,197 to 1,288 rows a page."""
    setup = Setup(500_000, 120, 140, 20_000_000, 0.0, 100_000)
    assert cost_model.hybrid(LOCAL, setup, 2_000 * 120).rows_per_read == pytest.approx(1_220, rel=0.03)
    assert setup.ranges(2_000 * 120) == pytest.approx(187 / 250)


def test_distinct_keys_are_those_of_random_rows() -> None:
    rows = 10_000
    drawn = [len(np.unique(zipf_keys(np.random.default_rng(seed), rows, 1.0, 50_000))) for seed in range(5)]
    assert cost_model.distinct_keys(cost_model.zipf_shares(1.0, 50_000), rows) == pytest.approx(
        np.mean(drawn), rel=0.02
    )


def test_shares_of_pages_are_sums_of_those_of_keys() -> None:
    for exponent in (0.0, 0.5, 1.0, 1.25):
        keys = cost_model.zipf_shares(exponent, 1_003)
        pages = cost_model.zipf_shares(exponent, 1_003, 100)
        assert np.add.reduceat(keys, np.arange(0, 1_003, 100)) == pytest.approx(pages)
        assert pages.sum() == pytest.approx(1)


def test_lists_of_keys_win_where_lookups_are_cheap_and_batches_small() -> None:
    """Break-even of `algorithms.md` B.10: at 10,000 rows lists win by far, at 300,000 they draw level."""
    small, large = (replace(PAPER, batch_rows=rows, memory=rows * 157 + PAGE) for rows in (10_000, 318_000))
    ratios = [
        cost_model.batched(LOCAL, setup, 2_000).rate / cost_model.hybrid(LOCAL, setup, PAGE).rate
        for setup in (small, large)
    ]
    assert ratios[0] > 5
    assert 0.5 < ratios[1] < 2


def test_predictions_come_the_fastest_first() -> None:
    found = cost_model.predict(DISK, PAPER, 2_000)
    assert {each.strategy for each in found} == {"hybrid", "mesh", "pages", "inlj", "batched", "scan"}
    assert [each.rate for each in found] == sorted((each.rate for each in found), reverse=True)
    # Neighbouring pages share a seek, and a row need not stay for a whole round.
    assert [each.strategy for each in found[:2]] == ["mesh", "hybrid"]


def test_more_memory_is_faster() -> None:
    found = cost_model.what_if(DISK, PAPER, [50_000_000, 100_000_000, 250_000_000])
    rates = [each.rate for each in found.values()]
    assert rates == sorted(rates)
    assert rates[2] > 2 * rates[0]

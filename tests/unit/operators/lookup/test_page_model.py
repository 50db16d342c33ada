"""The model of rows per page read agrees with HYBRIDJOIN, which it was not fitted to."""

from __future__ import annotations

import numpy as np
import pytest

from endmark.operators.lookup.page_model import aligned_yield
from endmark_feed.zipf import zipf_shares
from endmark_papers.experiments import pages
from endmark_papers.experiments.pages import Setup
from endmark_papers.experiments.sliding_pages import sliding_yield

SMALL = Setup(master=4_000, page=20, memory=800)
SKEWED_AND_FEW = Setup(master=2_000, page=50, memory=300)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 1.25])
@pytest.mark.parametrize("kind", ["aligned", "sliding"])
def test_the_model_is_within_5_percent(kind: pages.Pages, exponent: float) -> None:
    [found] = pages.measure(range(7, 8), 6_000, SMALL, kinds=(kind,), exponents=(exponent,))
    assert abs(found.error_percent) < 5


def test_uniform_pages_answer_twice_meshjoin() -> None:
    """With as much memory as pages, x (1 + x / 2) / (1 + x) = 1, and a read answers 1 + x rows."""
    shares = np.full(1_000, 1 / 1_000)
    assert aligned_yield(shares, 100_000).rows == pytest.approx(200, rel=0.01)
    assert aligned_yield(shares, 1_000).rows == pytest.approx(1 + 2**0.5, rel=0.002)


def test_memory_for_one_row_answers_one() -> None:
    shares = zipf_shares(1.0, 500)
    assert aligned_yield(shares, 1).rows == pytest.approx(1)
    assert sliding_yield(shares, 20, 1).rows == pytest.approx(1)


def test_one_page_answers_all_of_memory() -> None:
    assert aligned_yield(np.ones(1), 500).rows == pytest.approx(500, rel=0.01)


def test_the_oldest_row_waits_longer_than_memory_is_long() -> None:
    """Pages that are read early let later rows in, so more than H rows come while a cold one waits."""
    shares = np.full(400, 1 / 400)
    found = aligned_yield(shares, 3_000)
    assert found.wait == pytest.approx((found.rows - 1) * 400, rel=0.01)
    assert found.wait > 1.8 * 3_000


def test_more_memory_answers_more() -> None:
    shares = zipf_shares(1.0, 2_000)
    grown = [sliding_yield(shares, 20, memory).rows for memory in (10, 100, 1_000)]
    assert grown == sorted(grown)
    assert grown[0] > 1


def test_a_page_with_most_of_the_stream_among_few_is_beyond_the_model() -> None:
    """Its reads set the rhythm of the others, which the model takes to be independent."""
    [found] = pages.measure(range(7, 8), 4_000, SKEWED_AND_FEW, kinds=("aligned",), exponents=(1.0,))
    assert 5 < found.error_percent < 20

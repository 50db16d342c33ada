"""Drawn keys have the closed form's shares."""

from __future__ import annotations

import numpy as np
import pytest

from endmark_feed.zipf import zipf_ranks

DOMAIN = 1_000
DRAWS = 400_000


def share(rank: int, exponent: float) -> float:
    """P(rank), by integrating x^-exponent in its textbook form."""

    def integral(x: float) -> float:
        return float(np.log(x)) if exponent == 1 else float(x ** (1 - exponent)) / (1 - exponent)

    return (integral(rank + 1) - integral(rank)) / (integral(DOMAIN + 1) - integral(1))


@pytest.mark.parametrize("exponent", [0.0, 0.5, 0.999, 1.0, 1.3, 2.0])
def test_shares(exponent: float) -> None:
    ranks = zipf_ranks(np.random.default_rng(1).random(DRAWS), exponent, DOMAIN)
    counts = np.bincount(ranks, minlength=DOMAIN + 1)
    for rank in (1, 2, 3, 10, 100, DOMAIN):
        expected = share(rank, exponent)
        spread = (expected * (1 - expected) / DRAWS) ** 0.5
        assert counts[rank] / DRAWS == pytest.approx(expected, abs=5 * spread)


@pytest.mark.parametrize("exponent", [0.0, 1 - 1e-13, 1.0, 1 + 1e-13, 5.0])
@pytest.mark.parametrize("domain", [1, 2, 10_000_000])
def test_ranks_stay_in_the_domain(exponent: float, domain: int) -> None:
    ends = np.array([0.0, 0.5, np.nextafter(1, 0)])
    ranks = zipf_ranks(ends, exponent, domain)
    assert ranks[0] == 1
    assert ranks.min() >= 1
    assert ranks.max() <= domain


def test_shares_do_not_jump_at_exponent_one() -> None:
    uniform = np.random.default_rng(2).random(10_000)
    at_one = zipf_ranks(uniform, 1.0, DOMAIN)
    assert (zipf_ranks(uniform, 1.0 + 1e-12, DOMAIN) == at_one).mean() > 0.999

"""Zipf-like keys, drawn in blocks with NumPy by inverting the continuous distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def zipf_ranks(uniform: NDArray[np.float64], exponent: float, domain: int) -> NDArray[np.int64]:
    """Turn numbers in [0, 1) into ranks from 1 to `domain`. Rank 1 is the most frequent.

    Rank k has probability (F(k+1) - F(k)) / (F(domain+1) - F(1)) with F' = x^-exponent. At exponent 1 that
    is ln((k+1)/k) / ln(domain+1); at exponent 0 all ranks have the same probability.

    Args:
        uniform: uniform random numbers in [0, 1).
        exponent: Zipf's exponent.
        domain: the number of ranks.
    """
    span = np.log(domain + 1.0)
    slope = 1.0 - exponent
    # expm1 and log1p stay exact for exponents close to 1, where the digits of plain powers cancel out.
    logs = uniform * span if slope == 0 else np.log1p(uniform * np.expm1(slope * span)) / slope
    ranks: NDArray[np.int64] = np.clip(np.exp(logs).astype(np.int64), 1, domain)
    return ranks


def zipf_keys(
    random: np.random.Generator, count: int, exponent: float, domain: int, *, permuted: bool = False
) -> NDArray[np.int64]:
    """Draw keys 1 to `domain` by Zipf's law.

    Args:
        random: the source of randomness.
        count: the number of keys.
        exponent: Zipf's exponent.
        domain: the number of different keys.
        permuted: whether keys have random ranks; if not, a key is its rank, and neighbours are equally hot.
    """
    ranks = zipf_ranks(random.random(count), exponent, domain)
    return random.permutation(domain)[ranks - 1] + 1 if permuted else ranks


def zipf_shares(exponent: float, domain: int) -> NDArray[np.float64]:
    """Return the probabilities of the ranks 1 to `domain`."""
    bounds = np.log(np.arange(1, domain + 2, dtype=np.float64))
    slope = 1.0 - exponent
    integral = bounds if slope == 0 else np.expm1(slope * bounds) / slope
    shares: NDArray[np.float64] = np.diff(integral) / integral[-1]
    return shares

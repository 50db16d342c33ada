"""Sums of doubles: the nearest double of the exact sum, whatever is added in whatever order."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.operators.group_by import exact_sum
from support.cases import cases

FINITE = st.floats(allow_nan=False, allow_infinity=False)
# Where rounding goes wrong first: beside powers of two, and between two doubles.
EDGES = st.builds(math.ldexp, st.sampled_from([1.0, -1.0, 1 + 2**-52, -1 + 2**-53]), st.integers(-110, 110))


def nearest(groups: list[list[float]]) -> list[float]:
    """The sum of each group, by digits that come in the order of their places from the top."""
    owners = np.array([owner for owner, values in enumerate(groups) for _ in values], np.int64)
    values = np.array([value for values in groups for value in values], np.float64)
    found: Counter[tuple[int, int]] = Counter()
    for at, place, amount in zip(*exact_sum.digits(values), strict=True):
        found[int(owners[at]), int(place)] += int(amount)
    digits = sorted(found, key=lambda digit: digit[1], reverse=True)
    amounts = pa.array([Decimal(found[digit]) for digit in digits], exact_sum.AMOUNT)
    owner, place = (np.array([digit[part] for digit in digits], np.int64) for part in (0, 1))
    sums: list[float] = exact_sum.nearest(owner, place, amounts, len(groups)).tolist()
    return sums


def by_definition(values: list[float]) -> float:
    total = sum(map(Fraction, values), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


@cases(90)
@given(st.lists(st.lists(st.one_of(FINITE, EDGES, EDGES), max_size=6), max_size=5))
def test_sums_are_rounded_once(groups: list[list[float]]) -> None:
    """Of many groups at once, or of one at a time."""
    with patch.object(exact_sum, "_AT_ONCE", 2):
        assert nearest(groups) == [by_definition(values) for values in groups]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [0.0, -0.0],
        [1.0, 2.0**-53],
        [1.0, 2.0**-53, 5e-324],
        [1.0, -(2.0**-54)],
        [5e-324] * 3,
        [-5e-324, 2.0**-1022],
        [1.7976931348623157e308, 1e292],
        [-1e308, -1e308],
        [1e308, 1e308, -1e308],
        [2.0**1023, -(2.0**-1074)],
    ],
)
def test_ends_of_the_scale(values: list[float]) -> None:
    """Ties, the least and the greatest of doubles, and sums beyond them."""
    assert nearest([values]) == [by_definition(values)]


def test_many_values_of_one_group() -> None:
    """A digit's sums outgrow 64 bits."""
    amounts = pa.array([Decimal(10**30), Decimal(-(10**30) + 1)], exact_sum.AMOUNT)

    found = exact_sum.nearest(np.array([0, 0]), np.array([3, 3 + 1]), amounts, 1).tolist()

    ruler = Fraction(2) ** (3 * exact_sum.DIGIT - 1126)
    assert found == [float((10**30 + (1 - 10**30) * 2**exact_sum.DIGIT) * ruler)]

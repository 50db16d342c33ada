"""Positions that searches in sorted columns find."""

from __future__ import annotations

import numpy as np
import pytest

from endmark.state import search


@pytest.mark.parametrize(
    ("columns", "positions"),
    [
        ([[], []], []),
        ([[3, 3, 3], [1, 1, 1]], [0]),
        ([[3, 3, 1, 3, 1], [1, 1, 2, 2, 2]], [0, 2, 3]),
        ([[9, 8, 9, 8]], [0, 1]),
    ],
)
def test_the_first_row_of_each_combination(columns: list[list[int]], positions: list[int]) -> None:
    assert search.firsts([np.array(column, np.int64) for column in columns]).tolist() == positions


@pytest.mark.parametrize("keys", [[], [2], [1, 4, 7]])
def test_which_values_are_among_the_keys(keys: list[int]) -> None:
    values = np.arange(9)
    assert search.member(values, np.array(keys, np.int64)).nonzero()[0].tolist() == keys

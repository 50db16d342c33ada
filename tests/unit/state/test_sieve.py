"""The sieve of key codes loses none that has a partner, and keeps few that have none."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.state.sieve import Sieve

codes = st.lists(st.sampled_from([-(2**63), -1, 0, 1, 2, 2**32, 2**63 - 1]), min_size=1).map(np.array)


@given(codes, codes)
def test_all_of_equal_codes_stay_in_order(mine: np.ndarray, theirs: np.ndarray) -> None:
    kept, kept_theirs = Sieve(mine).narrowed(theirs)

    assert set(np.flatnonzero(np.isin(mine, theirs))) <= set(kept)
    assert set(np.flatnonzero(np.isin(theirs, mine))) <= set(kept_theirs)
    assert (np.diff(kept) > 0).all()
    assert (np.diff(kept_theirs) > 0).all()


@pytest.mark.parametrize("step", [1, 2, 1_000, 1 << 32])
def test_strangers_fall_through(step: int) -> None:
    """Ids that are given out in order, and multiples of much."""
    mine = np.arange(10_000) * step
    theirs = np.arange(10_000, 30_000) * step

    kept, kept_theirs = Sieve(mine).narrowed(theirs)

    assert len(kept_theirs) < len(theirs) / 6
    assert len(kept) < len(mine) / 3


def test_a_few_others_are_searched_for() -> None:
    """Where so few pass that not all of mine are sifted for them; equal ones of mine all stay."""
    mine = np.repeat(np.arange(0, 20_000, 2), 3)
    theirs = np.array([3, 4, 4, 9_998, 19_998, 30_000])

    kept, kept_theirs = Sieve(mine).narrowed(theirs)

    assert mine[kept].tolist() == [4, 4, 4, 9_998, 9_998, 9_998, 19_998, 19_998, 19_998]
    assert {1, 2, 3, 4} <= set(kept_theirs)

"""The slope of a quantity, over lives that begin at other heights."""

from __future__ import annotations

import numpy as np
import pytest

from processes.slopes import slope


def test_a_growth_is_found_in_noise() -> None:
    chance = np.random.default_rng(1)
    lives = [
        [(at, height + 0.5 * at / 60 + chance.normal()) for at in range(start, start + 600, 10)]
        for start, height in ((0, 100.0), (700, 20.0))
    ]
    found = slope(lives)

    assert found is not None
    assert found.per_minute == pytest.approx(0.5, abs=2 * found.half)
    assert found.half < 0.1
    assert found.per_minute - found.half > 0


def test_a_kill_is_no_growth() -> None:
    """A job that starts anew with more memory has a line of its own."""
    found = slope([[(float(at), height) for at in range(0, 100, 10)] for height in (1.0, 100.0)])

    assert found is not None
    assert found.per_minute == pytest.approx(0)


def test_too_few_samples() -> None:
    assert slope([[(0.0, 1.0), (1.0, 2.0)]]) is None

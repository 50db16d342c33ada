"""StreamBatch hit the mean rate exactly and come in bursts at every scale."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from endmark_feed.bursts import Floats, arrival_blocks


def arrivals(seed: int, count: int, seconds: float, block: int = 65_536) -> Floats:
    return np.concatenate(list(arrival_blocks(np.random.default_rng(seed), count, seconds, block)))


@pytest.mark.parametrize(("count", "seconds"), [(1, 0.6), (600, 0.6), (100_000, 60.0), (50_000, 3_600.0)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_exactly_so_many_in_order_within_the_run(seed: int, count: int, seconds: float) -> None:
    at = arrivals(seed, count, seconds)
    assert at.size == count
    assert (np.diff(at) >= 0).all()
    assert at[0] >= 0
    assert at[-1] < seconds


def test_blocks_do_not_change_the_times() -> None:
    assert (arrivals(1, 10_000, 10.0, block=999) == arrivals(1, 10_000, 10.0)).all()


def dispersion(at: Floats, seconds: float, bin_seconds: float) -> float:
    """Variance over mean of the counts per bin: 1 for a Poisson process, 0 for a steady one."""
    counts, _ = np.histogram(at, bins=int(seconds / bin_seconds), range=(0, seconds))
    return float(counts.var() / counts.mean())


def test_longer_bins_do_not_smooth_the_bursts_away() -> None:
    # The slowest source switches every 10 s on average: light-tailed periods would even out beyond that.
    at = arrivals(1, 2_000_000, 20_000.0)
    by_bin = [dispersion(at, 20_000.0, width) for width in (1, 20, 100, 400)]
    assert by_bin[0] > 10
    assert all(longer > 1.3 * shorter for shorter, longer in pairwise(by_bin))


def test_peaks_stay_within_reach_of_the_mean() -> None:
    for seed in range(5):
        counts, _ = np.histogram(arrivals(seed, 600_000, 300.0), bins=300)
        assert 1.3 < counts.max() / counts.mean() < 4
        assert counts.min() > 0

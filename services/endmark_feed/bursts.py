"""Self-similar arrival times: on/off sources whose periods are heavy-tailed, as in the papers' feeds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

BANDWIDTHS = 2.0 ** np.arange(1, 11)
STEP_SECONDS = 0.010  # a source of bandwidth b is on, or off, for b steps on average
PARETO_SHAPE = 1.5  # finite mean and infinite variance, which makes the sum self-similar
QUIET = 0.02 * BANDWIDTHS.sum()  # the load with all sources off; above 0, so that its sum can be inverted

Floats = NDArray[np.float64]
BLOCK = 65_536


def arrival_blocks(
    random: np.random.Generator, count: int, seconds: float, block: int = BLOCK
) -> Iterator[Floats]:
    """Yield exactly `count` arrival times in seconds, ascending within [0, `seconds`), block by block.

    Args:
        random: the source of randomness.
        count: the number of arrivals.
        seconds: the length of the run.
        block: the most arrivals of a block.
    """
    times, load = _cumulative_load(random, seconds)
    for first in range(0, count, block):
        index = np.arange(first, min(first + block, count))
        yield np.interp((index + 0.5) / count * load[-1], load, times)


def even_blocks(count: int, seconds: float) -> Iterator[Floats]:
    """Yield exactly `count` arrival times in seconds, evenly within [0, `seconds`), block by block."""
    for first in range(0, count, BLOCK):
        yield (np.arange(first, min(first + BLOCK, count)) + 0.5) / count * seconds


def _cumulative_load(random: np.random.Generator, seconds: float) -> tuple[Floats, Floats]:
    """Return the times at which the load changes, and the sum of the load until each of them."""
    switches, changes, level = [], [], QUIET
    for bandwidth in BANDWIDTHS:
        at = _switches(random, bandwidth * STEP_SECONDS, seconds)
        is_on = random.random() < 0.5
        level += bandwidth * is_on
        sign = np.where(np.arange(at.size) % 2 == is_on, 1.0, -1.0)
        switches.append(at)
        changes.append(bandwidth * sign)
    times = np.concatenate(switches)
    order = np.argsort(times, kind="stable")
    times = np.concatenate([[0.0], times[order], [seconds]])
    levels = level + np.concatenate([[0.0], np.cumsum(np.concatenate(changes)[order])])
    return times, np.concatenate([[0.0], np.cumsum(levels * np.diff(times))])


def _switches(random: np.random.Generator, mean: float, seconds: float) -> Floats:
    """Return the times before `seconds` at which a source switches; its periods have the mean `mean`."""
    shortest = mean * (PARETO_SHAPE - 1.0) / PARETO_SHAPE
    found = np.zeros(1)
    while found[-1] < seconds:
        periods = (random.pareto(PARETO_SHAPE, int(seconds / mean) + 16) + 1.0) * shortest
        found = np.concatenate([found, found[-1] + np.cumsum(periods)])
    return found[(found > 0) & (found < seconds)]

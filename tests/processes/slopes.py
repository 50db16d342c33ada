"""The slope of a quantity over time, with its confidence interval, over several lives of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_NORMAL = 1.96


class Slope(NamedTuple):
    """A change in a minute, and half of its 95 % interval."""

    per_minute: float
    half: float


def slope(lives: Sequence[Sequence[tuple[float, float]]]) -> Slope | None:
    """Return the common slope of lines, one for each life; `None` if there are too few samples.

    Args:
        lives: the samples of each life, as seconds and values.
    """
    used = [np.asarray(life, dtype=float) for life in lives if len(life) > 2]
    if not used:
        return None
    times = np.concatenate([life[:, 0] - life[:, 0].mean() for life in used]) / 60
    values = np.concatenate([life[:, 1] - life[:, 1].mean() for life in used])
    free = len(times) - len(used) - 1
    spread = float(times @ times)
    if free < 1 or not spread:
        return None
    found = float(times @ values) / spread
    rest = values - found * times
    return Slope(found, _NORMAL * float(np.sqrt(rest @ rest / free / spread)))

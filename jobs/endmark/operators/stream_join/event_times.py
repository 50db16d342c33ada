"""Event times as int64 in microseconds: those before and after all others, and the rows that are late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from endmark.state.search import Bools, Ints

# A time before any event time. A window or a lateness can be subtracted without overflow.
NEVER = -(1 << 62)
# A time after any event time.
FOR_EVER = 1 << 62


def late_rows(times: Ints, newest: int, lateness: int) -> tuple[Bools, int]:
    """Return a mask of the late rows of one partition, and the newest event time after them.

    Args:
        times: event times of the rows in the order of offsets, in microseconds.
        newest: the newest event time before them in microseconds, or `NEVER`.
        lateness: microseconds by which a row may be older than the newest one before it.
    """
    seen = np.maximum.accumulate(np.concatenate([np.array([newest]), times]))
    return times < seen[:-1] - lateness, int(seen[-1])

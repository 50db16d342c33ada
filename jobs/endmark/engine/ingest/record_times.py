"""The number of records by Kafka's timestamp, from which the sink makes latencies."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from endmark.state.search import Ints

_KEPT_BITS = 5


def count_times(timestamps: Ints, now: float) -> Counter[int]:
    """Count records by timestamp, each within a 32nd of its age.

    So a task reports some dozens of numbers, and never more than 16 for each doubling of the age, whatever
    timestamps a producer sends. A record without a timestamp, which Kafka gives as -1 ms, is not counted.

    Args:
        timestamps: Unix microseconds.
        now: about the present time in Unix seconds. With the same `now`, equal timestamps stay equal.

    Returns:
        The number of records by rounded timestamp, in Unix milliseconds.
    """
    here = int(1000 * now)
    ages = here - timestamps[timestamps >= 0] // 1000
    widths = 1 << np.maximum(np.frexp(np.abs(ages))[1] - _KEPT_BITS, 0).astype(np.int64)
    middles = ages // widths * widths + widths // 2
    times, counts = np.unique(here - middles, return_counts=True)
    return Counter(dict(zip(times.tolist(), counts.tolist(), strict=True)))

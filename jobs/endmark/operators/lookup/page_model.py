"""The page model: the number of pending rows that one page read of HYBRIDJOIN answers.

Paper: UoA-SE-2010-2, section 5. Memory holds H rows and is filled from the stream before every read. A read
answers w rows on average. Time is counted in stream rows. The paper measured w = 1.36 H D / R for pages of D
rows.

**Aligned pages.** A page has the share p of the stream. It is read when its oldest pending row has waited T;
that row came 1 / p after the last read. The read answers 1 + x rows, x = p T. There are r = p / (1 + x) such
reads per stream row, so w = 1 / sum r. T follows from Little's law. A page holds rows for (T + 1) (1 + x / 2)
in all over its wait. Memory lacks w (w - 1) / 2 while w answered rows are replaced. So

    sum over pages of r (1 + T + x) (1 + x / 2) = H.

T differs between pages. While the rows that a hot page's read answered are replaced, other rows come. They
wait for half of the replacements on average. The first row of the hot page itself comes first and does not
wait for them. So a page waits T = K - x / 2, where K is the wait of a page too cold to matter. The model
needs many pages. If there are few, and one has most of the stream, waits depend on the reads of that page,
and the model is too high.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_HALVINGS = 60


class PageYield(NamedTuple):
    """The yield of page reads.

    Args:
        rows: the number of rows that a page read answers.
        wait: the number of stream rows that come while the front row of a cold page waits.
    """

    rows: float
    wait: float


def aligned_yield(page_shares: Floats, memory_rows: int) -> PageYield:
    """Return the yield of pages with fixed ranges of keys.

    Args:
        page_shares: the share of each page in the stream; all shares add up to 1.
        memory_rows: the number of pending rows while memory is full, the paper's H_t.
    """

    def waits(wait: float) -> tuple[Floats, Floats]:
        times = wait / (1 + page_shares / 2)
        return times, page_shares * times

    def pending(wait: float) -> float:
        times, rows = waits(wait)
        reads = page_shares / (1 + rows)
        return float(np.sum(reads * (1 + times + rows) * (1 + rows / 2)))

    wait = inverse(pending, memory_rows)
    _, rows = waits(wait)
    return PageYield(1 / float(np.sum(page_shares / (1 + rows))), wait)


def inverse(rising: Callable[[float], float], value: float) -> float:
    """Return the argument at which a rising function has a value. At 0, it must not exceed that value."""
    low, high = 0.0, 1.0
    while rising(high) < value:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < value else (low, middle)
    return high

"""The model of the rows that one read of a sliding page answers. The engine has aligned pages alone.

Sliding pages begin at the oldest row's key and are D rows long. A *leader* is a row that leads to a read
of its own. A row at key y is a leader if no other leader with a key in (y - D, y] came within T before it.
Let V be the probability that no leader came within T in an interval of keys that ends at y. V falls as the
interval grows. A leader at key k is followed by a leader at a smaller key within T, unless no row comes at
smaller keys. Let Q be the total share of these keys. For the first D keys, nothing else matters:

    V(k) = V(k - 1) - r g,  g = (1 - exp(-Q T)) / Q,  r = p V(k - 1) / (1 + p g).

At later keys, a leader may itself be hidden by keys before the interval. If shares change little within D
keys, everything depends on the number of rows expected in the interval within T. We know no closed form for
it. The two expressions in `_far_keys` are fitted to simulations of that process, within 5 % for D from 20 and
up to 130 rows.
"""

from __future__ import annotations

import numpy as np

from endmark.operators.lookup.page_model import Floats, PageYield, inverse


def sliding_yield(key_shares: Floats, page_rows: int, memory_rows: int) -> PageYield:
    """Return the yield of pages that begin at the oldest row's key.

    Args:
        key_shares: the share of each key of R in the stream, in order; each is above 0, and all add up to 1.
        page_rows: the number of R's rows on a page, each with a key of its own.
        memory_rows: the number of pending rows while memory is full, the paper's H_t.
    """

    def pending(wait: float) -> float:
        process = _Sliding(key_shares, page_rows, wait)
        replaced = np.sum(process.reads * (process.answered**2 - 1)) / 2
        return 1 + float(np.sum(key_shares * process.waits) + replaced)

    process = _Sliding(key_shares, page_rows, inverse(pending, memory_rows))
    return PageYield(1 / float(np.sum(process.reads)), process.cold_wait)


class _Sliding:
    """The process of sliding pages, by key.

    Attributes:
        reads: reads per stream row that begin at each key.
        answered: the number of rows that a read at each key answers.
        waits: the mean wait of rows of each key.
        cold_wait: the wait of the first row of a read, beyond the first `page_rows` keys.

    Args:
        shares: the share of each key in the stream.
        page_rows: the number of keys on a page.
        hot_wait: the wait of the first row of a read among the first `page_rows` keys.
    """

    def __init__(self, shares: Floats, page_rows: int, hot_wait: float) -> None:
        head = shares[:page_rows]
        reads, waits = _leading_keys(head, hot_wait)
        self.cold_wait = hot_wait + (np.sum(head) / np.sum(reads) - 1) / 2
        come = self.cold_wait * _trailing_sums(shares, page_rows)[page_rows:]
        free, wait = _far_keys(come, page_rows)
        self.reads: Floats = np.concatenate([reads, shares[page_rows:] * free])
        self.waits: Floats = np.concatenate([waits, self.cold_wait * wait])
        # Each read that begins within a page before a row answers it with the same probability.
        per_read = shares / _trailing_sums(self.reads, page_rows)
        self.answered = _trailing_sums(per_read[::-1], page_rows)[::-1]


def _leading_keys(shares: Floats, wait: float) -> tuple[Floats, Floats]:
    """Return reads per stream row and mean waits, for the keys of the first page.

    `wait` is the wait of the first row of a read.
    """
    smaller = np.maximum(np.concatenate([[0.0], np.cumsum(shares)[:-1]]), 1e-9 / (wait + 1))
    gaps = -np.expm1(-smaller * wait) / smaller
    reads, free = np.empty_like(shares), 1.0
    for key, (share, gap) in enumerate(zip(shares.tolist(), gaps.tolist(), strict=True)):
        reads[key] = share * free / (1 + share * gap)
        free -= reads[key] * gap
    return reads, wait - np.cumsum(reads * (wait - gaps) / smaller)


def _far_keys(come: Floats, page_rows: int) -> tuple[Floats, Floats]:
    """Return the shares of rows that are leaders, and mean waits relative to those of leaders, both fitted.

    Args:
        come: the number of rows expected during a wait, in the page's length of keys before each key.
        page_rows: the number of keys on a page.
    """
    distinct = 1 / (1 + 0.1 * come / page_rows)  # rows of one key count once
    apart = come * distinct
    return distinct / np.sqrt(1 + apart * (2 + 0.6 * np.log1p(apart))), (1 + 3.5 * apart) ** -0.19


def _trailing_sums(values: Floats, length: int) -> Floats:
    """Return, for each value, the sum of up to `length` values that end with it."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    ends = np.arange(1, values.size + 1)
    found: Floats = sums[ends] - sums[np.maximum(0, ends - length)]
    return found

"""The workload of a lookup: R, its stream and memory, and what a batch is expected to ask of R.

Memory M holds a page and the waiting rows: H = (M - v_P) / v_S rows, the paper's hash and queue as one, since
a waiting row is one entry of each column (HYBRIDJOIN, UoA-SE-2010-2, section 5). Between batches memory is
full, and each comes on top of it: half of it waits on average, besides H. As 64 pages are read at once, the
last of them answer rows that memory had room for: half of what 64 pages answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.lookup.page_model import aligned_yield
from endmark.operators.lookup.reads import PAGES_AT_ONCE

if TYPE_CHECKING:
    from endmark.operators.lookup.page_model import Floats
    from endmark.state.search import Ints

# Keys that are asked for most, each of which has a share of its own; others are told apart by blocks of them.
_SINGLE_KEYS = 65_536
_BLOCKS = 4_096


@dataclass(frozen=True)
class Asked:
    """The part of R that answers a set of stream rows.

    Args:
        keys: the number of their distinct keys.
        pages: the number of pages that these keys are on.
        ranges: the number of ranges of neighbouring pages that a scan reads to have all of these pages.
        range_pages: the number of pages in these ranges.
    """

    keys: float
    pages: float
    ranges: float
    range_pages: float


@dataclass(frozen=True)
class Setup:
    """A relation, a stream, and the memory there is.

    Args:
        relation_rows: R's rows.
        page_rows: rows of a page of R.
        row_bytes: bytes of a row of R, the paper's v_R.
        waiting_bytes: bytes of a stream row that waits, v_S.
        memory: bytes for waiting rows and a page, M.
        exponent: exponent of the stream's Zipf distribution over R's keys; 0 is uniform.
        batch_rows: stream rows of a batch.
        scattered: whether keys that are asked for often are anywhere in R, instead of at its beginning.
        at_once: pages that are read at once; in the paper, one.
    """

    relation_rows: int
    page_rows: int
    row_bytes: int
    waiting_bytes: int
    memory: int
    exponent: float
    batch_rows: int
    scattered: bool = False
    at_once: int = PAGES_AT_ONCE

    @property
    def rows_on_page(self) -> int:
        """The number of R's rows on a page."""
        return min(self.relation_rows, self.page_rows)

    def room(self, pages: int = 0) -> int:
        """Return the number of stream rows that fit into memory beside so many pages."""
        return max(1, (self.memory - pages * self.rows_on_page * self.row_bytes) // self.waiting_bytes)

    @property
    def waiting_rows(self) -> int:
        """H: those that fit beside a page and half of a batch, without half of what is answered at once."""
        share = min(1.0, self.at_once * self.rows_on_page / self.relation_rows)
        return max(1, int((self.room(pages=1) + self.batch_rows // 2) / (1 + share)))

    @property
    def seeks(self) -> float:
        """The number of ranges by page where pages are read wherever they are: neighbours are one."""
        pages = -(-self.relation_rows // self.rows_on_page)
        return (pages - min(self.at_once, pages) + 1) / pages

    @property
    def page_yield(self) -> float:
        """The rows that a read of the oldest row's page answers while memory is full."""
        return aligned_yield(self._page_shares, self.waiting_rows).rows

    @property
    def asked(self) -> Asked:
        """The part of R that answers an average batch. Its rows are all over R, so a scan reads all of it."""
        shares, keys = _key_blocks(self.exponent, self.relation_rows)
        return Asked(
            keys=distinct_keys(shares / keys, self.batch_rows, keys),
            pages=distinct_keys(self._page_shares, self.batch_rows),
            ranges=1,
            range_pages=self.relation_rows / self.rows_on_page,
        )

    @cached_property
    def _page_shares(self) -> Floats:
        """The share of the stream by page."""
        page_rows = self.rows_on_page
        if not self.scattered or self.exponent == 0:
            return zipf_shares(self.exponent, self.relation_rows, page_rows)
        if self.relation_rows <= _SINGLE_KEYS:
            keys = np.random.default_rng(0).permutation(zipf_shares(self.exponent, self.relation_rows))
            shares: Floats = np.add.reduceat(keys, np.arange(0, self.relation_rows, page_rows))
            return shares
        blocks, _ = _key_blocks(self.exponent, self.relation_rows)
        pages = -(-self.relation_rows // page_rows)
        on_page = np.random.default_rng(0).integers(0, pages, _SINGLE_KEYS)
        hot = np.bincount(on_page, weights=blocks[:_SINGLE_KEYS], minlength=pages)
        even: Floats = hot + (1 - hot.sum()) / pages
        return even


def zipf_shares(exponent: float, rows: int, page_rows: int = 1) -> Floats:
    """Return each page's share of the stream by Zipf's law, for keys 1 to `rows` in order.

    Args:
        exponent: Zipf's exponent; 1 is log-uniform.
        rows: rows of R.
        page_rows: rows of a page.
    """
    return _shares(exponent, np.append(np.arange(0, rows, page_rows), rows))


def distinct_keys(shares: Floats, rows: int, keys: Floats | float = 1.0) -> float:
    """Return the average number of distinct keys, or pages, that some rows have.

    Args:
        shares: the share of the stream of each key or page.
        rows: the number of rows.
        keys: the number of keys that have each of the shares.
    """
    each = -np.expm1(rows * np.log1p(-np.minimum(shares, 1 - 1e-15)))
    return float((keys * each).sum())


def _key_blocks(exponent: float, rows: int) -> tuple[Floats, Floats]:
    """Return the shares of the stream by block of keys asked for about as often, and the keys in each."""
    edges = np.arange(min(rows, _SINGLE_KEYS) + 1)
    if rows > _SINGLE_KEYS:
        further = np.geomspace(_SINGLE_KEYS, rows, _BLOCKS).astype(np.int64)
        edges = np.unique(np.concatenate([edges, further]))
    return _shares(exponent, edges), np.diff(edges).astype(np.float64)


def _shares(exponent: float, edges: Ints) -> Floats:
    """Return the share of the stream between each key of `edges` and the next, by Zipf's law."""
    at = edges + 1.0
    masses = np.log(at) if exponent == 1 else at ** (1 - exponent) / (1 - exponent)
    shares: Floats = np.diff(masses) / (masses[-1] - masses[0])
    return shares

"""The workload of a lookup: R, its stream and memory, and the part of R that a batch is expected to ask for.

Memory M holds a page and the waiting rows: H = (M - v_P) / v_S rows (HYBRIDJOIN, UoA-SE-2010-2, section 5).
The paper's hash and queue are one here, since a waiting row is one entry of each column.

Memory is full between two batches, and a batch comes on top of it. So half of a batch waits on average,
besides H. Also, 64 pages are read at once. When the last of them are read, the rows of the others have left
already. So memory lacks half of the rows that 64 pages answer, on average.
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

# The number of keys, those that are asked for most, that have shares of their own. Other keys share by
# blocks.
_SINGLE_KEYS = 65_536
_BLOCKS = 4_096  # the number of such blocks


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
    """A relation, a stream, and the memory of its lookup.

    Args:
        relation_rows: the number of R's rows.
        page_rows: the number of rows on a page of R.
        row_bytes: the bytes of a row of R, the paper's v_R.
        waiting_bytes: the bytes of a waiting stream row, the paper's v_S.
        memory: the bytes for waiting rows and a page, the paper's M.
        exponent: the exponent of the stream's Zipf distribution over R's keys; 0 is uniform.
        batch_rows: the number of stream rows in a batch.
        scattered: whether keys that are asked for often are anywhere in R, instead of at its beginning.
        at_once: the number of pages that are read at once; in the paper, one.
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
        """Return the number of stream rows that fit into memory beside a number of pages."""
        return max(1, (self.memory - pages * self.rows_on_page * self.row_bytes) // self.waiting_bytes)

    @property
    def waiting_rows(self) -> int:
        """H: rows that fit beside a page, plus half of a batch, less half of the rows answered at once."""
        share = min(1.0, self.at_once * self.rows_on_page / self.relation_rows)
        return max(1, int((self.room(pages=1) + self.batch_rows // 2) / (1 + share)))

    @property
    def seeks(self) -> float:
        """The number of ranges for each page, if random pages are read at once. Neighbours are one range."""
        pages = -(-self.relation_rows // self.rows_on_page)
        return (pages - min(self.at_once, pages) + 1) / pages

    @property
    def page_yield(self) -> float:
        """The rows that a read of the oldest row's page answers while memory is full."""
        return aligned_yield(self._page_shares, self.waiting_rows).rows

    @property
    def asked(self) -> Asked:
        """The part of R that answers an average batch. Its rows are all over R, so a scan reads all of R."""
        shares, keys = _key_blocks(self.exponent, self.relation_rows)
        return Asked(
            keys=distinct_keys(shares / keys, self.batch_rows, keys),
            pages=distinct_keys(self._page_shares, self.batch_rows),
            ranges=1,
            range_pages=self.relation_rows / self.rows_on_page,
        )

    @cached_property
    def _page_shares(self) -> Floats:
        """The share of each page in the stream."""
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
        rows: the number of R's rows.
        page_rows: the number of rows on a page.
    """
    return _shares(exponent, np.append(np.arange(0, rows, page_rows), rows))


def distinct_keys(shares: Floats, rows: int, keys: Floats | float = 1.0) -> float:
    """Return the average number of distinct keys, or pages, that some rows have.

    Args:
        shares: the share of each key or page in the stream.
        rows: the number of rows.
        keys: the number of keys that have each of the shares; one number counts for all shares.
    """
    each = -np.expm1(rows * np.log1p(-np.minimum(shares, 1 - 1e-15)))
    return float((keys * each).sum())


def _key_blocks(exponent: float, rows: int) -> tuple[Floats, Floats]:
    """Return blocks of keys that are asked for about as often: their stream shares and numbers of keys."""
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

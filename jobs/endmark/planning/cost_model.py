"""The cost model: HYBRIDJOIN's equations of memory and cost (UoA-SE-2010-2, section 5), and those of the
other strategies. Nothing here is measured; `calibration` measures.

Memory M holds a page and the waiting rows: H = (M - v_P) / v_S rows, the paper's hash and queue as one, since
a waiting row is one entry of each column. A read of a page takes a + b v_P seconds, a match of each of its
rows c_H, and every stream row c_S in all. With w rows answered per page the service rate is

    mu = w / (a + b v_P + (v_P / v_R) c_H + w c_S).

Rows that wait cost more, which the paper has no word for: each is stored once, and ordered again with all the
others in every batch of B rows, which is H / B times before it is answered. Between batches memory is full,
and each comes on top of it: half of it waits on average, besides H. As 64 pages are read at once, the last
of them answer rows that memory had room for: half of what 64 pages answer. Reading ahead hides a part of all.

w comes from `page_model`, where the paper has 1.36 H D / R. For many rows per page w is 2 H D / R, and mu is
largest for pages of v_P* = (sqrt(a^2 + a B M) - a) / B bytes, where B = b + c_H / v_R; skew makes it smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.lookup.read_sizes import LISTS_AT_ONCE, PAGES_AT_ONCE
from endmark.planning.page_model import aligned_yield

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.planning.page_model import Floats


# Keys that are asked for most, each of which has a share of its own; others are told apart by blocks of them.
_SINGLE_KEYS = 65_536
_BLOCKS = 4_096


@dataclass(frozen=True)
class Costs:
    """Seconds.

    Args:
        seek: of a range of pages beside its bytes, the paper's a.
        byte: of a byte of a page or of a scan, b.
        match: of looking for the partners of one row of R, c_H.
        row: of taking in, answering and putting out one stream row, c_S + c_A + c_E + c_O.
        trip: of a statement that asks for keys, beside its keys.
        key: of a key in it.
        loop: of planning a read and taking it apart, beside its rows.
        store: of keeping a stream row beyond its batch.
        wait: of a row that waits, in each batch.
    """

    seek: float
    byte: float
    match: float
    row: float
    trip: float
    key: float
    loop: float = 0.0
    store: float = 0.0
    wait: float = 0.0


@dataclass(frozen=True)
class Setup:
    """A relation, a stream, and the memory there is.

    Args:
        relation_rows, row_bytes: R's size; `row_bytes` is the paper's v_R.
        waiting_bytes: bytes of a stream row that waits, v_S.
        memory: bytes for waiting rows and a page, M.
        exponent: of the stream's Zipf distribution over R's keys; 0 is uniform.
        batch_rows: stream rows of a batch.
        scattered: whether keys that are asked for often are anywhere in R, instead of at its beginning.
        at_once: pages that are read at once; in the paper, one.
    """

    relation_rows: int
    row_bytes: int
    waiting_bytes: int
    memory: int
    exponent: float
    batch_rows: int
    scattered: bool = False
    at_once: int = PAGES_AT_ONCE

    def room(self, page_bytes: int = 0) -> int:
        """Rows that fit beside a page."""
        return max(1, (self.memory - page_bytes) // self.waiting_bytes)

    def waiting_rows(self, page_bytes: int) -> int:
        """H: those that fit beside a page and half of a batch, without half of what is answered at once."""
        share = min(1.0, self.at_once * self.page_rows(page_bytes) / self.relation_rows)
        return max(1, int((self.room(page_bytes) + self.batch_rows // 2) / (1 + share)))

    def page_rows(self, page_bytes: int) -> int:
        return min(self.relation_rows, max(1, page_bytes // self.row_bytes))

    def ranges(self, page_bytes: int) -> float:
        """Ranges by page where pages are read wherever they are: neighbours are one."""
        pages = -(-self.relation_rows // self.page_rows(page_bytes))
        return (pages - min(self.at_once, pages) + 1) / pages

    def page_shares(self, page_rows: int) -> Floats:
        """Share of the stream by page."""
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


@dataclass(frozen=True)
class Prediction:
    """Stream rows per second, what one read (page, list of keys, scan) answers of them, and its seconds."""

    strategy: str
    rate: float
    rows_per_read: float
    read_seconds: float


def zipf_shares(exponent: float, rows: int, page_rows: int = 1) -> Floats:
    """Return each page's share of the stream by Zipf's law, for keys 1 to `rows` in order.

    Args:
        exponent: Zipf's exponent; 1 is log-uniform.
        rows: rows of R.
        page_rows: rows of a page.
    """
    edges = np.append(np.arange(0, rows, page_rows), rows) + 1.0
    masses = np.log(edges) if exponent == 1 else edges ** (1 - exponent) / (1 - exponent)
    shares: Floats = np.diff(masses) / (masses[-1] - masses[0])
    return shares


def _key_blocks(exponent: float, rows: int) -> tuple[Floats, Floats]:
    """Shares of the stream by block of keys that are asked for about as often, and the keys in each."""
    edges = np.arange(min(rows, _SINGLE_KEYS) + 1)
    if rows > _SINGLE_KEYS:
        further = np.geomspace(_SINGLE_KEYS, rows, _BLOCKS).astype(np.int64)
        edges = np.unique(np.concatenate([edges, further]))
    at = edges + 1.0
    masses = np.log(at) if exponent == 1 else at ** (1 - exponent) / (1 - exponent)
    shares: Floats = np.diff(masses) / (masses[-1] - masses[0])
    return shares, np.diff(edges).astype(np.float64)


def paper_page_bytes(costs: Costs, setup: Setup) -> int:
    """v_P*: best for keys without skew, if one page is read at a time."""
    per_byte = costs.byte + costs.match / setup.row_bytes
    root = np.sqrt(costs.seek**2 + costs.seek * per_byte * setup.memory)
    return max(setup.row_bytes, int((root - costs.seek) / per_byte))


def best_page_bytes(costs: Costs, setup: Setup) -> int:
    """Best for keys without skew, of sizes around v_P*."""
    even, paper = replace(setup, exponent=0.0), paper_page_bytes(costs, setup)
    sizes = [max(setup.row_bytes, int(paper * 2.0**power)) for power in range(-6, 3)]
    return max(sizes, key=lambda size: hybrid(costs, even, size).rate)


def hybrid(costs: Costs, setup: Setup, page_bytes: int) -> Prediction:
    """Predict `hybrid`: it reads aligned pages, and rows that a read leaves wait for the next.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
        page_bytes: bytes of a page.
    """
    page_rows = setup.page_rows(page_bytes)
    answered = aligned_yield(setup.page_shares(page_rows), setup.waiting_rows(page_bytes)).rows
    return _paged("hybrid", costs, setup, page_bytes, answered, costs.seek * setup.ranges(page_bytes))


def mesh(costs: Costs, setup: Setup, page_bytes: int) -> Prediction:
    """Predict `mesh`, a cyclic scan.

    A row leaves once its page is read, after half a round on average. So a read answers 2 H D / R rows
    whatever the distribution of keys. In the paper a row stays for a whole round: H D / R.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
        page_bytes: bytes of a page.
    """
    answered = 2 * setup.waiting_rows(page_bytes) * setup.page_rows(page_bytes) / setup.relation_rows
    return _paged("mesh", costs, setup, page_bytes, answered, costs.seek / setup.at_once)


def inlj(costs: Costs, setup: Setup) -> Prediction:
    """One key at a time, for all rows of a batch that have it."""
    keys = asked_keys(setup)
    rows = setup.batch_rows / keys
    return _prediction("inlj", rows, costs.trip + costs.key + costs.loop + rows * costs.row)


def batched(costs: Costs, setup: Setup, list_keys: int) -> Prediction:
    """Predict `batched`: it reads the distinct keys of each batch in lists.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
        list_keys: keys of a list.
    """
    keys = asked_keys(setup)
    lists = float(np.ceil(keys / list_keys))
    rows = setup.batch_rows / lists
    found = keys / lists
    seconds = found * (costs.key + costs.match) + costs.trip + costs.loop / LISTS_AT_ONCE + rows * costs.row
    return _prediction("batched", rows, seconds)


def pages(costs: Costs, setup: Setup, page_bytes: int) -> Prediction:
    """Predict `hybrid` without a time limit: it reads every page that rows of a batch are on, so none waits.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
        page_bytes: bytes of a page.
    """
    page_rows = setup.page_rows(page_bytes)
    read = distinct_keys(setup.page_shares(page_rows), setup.batch_rows)
    rows = setup.batch_rows / read
    seconds = costs.seek + page_rows * (setup.row_bytes * costs.byte + costs.match)
    return _prediction("pages", rows, seconds + costs.loop / PAGES_AT_ONCE + rows * costs.row)


def scan(costs: Costs, setup: Setup) -> Prediction:
    """All of R for each batch."""
    seconds = costs.seek + setup.relation_rows * (setup.row_bytes * costs.byte + costs.match)
    return _prediction("scan", setup.batch_rows, seconds + setup.batch_rows * costs.row)


def asked_keys(setup: Setup) -> float:
    """Return the average number of keys that the rows of a batch have."""
    shares, keys = _key_blocks(setup.exponent, setup.relation_rows)
    each = -np.expm1(setup.batch_rows * np.log1p(-np.minimum(shares / keys, 1 - 1e-15)))
    return float((keys * each).sum())


def distinct_keys(shares: Floats, rows: int) -> float:
    """Return the average number of keys that `rows` rows have."""
    return float(-np.expm1(rows * np.log1p(-np.minimum(shares, 1 - 1e-15))).sum())


def predict(costs: Costs, setup: Setup, list_keys: int, page_bytes: int | None = None) -> list[Prediction]:
    """Predict every strategy, the fastest first.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
        list_keys: keys of a list.
        page_bytes: bytes of a page; `None` is the best size.
    """
    size = best_page_bytes(costs, setup) if page_bytes is None else page_bytes
    found = [
        hybrid(costs, setup, size),
        mesh(costs, setup, size),
        pages(costs, setup, size),
        inlj(costs, setup),
        batched(costs, setup, list_keys),
        scan(costs, setup),
    ]
    return sorted(found, key=lambda each: -each.rate)


def what_if(costs: Costs, setup: Setup, memories: Sequence[int]) -> dict[int, Prediction]:
    """Predict `hybrid` by memory, each time with its best page.

    Args:
        costs: unit costs.
        setup: the relation and the stream.
        memories: sizes of memory in bytes.
    """
    setups = [replace(setup, memory=memory) for memory in memories]
    return {each.memory: hybrid(costs, each, best_page_bytes(costs, each)) for each in setups}


def _paged(
    strategy: str, costs: Costs, setup: Setup, page_bytes: int, rows: float, seek: float
) -> Prediction:
    """A page that answers so many rows, which have waited."""
    read = seek + setup.page_rows(page_bytes) * (setup.row_bytes * costs.byte + costs.match)
    waits = setup.waiting_rows(page_bytes) / setup.batch_rows * costs.wait
    return _prediction(
        strategy, rows, read + costs.loop / PAGES_AT_ONCE + rows * (costs.row + costs.store + waits)
    )


def _prediction(strategy: str, rows: float, seconds: float) -> Prediction:
    return Prediction(strategy, rows / seconds, rows, seconds)

"""What each strategy would yield: HYBRIDJOIN's equations of memory and cost (UoA-SE-2010-2, section 5), and
the same for the others. Nothing here is measured; `costs` measures.

Memory M holds a page and the waiting rows: H = (M - v_P) / v_S rows, the paper's hash and queue as one, since
a waiting row is one entry of each column. A read of a page takes a + b v_P seconds, a match of each of its
rows c_H, and every stream row c_S in all. With w rows answered per page the service rate is

    mu = w / (a + b v_P + (v_P / v_R) c_H + w c_S).

w comes from `page_model`, where the paper has 1.36 H D / R. For many rows per page w is 2 H D / R, and mu is
largest for pages of v_P* = (sqrt(a^2 + a B M) - a) / B bytes, where B = b + c_H / v_R; skew makes it smaller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from endmark.joins.page_model import aligned_yield

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.joins.page_model import Floats


@dataclass(frozen=True)
class Costs:
    """Seconds.

    Args:
        seek: of a page beside its bytes, the paper's a.
        byte: of a byte of a page or of a scan, b.
        match: of looking for the partners of one row of R, c_H.
        row: of taking in, answering and putting out one stream row, c_S + c_A + c_E + c_O.
        trip: of a statement that asks for keys, beside its keys.
        key: of a key in it.
    """

    seek: float
    byte: float
    match: float
    row: float
    trip: float
    key: float


@dataclass(frozen=True)
class Setup:
    """A relation, a stream, and the memory there is.

    Args:
        relation_rows, row_bytes: R's size; `row_bytes` is the paper's v_R.
        waiting_bytes: bytes of a stream row that waits, v_S.
        memory: bytes for waiting rows and a page, M.
        exponent: of the stream's Zipf distribution over R's keys, in key order; 0 is uniform.
        batch_rows: stream rows of a batch; strategies that carry nothing over depend on it.
    """

    relation_rows: int
    row_bytes: int
    waiting_bytes: int
    memory: int
    exponent: float
    batch_rows: int

    def waiting_rows(self, page_bytes: int) -> int:
        """H: rows that fit beside a page."""
        return max(1, (self.memory - page_bytes) // self.waiting_bytes)


@dataclass(frozen=True)
class Prediction:
    """Stream rows per second, and what one read (page, list of keys, scan) answers of them."""

    strategy: str
    rate: float
    rows_per_read: float


def zipf_shares(exponent: float, rows: int, page_rows: int = 1) -> Floats:
    """Shares of the stream by page, for keys 1 to `rows` in order; log-uniform where the exponent is 1."""
    edges = np.append(np.arange(0, rows, page_rows), rows) + 1.0
    masses = np.log(edges) if exponent == 1 else edges ** (1 - exponent) / (1 - exponent)
    shares: Floats = np.diff(masses) / (masses[-1] - masses[0])
    return shares


def best_page_bytes(costs: Costs, setup: Setup) -> int:
    """v_P*, for keys without skew."""
    per_byte = costs.byte + costs.match / setup.row_bytes
    root = np.sqrt(costs.seek**2 + costs.seek * per_byte * setup.memory)
    return max(setup.row_bytes, int((root - costs.seek) / per_byte))


def hybrid(costs: Costs, setup: Setup, page_bytes: int) -> Prediction:
    """Aligned pages; what a read leaves waits for the next."""
    page_rows = _page_rows(setup, page_bytes)
    shares = zipf_shares(setup.exponent, setup.relation_rows, page_rows)
    answered = aligned_yield(shares, setup.waiting_rows(page_bytes)).rows
    return _per_read("hybrid", answered, _page_seconds(costs, setup, page_rows), costs.row)


def mesh(costs: Costs, setup: Setup, page_bytes: int) -> Prediction:
    """The paper's MESHJOIN: a row stays for a whole round, so a read answers H D / R rows."""
    page_rows = _page_rows(setup, page_bytes)
    answered = setup.waiting_rows(page_bytes) * page_rows / setup.relation_rows
    return _per_read("mesh", answered, _page_seconds(costs, setup, page_rows), costs.row)


def inlj(costs: Costs) -> Prediction:
    """One key at a time."""
    return _per_read("inlj", 1.0, costs.trip + costs.key, costs.row)


def batched(costs: Costs, setup: Setup, list_keys: int) -> Prediction:
    """The distinct keys of each batch in lists."""
    keys = distinct_keys(zipf_shares(setup.exponent, setup.relation_rows), setup.batch_rows)
    lists = np.ceil(keys / list_keys)
    seconds = (keys * costs.key + lists * costs.trip) / lists
    return _per_read("batched", setup.batch_rows / float(lists), float(seconds), costs.row)


def scan(costs: Costs, setup: Setup) -> Prediction:
    """All of R for each batch."""
    seconds = costs.seek + setup.relation_rows * (setup.row_bytes * costs.byte + costs.match)
    return _per_read("scan", setup.batch_rows, seconds, costs.row)


def distinct_keys(shares: Floats, rows: int) -> float:
    """How many keys so many rows have, on average."""
    return float(-np.expm1(rows * np.log1p(-np.minimum(shares, 1 - 1e-15))).sum())


def predict(costs: Costs, setup: Setup, list_keys: int, page_bytes: int | None = None) -> list[Prediction]:
    """Every strategy, the fastest first; pages are of `page_bytes`, or of the best size."""
    size = best_page_bytes(costs, setup) if page_bytes is None else page_bytes
    found = [
        hybrid(costs, setup, size),
        mesh(costs, setup, size),
        inlj(costs),
        batched(costs, setup, list_keys),
        scan(costs, setup),
    ]
    return sorted(found, key=lambda each: -each.rate)


def what_if(costs: Costs, setup: Setup, memories: Sequence[int]) -> dict[int, Prediction]:
    """HYBRIDJOIN's rate by memory, each with its own best page."""
    setups = [replace(setup, memory=memory) for memory in memories]
    return {each.memory: hybrid(costs, each, best_page_bytes(costs, each)) for each in setups}


def _page_rows(setup: Setup, page_bytes: int) -> int:
    return min(setup.relation_rows, max(1, page_bytes // setup.row_bytes))


def _page_seconds(costs: Costs, setup: Setup, page_rows: int) -> float:
    return costs.seek + page_rows * (setup.row_bytes * costs.byte + costs.match)


def _per_read(strategy: str, rows: float, seconds: float, row: float) -> Prediction:
    return Prediction(strategy, rows / (seconds + rows * row), rows)

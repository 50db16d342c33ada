"""HYBRIDJOIN: a stream joined with a relation on disk, a page at a time.

Definition: inner equi-join of the stream rows with the relation R. Paper: UoA-SE-2010-2, section 4.
Deviations: pages are aligned (a directory fixes their bounds) instead of starting at the dequeued key, which
resolves 1.1 to 1.9 times as many rows per read; a read resolves every pending row of its page, found or
proven absent, so rows without a match leave the queue; the queue drains within the batch.
Complexity: at most one read of a page per batch; reads <= min(pages of R, distinct keys).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.relation.read_ahead import read_ahead
from endmark.state import codec
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.relation.contract import KeyRange, PageDirectory, RelationReader
    from endmark.state.search import Ints

# Pages joined at once, and again as many read ahead. Bounds memory by the size of a page, not of R, and lets
# one merge resolve many pages.
PAGES_AT_ONCE = 64


@dataclass
class LookupOutput:
    """What one batch of stream rows became.

    Args:
        joined: stream columns, then relation columns without its key.
        missed: stream rows whose key R does not have.
        page_reads, page_rows: pages read and rows on them.
        read_seconds: time spent waiting for them.
    """

    joined: pa.RecordBatch
    missed: pa.RecordBatch
    page_reads: int
    page_rows: int
    read_seconds: float


class LookupJoin:
    """Joins batches of stream rows with R.

    Args:
        reader, directory: R's pages and where they begin.
        stream_key: the stream's columns that are looked up, in the order of R's key.
        renamed: output names of R's columns, by name; columns not named are left out.
    """

    def __init__(
        self,
        reader: RelationReader,
        directory: PageDirectory,
        stream_key: Sequence[str],
        renamed: dict[str, str],
    ) -> None:
        self._reader = reader
        self._directory = directory
        kinds = [reader.schema.field(name).type for name in reader.key]
        self._stream_key = KeySpec.of(stream_key, kinds)
        self._relation_key = KeySpec.of(reader.key, kinds)
        self._renamed = renamed

    def resolve(self, rows: pa.RecordBatch) -> LookupOutput:
        """Join every row with its page; rows come in the order of pages."""
        coded = self._stream_key.coded(rows)
        pages = self._directory.page_of(rows.select(self._stream_key.columns))
        queue = _oldest_first(pages)
        by_page = np.argsort(pages, kind="stable")
        sorted_pages = pages[by_page]
        joined: list[pa.RecordBatch] = []
        found = np.zeros(rows.num_rows, bool)
        page_rows, read_seconds = 0, 0.0
        groups = [
            np.sort(queue[start : start + PAGES_AT_ONCE]) for start in range(0, len(queue), PAGES_AT_ONCE)
        ]
        blocks = read_ahead(partial(self._reader.pages, self._ranges(group)) for group in groups)
        started = time.perf_counter()
        for wanted, read in zip(groups, blocks, strict=True):
            read_seconds += time.perf_counter() - started
            page_rows += read.num_rows
            pending = by_page[_members(sorted_pages, wanted)]
            block = self._relation_key.sorted(self._relation_key.coded(read))
            keys = self._stream_key.keys(coded.take(pa.array(pending)))
            for i, j in keys.pairs(self._relation_key.keys(block)):
                found[pending[i]] = True
                joined.append(self._pair(rows, pending[i], block, j))
            started = time.perf_counter()
        if not joined:
            nothing = pa.RecordBatch.from_pylist([], schema=self._reader.schema)
            joined.append(self._pair(rows, _NONE, nothing, _NONE))
        return LookupOutput(
            joined=codec.concat(joined),
            missed=rows.filter(pa.array(~found)),
            page_reads=len(queue),
            page_rows=page_rows,
            read_seconds=read_seconds,
        )

    def _ranges(self, pages: Ints) -> list[KeyRange]:
        return [self._directory.range_of(int(page)) for page in pages]

    def _pair(self, rows: pa.RecordBatch, i: Ints, block: pa.RecordBatch, j: Ints) -> pa.RecordBatch:
        looked_up = block.select(list(self._renamed)).take(pa.array(j))
        columns = rows.take(pa.array(i)).columns + looked_up.columns
        return pa.record_batch(columns, names=rows.schema.names + list(self._renamed.values()))


_NONE = np.empty(0, np.int64)


def _oldest_first(pages: Ints) -> Ints:
    """Distinct pages in the order in which their oldest row arrived: the queue of HYBRIDJOIN."""
    distinct, first = np.unique(pages, return_index=True)
    queue: Ints = distinct[np.argsort(first)]
    return queue


def _members(sorted_pages: Ints, wanted: Ints) -> Ints:
    """Positions of rows of the wanted pages among rows sorted by page."""
    first = np.searchsorted(sorted_pages, wanted)
    counts = np.searchsorted(sorted_pages, wanted, "right") - first
    before = np.cumsum(counts) - counts
    positions: Ints = np.arange(counts.sum()) + np.repeat(first - before, counts)
    return positions

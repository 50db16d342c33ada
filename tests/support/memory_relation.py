"""A relation in memory, cut into pages of a few rows, that counts how it is read."""

from __future__ import annotations

from bisect import bisect_left

import pyarrow as pa
import pyarrow.compute as pc

from endmark.relation.contract import KeyRange, KeyValues, PageDirectory
from endmark.state import codec


class MemoryRelation:
    """R as a record batch.

    Args:
        rows: in any order.
        key: the columns of R's key.
    """

    def __init__(self, rows: pa.RecordBatch, key: tuple[str, ...]) -> None:
        order = pc.sort_indices(rows, [(name, "ascending") for name in key])
        self._rows = rows.take(order)
        self._keys: list[KeyValues] = list(
            zip(*(self._rows.column(name).to_pylist() for name in key), strict=True)
        )
        self.schema = rows.schema
        self.key = key
        self.ranges: list[KeyRange] = []
        self.lists: list[list[KeyValues]] = []

    def directory(self, page_rows: int) -> PageDirectory:
        lower = {self._keys[at]: at for at in range(0, len(self._keys), page_rows)}
        rows = pa.array(sorted(lower.values()), pa.int64())
        return PageDirectory(self._rows.select(list(self.key)).take(rows))

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        self.ranges += ranges
        return codec.concat([self._rows.slice(0, 0), *(self._slice(bounds) for bounds in ranges)])

    def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        assert tuple(keys.schema.names) == self.key
        wanted: list[KeyValues] = list(zip(*(column.to_pylist() for column in keys.columns), strict=True))
        assert len(set(wanted)) == len(wanted), "a key asked for twice"
        self.lists.append(wanted)
        found = [at for at, key in enumerate(self._keys) if key in set(wanted)]
        return self._rows.take(pa.array(found, pa.int64()))

    def _slice(self, bounds: KeyRange) -> pa.RecordBatch:
        low, high = bounds
        start = 0 if low is None else self._at(low)
        stop = len(self._keys) if high is None else self._at(high)
        return self._rows.slice(start, max(0, stop - start))

    def _at(self, key: KeyValues) -> int:
        return bisect_left(self._keys, key)


class UnpagedRelation(MemoryRelation):
    """R that can be read by lists of keys alone."""

    def directory(self, page_rows: int) -> PageDirectory:
        return PageDirectory.without_pages(self._rows.select(list(self.key)), "it is a view")

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        raise AssertionError("a page was read")

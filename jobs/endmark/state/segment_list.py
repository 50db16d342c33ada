"""Segments in time order: PWJoin's two-dimensional index (CIKM'04, section 3) at block size.

Across the list rows are ordered by time, so what leaves the window is found by looking at a few segments;
inside a segment they are ordered by key, so a probe or a purge is a merge of sorted columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.state.segment import Segment, int64, merge_sorted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.store import SegmentStore

    Merge = Callable[[pa.RecordBatch], pa.RecordBatch]

# So many neighbours become one segment, unless one of them outweighs the rest. Whoever is rewritten finds
# itself in a segment at least twice as large, so a row is rewritten a logarithmic number of times.
FANOUT = 16


@dataclass(frozen=True)
class Gone:
    """Rows that were alive, and were killed together."""

    segment: Segment
    positions: Ints

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def batch(self) -> pa.RecordBatch:
        return self.segment.batch.take(pa.array(self.positions))


class SegmentList:
    """Rows by key and time.

    Args:
        store: where segments rest.
        key: what rows are found by.
        time: the column that holds their time, int64 or timestamp in microseconds; without one, rows
            never expire.
        merge: applied to key-sorted rows when segments merge, for rows that can be combined.
    """

    def __init__(
        self, store: SegmentStore, key: KeySpec, time: str | None = None, merge: Merge | None = None
    ) -> None:
        self._store = store
        self._merge_rows = merge
        self.key = key
        self.time = time
        self.segments: list[Segment] = []

    @property
    def rows(self) -> int:
        """Live rows."""
        return sum(segment.live for segment in self.segments)

    @property
    def size(self) -> int:
        """Durable bytes, dead rows included."""
        return sum(segment.size for segment in self.segments)

    def restore(self, segment_id: str, rows: int, size: int, low: int, high: int, dead: Bools | None) -> None:
        """Add a segment that is already in the store."""
        load = partial(self._store.load, segment_id)
        self.segments.append(Segment(segment_id, rows, size, low, high, dead, self.key, self.time, load))

    def append(self, batch: pa.RecordBatch) -> None:
        """Add rows that are sorted by key."""
        if batch.num_rows:
            self.segments.append(self._new(batch))

    def find(self, keys: Keys) -> Iterator[tuple[Segment, Ints, Ints]]:
        """Every segment with live rows of these keys, with positions (i in keys, j in the segment)."""
        for segment in self.segments:
            for i, j in segment.find(keys):
                yield segment, i, j

    def contains(self, keys: Keys) -> Bools:
        """Which of `keys` have a live row."""
        found = np.zeros(len(keys), bool)
        for _, i, _ in self.find(keys):
            found[i] = True
        return found

    def remove(self, keys: Keys) -> list[Gone]:
        """Kill all rows of `keys`, which are sorted by code."""
        return [self._kill(segment, j) for segment, _, j in self.find(keys)]

    def expire(self, before: int) -> list[Gone]:
        """Kill rows older than `before` microseconds."""
        gone = []
        for segment in self.segments:
            if segment.low >= before or segment.live == 0:
                continue
            old = segment.times < before
            if segment.dead is not None:
                old &= ~segment.dead
            gone.append(self._kill(segment, np.flatnonzero(old)))
            segment.low = before
        return gone

    @staticmethod
    def _kill(segment: Segment, positions: Ints) -> Gone:
        segment.kill(positions)
        return Gone(segment, positions)

    def maintain(self) -> None:
        """Drop what is dead, rewrite segments that are mostly dead, merge runs of small ones."""
        for position in range(len(self.segments) - 1, -1, -1):
            segment = self.segments[position]
            if segment.live == 0:
                self._replace(position, position + 1, [])
            elif segment.live * 2 < segment.rows:
                self._replace(position, position + 1, [segment.live_batch()])
        while (run := self._mergeable()) is not None:
            start, stop = run
            live = [segment.live_batch() for segment in self.segments[start:stop]]
            merged = merge_sorted(live, self.key)
            self._replace(start, stop, [self._merge_rows(merged) if self._merge_rows else merged])

    def _mergeable(self) -> tuple[int, int] | None:
        for start in range(len(self.segments) - FANOUT + 1):
            sizes = [segment.live for segment in self.segments[start : start + FANOUT]]
            if 2 * max(sizes) <= sum(sizes):
                return start, start + FANOUT
        return None

    def _replace(self, start: int, stop: int, batches: list[pa.RecordBatch]) -> None:
        gone = self.segments[start:stop]
        self.segments[start:stop] = [self._new(batch) for batch in batches]
        for segment in gone:
            self._store.remove(segment.segment_id)

    def _new(self, batch: pa.RecordBatch) -> Segment:
        segment_id, size = self._store.add(batch)
        times = int64(batch.column(self.time)) if self.time else np.zeros(1, np.int64)
        return Segment(
            segment_id,
            batch.num_rows,
            size,
            int(times.min()),
            int(times.max()),
            None,
            self.key,
            self.time,
            lambda: batch,
        )

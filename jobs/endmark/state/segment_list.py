"""Segments in time order: PWJoin's two-dimensional index (CIKM'04, section 3) at block size.

The segments of a list are in order of time, so the rows that leave the window are in a few segments. The rows
of a segment are in order of key, so a probe or a purge is a merge of sorted columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.state import codec
from endmark.state.keys import Keys
from endmark.state.segment import Segment, completed, taken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from endmark.state.keys import KeySpec, Share
    from endmark.state.search import Bools, Ints
    from endmark.state.store import SegmentStore

    Merge = Callable[[pa.RecordBatch], pa.RecordBatch]

# This many neighbours become one segment, unless one of them has more rows than all others together. So each
# rewritten row is then in a segment at least twice as large. A row is rewritten a logarithmic number of
# times.
FANOUT = 16
# Fewer neighbours merge while they have few rows together, since each probe of a segment costs about 60 µs
# however small it is. With batches of 4,600 records, the tasks of a stage took a quarter less time.
FANOUT_OF_SMALL = 4
SMALL_ROWS = 1 << 14
# The most rows of a merge. It holds them in memory several times, and its batch waits for it. When a merge
# could have four times as many rows, a batch of 0.5 s took 8.5 s with 10 M live rows, and a lookup with 1.7 M
# waiting rows took a fifth more time in all.
MERGED_ROWS = 1 << 19
# The most bytes of a merge. Arrow refuses a column with 2 GiB of text.
MERGED_BYTES = 1 << 28
_NONE = np.empty(0, np.int64)
_ANY = pa.schema([])


@dataclass(frozen=True)
class SegmentRows:
    """Some rows of one segment, often those that leave the state together.

    Args:
        segment: the segment.
        positions: the positions of the rows in it.
    """

    segment: Segment
    positions: Ints

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def batch(self) -> pa.RecordBatch:
        return taken(self.segment.batch, self.positions)

    @property
    def alive(self) -> SegmentRows:
        """The rows that are still alive."""
        dead = self.segment.dead
        return self if dead is None else SegmentRows(self.segment, self.positions[~dead[self.positions]])

    def distinct_keys(self) -> tuple[Keys, Ints]:
        """Return the keys of the rows, each once, in order of code, and the number of each row's key.

        The positions of the rows must be in order, and there must be at least one.
        """
        whole = len(self) == self.segment.rows
        keys, key = self.segment.keys if whole else self.segment.keys.take(self.positions), self.segment.key
        if not key.hashed:
            first = np.concatenate([[True], keys.codes[1:] != keys.codes[:-1]])
            return Keys(keys.codes[first]), np.cumsum(first) - 1
        distinct = key.keys(
            key.distinct(self.segment.batch.select(key.stored).take(pa.array(self.positions)))
        )
        group = np.zeros(len(self), np.int64)
        for i, j in keys.pairs(distinct):
            group[i] = j
        return distinct, group

    @property
    def unmatched(self) -> pa.RecordBatch:
        """The rows that never had a partner."""
        return taken(self.segment.batch, self.segment.unmatched(self.positions))


def kill(rows: list[SegmentRows]) -> list[SegmentRows]:
    """Mark rows as dead; return those that were alive."""
    gone = [those for one in rows if len(those := one.alive)]
    for one in gone:
        one.segment.kill(one.positions)
    return gone


def _loaded(store: SegmentStore, segment_id: str, columns: pa.Schema) -> pa.RecordBatch:
    return completed(store.load(segment_id), columns)


class SegmentList:
    """Rows in segments, found by key and by time.

    Args:
        store: keeps the segments.
        key: the key by which rows are found.
        time: the column of their time, int64 or timestamp in microseconds; `None`: rows never expire.
        merge: combines rows, sorted by key, when segments merge; `None`: rows are not combined. It must not
            refer to the owner of this list. In such a cycle, mapped segments stay in memory and on disk until
            the garbage collector runs.
        columns: the first columns of all rows. Segments of an earlier pipeline file may lack some of them, or
            have them in another order; such a column is null in their rows. Without any, rows are as stored.
    """

    def __init__(
        self,
        store: SegmentStore,
        key: KeySpec,
        time: str | None = None,
        merge: Merge | None = None,
        columns: pa.Schema = _ANY,
    ) -> None:
        self._store = store
        self._columns = columns
        self._merge_rows = merge
        self.key = key
        self.time = time
        self.segments: list[Segment] = []

    @property
    def rows(self) -> int:
        """The number of live rows."""
        return sum(segment.live for segment in self.segments)

    @property
    def size(self) -> int:
        """The bytes in the store, dead rows included."""
        return sum(segment.size for segment in self.segments)

    @property
    def resident(self) -> list[Segment]:
        """The segments that are not spilled. New rows meet them at once."""
        return [segment for segment in self.segments if segment.joined_to is None]

    def restore(self, segment_id: str, **facts: Any) -> None:
        """Add a segment that is already in the store; `facts` are the other fields of `Segment`."""
        load = partial(_loaded, self._store, segment_id, self._columns)
        self.segments.append(Segment(segment_id, key=self.key, time=self.time, load=load, **facts))

    def append(self, batch: pa.RecordBatch, matched: Bools | None = None, batch_number: int = 0) -> None:
        """Add rows that are sorted by key.

        Args:
            batch: the rows.
            matched: a mask of the rows that have had a partner; `None` if none has.
            batch_number: the number of the batch that they came in.
        """
        if batch.num_rows:
            self.segments.append(self._new(batch, matched, batch_number))

    def beside(self, arrived: Segment) -> SegmentList:
        """Return a list of these segments and of one that no store holds, to find rows in both."""
        both = SegmentList(self._store, self.key, self.time)
        both.segments = [*self.segments, arrived]
        return both

    def find(self, keys: Keys) -> Iterator[tuple[Segment, Ints, Ints]]:
        """Yield each segment with live rows of some keys, with their positions (i in `keys`, j in it)."""
        for segment in self.segments:
            for i, j in segment.find(keys):
                yield segment, i, j

    def contains(self, keys: Keys) -> Bools:
        """Return a mask of the `keys` that have a live row."""
        found = np.zeros(len(keys), bool)
        for _, i, _ in self.find(keys):
            found[i] = True
        return found

    def having(self, keys: Keys) -> list[SegmentRows]:
        """Return all live rows of `keys`, which are sorted by code."""
        return [SegmentRows(segment, j) for segment, _, j in self.find(keys) if len(j)]

    def where(self, positions: Callable[[Segment], Ints]) -> list[SegmentRows]:
        """Return the live rows among those at the `positions` of each segment."""
        found = (SegmentRows(segment, positions(segment)).alive for segment in self.segments if segment.live)
        return [rows for rows in found if len(rows)]

    def older(self, before: int) -> list[SegmentRows]:
        """Return the live rows with a time before `before` (µs)."""
        return self.where(
            lambda segment: np.flatnonzero(segment.times < before) if segment.low < before else _NONE
        )

    def remove(self, keys: Keys) -> list[SegmentRows]:
        """Kill and return all live rows of `keys`, which are sorted by code."""
        return kill(self.having(keys))

    def remove_where(self, positions: Callable[[Segment], Ints]) -> list[SegmentRows]:
        """Kill and return the live rows among those at the `positions` of each segment."""
        return kill(self.where(positions))

    def keep(self, share: Share) -> None:
        """Kill the live rows whose keys belong to other buckets."""
        self.remove_where(lambda segment: np.flatnonzero(~share.has(segment.keys.codes)))

    def expire(self, before: int) -> list[SegmentRows]:
        """Kill and return the live rows with a time before `before` (µs)."""
        gone = kill(self.older(before))
        self.rise(before)
        return gone

    def rise(self, before: int) -> None:
        """Remember that no live row has a time before `before` (µs)."""
        for segment in self.segments:
            segment.low = max(segment.low, before)

    def oldest(self, bound: int) -> int:
        """Return the time of the oldest live row (µs), or `bound` if no row is older.

        Only segments with dead rows that may have the oldest row are looked at, and remember what was found.
        """
        for segment in sorted(self.segments, key=lambda each: each.low):
            if segment.low >= bound:
                break
            if segment.dead is not None and segment.live:
                segment.low = int(segment.times[~segment.dead].min())
            bound = min(bound, segment.low) if segment.live else bound
        return bound

    def clear(self) -> None:
        """Remove all segments."""
        self._replace(0, len(self.segments), None)

    def maintain(self, barriers: Sequence[int] = ()) -> None:
        """Drop dead segments, rewrite segments in which most rows are dead, and merge runs of small ones.

        Args:
            barriers: numbers of batches. Rows of batches up to such a number never merge with later rows.
        """
        for position in range(len(self.segments) - 1, -1, -1):
            segment = self.segments[position]
            if segment.live == 0:
                self._replace(position, position + 1, None)
            elif segment.live * 2 < segment.rows:
                matched = None if segment.matched is None else segment.live_matched()
                kept = self._new(segment.live_batch(), matched, segment.batch_number, segment.joined_to)
                self._replace(position, position + 1, kept)
        while (run := self._mergeable(barriers)) is not None:
            self._replace(*run, self._merged(self.segments[slice(*run)]))

    def _mergeable(self, barriers: Sequence[int]) -> tuple[int, int] | None:
        """Return where neighbours to merge begin, and where the next segment is; `None` if none are to merge.

        All of them are resident, or spilled up to the same batch, and no barrier is between them.
        """
        # Most lists are too short. To sort their barriers, too, was 4 % of the CPU of small batches.
        if len(self.segments) < min(FANOUT, FANOUT_OF_SMALL):
            return None
        batches = np.array([segment.batch_number for segment in self.segments])
        spilled = [segment.joined_to for segment in self.segments]
        between = np.searchsorted(np.sort(np.array(barriers, np.int64)), batches)
        alike = list(zip(spilled, between.tolist(), strict=True))
        live = np.array([segment.live for segment in self.segments])
        memory = np.array([segment.memory for segment in self.segments])
        for fanout, most in (FANOUT_OF_SMALL, SMALL_ROWS), (FANOUT, MERGED_ROWS):
            for start in range(len(live) - fanout + 1):
                if len(set(alike[start : start + fanout])) > 1:
                    continue
                sizes = live[start : start + fanout]
                fitting = int(np.searchsorted(np.cumsum(sizes), most, "right"))
                held = np.cumsum(memory[start : start + fitting])
                fitting = int(np.searchsorted(held, MERGED_BYTES, "right"))
                if fitting > 1 and 2 * sizes[:fitting].max() <= sizes[:fitting].sum():
                    return start, start + fitting
        return None

    def _merged(self, segments: list[Segment]) -> Segment:
        rows = codec.concat([segment.live_batch() for segment in segments])
        order = self.key.order(rows)
        merged = rows.take(pa.array(order))
        if self._merge_rows is not None:
            merged = self._merge_rows(merged)
        matched = None
        if any(segment.matched is not None for segment in segments):
            matched = np.concatenate([segment.live_matched() for segment in segments])[order]
        newest = max(segment.batch_number for segment in segments)
        return self._new(merged, matched, newest, segments[0].joined_to)

    def _replace(self, start: int, stop: int, segment: Segment | None) -> None:
        gone = self.segments[start:stop]
        self.segments[start:stop] = [] if segment is None else [segment]
        for old in gone:
            self._store.remove(old.segment_id)

    def _new(
        self, batch: pa.RecordBatch, matched: Bools | None, batch_number: int, joined_to: int | None = None
    ) -> Segment:
        segment_id, size = self._store.add(batch)
        arrived = Segment.arrived(batch, self.key, self.time, batch_number)
        return replace(arrived, segment_id=segment_id, size=size, matched=matched, joined_to=joined_to)

"""Closed keys in bounded space: neighbouring keys are one range.

A bucket has only its share of the keys, chosen by a hash, so the keys between two of its own mostly belong to
other buckets. No row of such a key ever comes to this bucket. So a range may hold keys of other buckets, and
says nothing about them: all keys of the bucket's own in a range are closed. Ask only about own keys.

Keys that are hashed have no neighbours, and are kept one by one.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.state import codec, search
from endmark.state.keys import bucket_of
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.operators.stream_join.key_promises import KeyPromises
    from endmark.state.keys import Keys, KeySpec, Share
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment
    from endmark.state.store import SegmentStore

# Neighbours have a gap of at most so many keys for each bucket. A wider gap between two own keys, without a
# third one, comes once in e^16 keys.
_WIDEST = 16


class ClosedRanges:
    """The closed keys of one bucket, as ranges of neighbouring keys if the key is its own code.

    A range is its first key, and in the column `more` the distance to its last key. Its `time` is the newest
    time at which one of its keys was closed. With `by_rows` it also has `by_row`: 1 if rows closed its keys,
    else 0. A range leaves as a whole.

    Attributes:
        ranges: the ranges; single keys if the key is hashed.

    Args:
        store: keeps the ranges.
        key: the key by the names that all sides share.
        buckets: the number of buckets that share the keys.
        by_rows: whether some keys are closed by rows.
    """

    def __init__(self, store: SegmentStore, key: KeySpec, buckets: int, *, by_rows: bool) -> None:
        self._key = key
        self._by_rows = by_rows
        self._joined = partial(_joined, key, buckets)
        merge = None if key.hashed else self._joined
        self.ranges = SegmentList(store, key, "time", merge=merge)

    def add(self, keys: pa.RecordBatch, time: int) -> None:
        """Add keys of the bucket that no range has.

        Args:
            keys: the keys in order of code, with `by_row` if rows close keys. A key may stand several times.
            time: a time (µs) that is not before the keys were closed.
        """
        if not keys.num_rows:
            return
        new = self._distinct(keys)
        new = new.append_column("time", pa.array(np.full(new.num_rows, time)))
        if not self._key.hashed:
            new = self._joined(new.append_column("more", pa.array(np.zeros(new.num_rows, np.int64))))
        self.ranges.append(new)

    def _distinct(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        names = [*self._key.stored, *(["by_row"] if self._by_rows else [])]
        codes = self._key.keys(keys).codes
        if (codes[1:] > codes[:-1]).all():
            return keys.select(names)
        table = pa.Table.from_batches([keys.select(names)]).group_by(self._key.stored, use_threads=False)
        once = table.aggregate([("by_row", "max")] if self._by_rows else []).rename_columns(names)
        return self._key.sorted(codec.concat(once.to_batches()))

    def keep(self, share: Share) -> None:
        """Drop what belongs to other buckets, which had this state together with this one.

        Ranges then begin and end with own keys. `_are_neighbours` takes the first key of a range for an own
        one.
        """
        if self._key.hashed:
            self.ranges.keep(share)
            return
        live = [segment.live_batch() for segment in self.ranges.segments if segment.live]
        self.ranges.clear()
        for ranges in live:
            self.ranges.append(_narrowed(self._key, share, ranges))

    def find(self, keys: Keys) -> tuple[Bools, Bools]:
        """Return a mask of the own keys that are closed, and a mask of those that a row closed."""
        closed, by_row = np.zeros(len(keys), bool), np.zeros(len(keys), bool)
        for segment, i, j in self._find(keys):
            closed[i] = True
            if self._by_rows:
                by_row[i] = int64(segment.batch.column("by_row"))[j] == 1
        return closed, by_row

    def _find(self, keys: Keys) -> Iterator[tuple[Segment, Ints, Ints]]:
        if self._key.hashed:
            yield from self.ranges.find(keys)
            return
        if not len(keys):
            return
        in_order = bool((keys.codes[1:] >= keys.codes[:-1]).all())
        least, greatest = keys.codes.min(), keys.codes.max()
        for segment in self.ranges.segments:
            first = segment.keys.codes
            if first[0] > greatest or _last(segment.batch, first, np.array([-1]))[0] < least:
                continue
            found = _by_range if in_order and len(first) < len(keys) else _by_key
            for i, j in found(segment, keys.codes):
                if len(i):
                    yield segment, i, j

    def remove(self, key_promises: KeyPromises) -> None:
        """Drop the ranges whose keys patterns of every partition have promised."""

        def positions(segment: Segment) -> Ints:
            if self._key.hashed:
                return key_promises.positions(segment)
            first = segment.keys.codes
            return key_promises.positions_of_ranges(first, _last(segment.batch, first, np.arange(len(first))))

        self.ranges.remove_where(positions)


def _by_range(segment: Segment, codes: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield positions (key, live range) of keys in ranges, in pieces, by a search for each range.

    The keys must be in order. If most ranges hold many keys, this is the faster way.
    """
    first = segment.keys.codes
    last = _last(segment.batch, first, np.arange(len(first)))
    begin = np.searchsorted(codes, first)
    nearest = codes[np.minimum(begin, len(codes) - 1)]
    is_hit = (first <= nearest) & (nearest <= last)
    if segment.dead is not None:
        is_hit &= ~segment.dead
    hit = np.flatnonzero(is_hit)
    # Few ranges have keys here, and only these are searched for their ends.
    counts = np.searchsorted(codes, last[hit], "right") - begin[hit]
    for j, i in search.spread(hit, begin[hit], counts):
        yield i, j


def _by_key(segment: Segment, codes: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield positions (key, live range) of keys in ranges, by a search for each key."""
    first = segment.keys.codes
    j = np.searchsorted(first, codes, "right") - 1
    i = np.flatnonzero(j >= 0)
    i = i[codes[i] <= _last(segment.batch, first, j[i])]
    if segment.dead is not None:
        i = i[~segment.dead[j[i]]]
    yield i, j[i]


def _last(ranges: pa.RecordBatch, first: Ints, at: Ints) -> Ints:
    """Return the codes of the last keys of the ranges at some positions."""
    last: Ints = first[at] + int64(ranges.column("more"))[at]
    return last


def _joined(key: KeySpec, buckets: int, ranges: pa.RecordBatch) -> pa.RecordBatch:
    """Join neighbouring ranges whose keys were closed in the same way.

    Args:
        key: the key, which is its own code.
        buckets: the number of buckets that share the keys.
        ranges: the ranges of one bucket, in order. No two have a key of the bucket in common.
    """
    first = key.keys(ranges).codes
    last = _last(ranges, first, np.arange(len(first)))
    together = _are_neighbours(last[:-1], first[1:], buckets)
    if "by_row" in ranges.schema.names:
        by_row = int64(ranges.column("by_row"))
        together &= by_row[1:] == by_row[:-1]
    at = np.flatnonzero(np.concatenate([[True], ~together]))
    ends = np.concatenate([at[1:], [len(first)]]) - 1
    columns = dict(zip(ranges.schema.names, ranges.take(pa.array(at)).columns, strict=True))
    columns["more"] = pa.array(last[ends] - first[at])
    columns["time"] = pa.array(np.maximum.reduceat(int64(ranges.column("time")), at))
    return pa.record_batch(columns)


def _narrowed(key: KeySpec, share: Share, ranges: pa.RecordBatch) -> pa.RecordBatch:
    """Return the parts of ranges from their first to their last own key; ranges without one are left out.

    Args:
        key: the key, which is its own code.
        share: the own keys.
        ranges: the ranges, in order.
    """
    first = key.keys(ranges).codes.copy()
    last = _last(ranges, first, np.arange(len(first)))
    has_own = np.ones(len(first), bool)
    for end, step in (first, 1), (last, -1):
        while len(foreign := np.flatnonzero(has_own & ~share.has(end))):
            is_single = first[foreign] == last[foreign]
            has_own[foreign[is_single]] = False
            end[foreign[~is_single]] += step
    at = np.flatnonzero(has_own)
    columns = dict(zip(ranges.schema.names, ranges.take(pa.array(at)).columns, strict=True))
    columns[key.code] = key.from_codes(first[at], columns[key.code].type)
    columns["more"] = pa.array(last[at] - first[at])
    return pa.record_batch(columns)


def _are_neighbours(codes: Ints, following: Ints, buckets: int) -> Bools:
    """Return a mask of the pairs of own keys with no third own key between them.

    It looks at every key between, since only its hash tells whose it is. Pairs that are far apart do not
    count as neighbours.

    Args:
        codes: the first key of each pair.
        following: the second one, which is greater.
        buckets: the number of buckets that share the keys.
    """
    # The distance of two codes may be more than int64 holds.
    between = following.view(np.uint64) - codes.view(np.uint64) - np.uint64(1)
    found: Bools = between <= np.uint64(_WIDEST * buckets)
    open_pairs = np.flatnonzero(found)
    own = bucket_of(codes[:1], buckets)
    step = 0
    while len(open_pairs := open_pairs[between[open_pairs] > step]):
        step += 1
        is_own = bucket_of(codes[open_pairs] + step, buckets) == own
        found[open_pairs[is_own]] = False
        open_pairs = open_pairs[~is_own]
    return found

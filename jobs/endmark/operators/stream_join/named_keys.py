"""The keys that a side's punctuations name, each with the promises that name it.

Where a key lives in one partition, a promise that names it closes it. Elsewhere it is closed once every
partition has promised it, by its name or by a pattern.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.state import codec
from endmark.state.keys import Keys
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.operators.stream_join.closed_patterns import Promises
    from endmark.state.keys import KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.store import SegmentStore

# After any offset.
LATER = 1 << 62


class NamedKeys:
    """One entry for each key and partition that names it, with the offset of the first promise there.

    `closed` has the entries of closed keys, `promised` those of others; neither has keys that patterns close.

    Args:
        key: by the names that both sides share.
        promises: the patterns of the same side.
        needed: how many partitions must have promised a key that is named.
        by_rows: rows name keys too; `by_row` is 1 in the entries that are of one, else 0.
    """

    def __init__(
        self, store: SegmentStore, key: KeySpec, promises: Promises, needed: int, *, by_rows: bool = False
    ) -> None:
        self._key = key
        self._promises = promises
        self._needed = needed
        self._by_rows = by_rows
        self.closed = SegmentList(store, key)
        self.promised = SegmentList(store, key)
        self._closing: pa.RecordBatch | None = None

    def take(self, punctuations: pa.RecordBatch | None, *, widened: bool) -> pa.RecordBatch | None:
        """Remember keys that are named, with their `partition` and `offset`; returns those closed for the
        first time, once each in order of code. They count as closed after `close`.

        Args:
            widened: patterns came, which may complete keys that were named before.
        """
        entries = None if punctuations is None else self._unknown(self._firsts(punctuations))
        asked = [segment.live_batch() for segment in self.promised.segments if widened]
        asked += [] if entries is None else [entries]
        if not any(batch.num_rows for batch in asked):
            return None
        keys = self._key.distinct(codec.concat([batch.select(self._key.stored) for batch in asked]))
        found = self._key.keys(keys)
        over = self.closed.contains(found) | self._promises.contain(found)
        complete = self._count(found, entries) >= self._needed
        closing = keys.filter(pa.array(complete & ~over))
        self._keep(entries, keys.filter(pa.array(over)), closing)
        return closing if closing.num_rows else None

    def close(self) -> None:
        if self._closing is not None:
            self.closed.append(self._closing)
            self._closing = None

    def forget(self) -> None:
        """Let go of the keys that patterns close."""
        for entries in (self.closed, self.promised):
            entries.remove_where(self._promises.positions)

    def named_at(self, keys: Keys, partitions: Ints, given: pa.RecordBatch | None) -> tuple[Ints, Bools]:
        """The offset of the first promise, by now or among `given`, of each row's own partition that names
        its key, `LATER` without one; and whether that is by a row."""
        first = np.full(len(keys), LATER)
        for entries, i, j in self._find(keys, given, self.closed, self.promised):
            partition, told = int64(entries.column("partition"))[j], _told(entries, j)
            own = partition == partitions[i]
            np.minimum.at(first, i[own], told[own])
        none = first == LATER
        return np.where(none, LATER, first >> 1), (first % 2 == 0) & ~none

    def _find(
        self, keys: Keys, given: pa.RecordBatch | None, *lists: SegmentList
    ) -> Iterator[tuple[pa.RecordBatch, Ints, Ints]]:
        """Entries of some keys, in lists and among those `given`."""
        for entries in lists:
            for segment, i, j in entries.find(keys):
                if len(i):
                    yield segment.batch, i, j
        if given is not None:
            batch = self._key.sorted(given)
            for i, j in keys.pairs(self._key.keys(batch)):
                yield batch, i, j

    def _count(self, keys: Keys, entries: pa.RecordBatch | None) -> Ints:
        """How many partitions have promised each key, in any way."""
        promised = self._promises.count(keys)
        for batch, i, j in self._find(keys, entries, self.promised):
            named = Keys(keys.codes[i], tuple(column.take(pa.array(i)) for column in keys.columns))
            partitions = int64(batch.column("partition"))[j]
            np.add.at(promised, i, ~self._promises.closed_by(named, partitions))
        return promised

    def _keep(self, entries: pa.RecordBatch | None, over: pa.RecordBatch, closing: pa.RecordBatch) -> None:
        """Put entries where they belong; those of keys that are being closed wait for `close`."""
        ending = self._key.keys(closing)
        waiting = [gone.batch for gone in self.promised.remove(ending) if len(gone)]
        if entries is not None:
            keys = self._key.keys(entries)
            closed, now = keys.among(self._key.keys(over)), keys.among(ending)
            self.closed.append(entries.filter(pa.array(closed)))
            self.promised.append(entries.filter(pa.array(~closed & ~now)))
            waiting.append(entries.filter(pa.array(now)))
        if closing.num_rows:
            self._closing = self._key.sorted(codec.concat(waiting))

    def _firsts(self, punctuations: pa.RecordBatch) -> pa.RecordBatch:
        """The first promise of each partition for each key."""
        columns = [*self._key.stored, "partition"]
        told = _told(punctuations, np.arange(punctuations.num_rows))
        told = punctuations.select(columns).append_column("told", pa.array(told))
        firsts = pa.Table.from_batches([told]).group_by(columns, use_threads=False)
        found = codec.concat(firsts.aggregate([("told", "min")]).to_batches())
        first, named = int64(found.column("told_min")), found.select(columns)
        named = named.append_column("offset", pa.array(first >> 1))
        return self._key.sorted(
            named.append_column("by_row", pa.array(1 - first % 2)) if self._by_rows else named
        )

    def _unknown(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Entries that add something to what is known."""
        keys = self._key.keys(entries)
        known = self._promises.contain(keys)
        partitions = int64(entries.column("partition"))
        since, _ = self.named_at(keys, partitions, None)
        return entries.filter(pa.array(~known & (since == LATER)))


def _told(entries: pa.RecordBatch, at: Ints) -> Ints:
    """One number that tells the offset of each entry at these positions, and whether it is of a row. At one
    offset that comes first: what a closing rule makes of a row stands behind it."""
    by_row = int64(entries.column("by_row"))[at] if "by_row" in entries.schema.names else 0
    return 2 * int64(entries.column("offset"))[at] + 1 - by_row

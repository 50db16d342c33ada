"""Closed keys: the keys that a side's punctuations name one by one.

If a key lives in one partition, the first punctuation that names it closes it. Otherwise a key is closed once
every partition has promised it, by its name or by a pattern.
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

    from endmark.operators.stream_join.key_promises import KeyPromises
    from endmark.state.keys import KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.store import SegmentStore

# An offset after any other.
LATER = 1 << 62


class ClosedKeys:
    """The keys that punctuations of one side name, as entries of key, partition and offset.

    The offset is that of the first promise in the partition that names the key. Keys that patterns close have
    no entries.

    Attributes:
        closed: the entries of closed keys.
        promised: the entries of keys that are not closed, since some partitions have not promised them yet.

    Args:
        store: keeps the entries.
        key: the key by the names that both sides share.
        key_promises: the key promises of the same side.
        needed: the number of partitions that must have promised a key before it is closed.
        by_rows: whether rows close keys, too. Entries then have the column `by_row`: 1 if a row closed the
            key, else 0.
    """

    def __init__(
        self,
        store: SegmentStore,
        key: KeySpec,
        key_promises: KeyPromises,
        needed: int,
        *,
        by_rows: bool = False,
    ) -> None:
        self._key = key
        self._key_promises = key_promises
        self._needed = needed
        self._by_rows = by_rows
        self.closed = SegmentList(store, key)
        self.promised = SegmentList(store, key)
        self._newly_closed: pa.RecordBatch | None = None

    def take(self, closed_keys: pa.RecordBatch | None, *, widened: bool) -> pa.RecordBatch | None:
        """Remember the keys that a batch names; return the newly closed ones in the order of their codes.

        The newly closed keys count as closed after `close`. A key is newly closed only in the batch that
        completes it.

        Args:
            closed_keys: keys that punctuations name, with `partition` and `offset`; `None` without any.
            widened: whether patterns came. They may complete keys that were named before.
        """
        entries = None if closed_keys is None else self._unknown(self._firsts(closed_keys))
        candidates = [segment.live_batch() for segment in self.promised.segments if widened]
        candidates += [] if entries is None else [entries]
        if not any(batch.num_rows for batch in candidates):
            return None
        keys = self._key.distinct(codec.concat([batch.select(self._key.stored) for batch in candidates]))
        found = self._key.keys(keys)
        known = self.closed.contains(found) | self._key_promises.contain(found)
        complete = self._count(found, entries) >= self._needed
        newly_closed = keys.filter(pa.array(complete & ~known))
        self._keep(entries, keys.filter(pa.array(known)), newly_closed)
        return newly_closed if newly_closed.num_rows else None

    def close(self) -> None:
        """Store the keys that `take` has returned as closed."""
        if self._newly_closed is not None:
            self.closed.append(self._newly_closed)
            self._newly_closed = None

    def maintain(self) -> None:
        for entries in (self.closed, self.promised):
            entries.maintain()

    def forget(self) -> None:
        """Drop the entries of keys that patterns close."""
        for entries in (self.closed, self.promised):
            entries.remove_where(self._key_promises.positions)

    def promised_since(
        self, keys: Keys, partitions: Ints, closed_keys: pa.RecordBatch | None
    ) -> tuple[Ints, Bools]:
        """Find the first promise of each row's own partition that names its key.

        Args:
            keys: the keys of the rows.
            partitions: the partitions of the rows.
            closed_keys: keys that punctuations of the present batch name, in addition to remembered ones;
                `None` without any.

        Returns:
            The offset of each promise, or `LATER` without one; and a mask of the promises that a row made.
        """
        first = np.full(len(keys), LATER)
        for entries, i, j in self._find(keys, closed_keys, self.closed, self.promised):
            partition, codes = int64(entries.column("partition"))[j], _codes(entries, j)
            own = partition == partitions[i]
            np.minimum.at(first, i[own], codes[own])
        none = first == LATER
        return np.where(none, LATER, first >> 1), (first % 2 == 0) & ~none

    def _find(
        self, keys: Keys, more: pa.RecordBatch | None, *lists: SegmentList
    ) -> Iterator[tuple[pa.RecordBatch, Ints, Ints]]:
        """Yield entries of some keys with positions (key, entry).

        Args:
            keys: the keys.
            more: further entries; `None` without any.
            lists: the lists of entries to search.
        """
        for entries in lists:
            for segment, i, j in entries.find(keys):
                if len(i):
                    yield segment.batch, i, j
        if more is not None:
            batch = self._key.sorted(more)
            for i, j in keys.pairs(self._key.keys(batch)):
                yield batch, i, j

    def _count(self, keys: Keys, entries: pa.RecordBatch | None) -> Ints:
        """Count the partitions that have promised each key, by its name or by a pattern."""
        promised = self._key_promises.count(keys)
        for batch, i, j in self._find(keys, entries, self.promised):
            named = Keys(keys.codes[i], tuple(column.take(pa.array(i)) for column in keys.columns))
            partitions = int64(batch.column("partition"))[j]
            np.add.at(promised, i, ~self._key_promises.promised_by(named, partitions))
        return promised

    def _keep(
        self, entries: pa.RecordBatch | None, known: pa.RecordBatch, newly_closed: pa.RecordBatch
    ) -> None:
        """Store entries in `closed` or `promised`; those of newly closed keys wait for `close`.

        Args:
            entries: the entries of the present batch; `None` without any.
            known: the keys that were closed before.
            newly_closed: the keys that the batch closes.
        """
        new = self._key.keys(newly_closed)
        waiting = [gone.batch for gone in self.promised.remove(new) if len(gone)]
        if entries is not None:
            keys = self._key.keys(entries)
            closed, now = keys.among(self._key.keys(known)), keys.among(new)
            self.closed.append(entries.filter(pa.array(closed)))
            self.promised.append(entries.filter(pa.array(~closed & ~now)))
            waiting.append(entries.filter(pa.array(now)))
        if newly_closed.num_rows:
            self._newly_closed = self._key.sorted(codec.concat(waiting))

    def _firsts(self, closed_keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return an entry for the first promise of each key in each partition."""
        columns = [*self._key.stored, "partition"]
        codes = _codes(closed_keys, np.arange(closed_keys.num_rows))
        coded = closed_keys.select(columns).append_column("code", pa.array(codes))
        firsts = pa.Table.from_batches([coded]).group_by(columns, use_threads=False)
        found = codec.concat(firsts.aggregate([("code", "min")]).to_batches())
        first, entries = int64(found.column("code_min")), found.select(columns)
        entries = entries.append_column("offset", pa.array(first >> 1))
        if self._by_rows:
            entries = entries.append_column("by_row", pa.array(1 - first % 2))
        return self._key.sorted(entries)

    def _unknown(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Return the entries of keys that their partition has not promised before."""
        keys = self._key.keys(entries)
        known = self._key_promises.contain(keys)
        partitions = int64(entries.column("partition"))
        since, _ = self.promised_since(keys, partitions, None)
        return entries.filter(pa.array(~known & (since == LATER)))


def _codes(entries: pa.RecordBatch, at: Ints) -> Ints:
    """Return one number for each entry at some positions, made of its offset and of whether a row made it.

    At the same offset, the promise of the row itself sorts before the promise of a closing rule.
    """
    by_row = int64(entries.column("by_row"))[at] if "by_row" in entries.schema.names else 0
    return 2 * int64(entries.column("offset"))[at] + 1 - by_row

"""The keys a side has closed by their names, each with the promises that name it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.joins.promises import UNKNOWN
from endmark.state import codec
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.joins.promises import Promises
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Ints
    from endmark.state.store import SegmentStore

# After any offset.
LATER = 1 << 62


class NamedKeys:
    """One entry for each key and partition that names it, with the offset of the first promise there.

    `closed` has no keys that `promises` match in every partition.

    Args:
        key: by the names that both sides share.
        promises: the patterns of the same side.
    """

    def __init__(self, store: SegmentStore, key: KeySpec, promises: Promises) -> None:
        self._key = key
        self._promises = promises
        self.closed = SegmentList(store, key, lacking={"partition": UNKNOWN, "offset": UNKNOWN})
        self._closing: pa.RecordBatch | None = None

    def take(self, punctuations: pa.RecordBatch) -> pa.RecordBatch | None:
        """Remember keys that are named, with their `partition` and `offset`; returns those closed for the
        first time, once each in order of code. They count as closed after `close`."""
        entries = self._unknown(self._firsts(punctuations))
        if entries.num_rows == 0:
            return None
        keys = self._key.distinct(entries)
        over = self.closed.contains(self._key.keys(keys))
        closing = keys.filter(pa.array(~over))
        waiting = self._key.keys(entries).among(self._key.keys(closing))
        self.closed.append(entries.filter(pa.array(~waiting)))
        self._closing = entries.filter(pa.array(waiting))
        return closing if closing.num_rows else None

    def close(self) -> None:
        if self._closing is not None:
            self.closed.append(self._closing)
            self._closing = None

    def named_at(self, keys: Keys, partitions: Ints, given: pa.RecordBatch | None) -> Ints:
        """The offset of the first promise, by now or among `given`, of each row's own partition that names
        its key; `LATER` without one."""
        first = np.full(len(keys), LATER)
        for entries, i, j in self._find(keys, given):
            partition, offset = (int64(entries.column(name))[j] for name in ("partition", "offset"))
            own = (partition == partitions[i]) | (partition == UNKNOWN)
            np.minimum.at(first, i[own], offset[own])
        return first

    def _find(
        self, keys: Keys, given: pa.RecordBatch | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Ints, Ints]]:
        for segment, i, j in self.closed.find(keys):
            if len(i):
                yield segment.batch, i, j
        if given is not None:
            entries = self._key.sorted(given)
            for i, j in keys.pairs(self._key.keys(entries)):
                yield entries, i, j

    def _firsts(self, punctuations: pa.RecordBatch) -> pa.RecordBatch:
        """The first promise of each partition for each key."""
        table = pa.Table.from_batches([punctuations])
        firsts = table.group_by([*self._key.stored, "partition"], use_threads=False)
        found = firsts.aggregate([("offset", "min")])
        return self._key.sorted(
            codec.concat(found.rename_columns([*found.column_names[:-1], "offset"]).to_batches())
        )

    def _unknown(self, entries: pa.RecordBatch) -> pa.RecordBatch:
        """Entries that add something to what is known."""
        keys = self._key.keys(entries)
        known = self._promises.contain(keys)
        partitions = int64(entries.column("partition"))
        known |= self.named_at(keys, partitions, None) < LATER
        return entries.filter(pa.array(~known))

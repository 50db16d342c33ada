"""MJoin's state of one side: hash buckets with a part in memory, a purge buffer, and a part on disk.

A pair of rows meets when the younger row probes memory and finds the elder. The probe misses the elder only
if that is on disk already. Hence *the younger owes*: a row whose bucket has a disk part on the other side is
in debt for the rows written there before it came. One look at that disk part settles the debt for ever.
XJoin's histories of probes are not needed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from endmark_papers.algorithms.contract import Counters, Row


@dataclass(slots=True)
class MJoinCounters(Counters):
    """The counters of a stream join, and further ones that MJoin's experiments compare.

    Args:
        right_inserts: rows of the right (many-) side put into state.
        purge_runs: times that one side's state was scanned for rows to purge.
        purge_scans: index entries looked at by these scans.
    """

    right_inserts: int = 0
    purge_runs: int = 0
    purge_scans: int = 0


@dataclass(slots=True, eq=False)
class Stored:
    """A row in state.

    Args:
        row: the row.
        came: the step at which it came.
        in_debt: whether it may have partners on disk that it has not met.
        written: the step at which it was written to disk; infinite while it is in memory.
    """

    row: Row
    came: int
    in_debt: bool
    written: float = math.inf


@dataclass(slots=True)
class Bucket:
    """A hash bucket, with the rows of one side whose keys hash alike.

    Args:
        memory: rows in memory by key, which arrivals of the other side probe.
        buffer: the purge buffer: rows in memory that no arrival can join, but that are in debt.
        disk: rows on disk.
    """

    memory: dict[Hashable, list[Stored]] = field(default_factory=dict)
    buffer: list[Stored] = field(default_factory=list)
    disk: list[Stored] = field(default_factory=list)

    def resident(self) -> list[Stored]:
        return [*chain(*self.memory.values()), *self.buffer]

    def debtors(self) -> list[Stored]:
        """Return the rows in memory that are in debt."""
        return [stored for stored in self.resident() if stored.in_debt]

    def debtors_on_disk(self) -> list[Stored]:
        return [stored for stored in self.disk if stored.in_debt]


class SideState:
    """The state of one side, in hash buckets.

    Args:
        buckets: the number of buckets.
        counters: counts inserts, purges, disk writes, and the rows and nodes held.
    """

    def __init__(self, buckets: int, counters: MJoinCounters) -> None:
        self.buckets = [Bucket() for _ in range(buckets)]
        self.resident = 0
        """The number of rows in memory, with those in purge buffers."""
        self.debts: Counter[Hashable] = Counter()
        """The number of rows in debt, by key; no entry is 0."""
        self._counters = counters

    def __iter__(self) -> Iterator[Row]:
        for bucket in self.buckets:
            for stored in chain(bucket.resident(), bucket.disk):
                yield stored.row

    def of(self, key: Hashable) -> Bucket:
        return self.buckets[hash(key) % len(self.buckets)]

    def insert(self, stored: Stored, *, buffered: bool) -> None:
        """Put a row into the hash table, or straight into the purge buffer."""
        bucket = self.of(stored.row.key)
        if buffered:
            bucket.buffer.append(stored)
        else:
            if stored.row.key not in bucket.memory:
                bucket.memory[stored.row.key] = []
                self._counters.state_nodes += 1
            bucket.memory[stored.row.key].append(stored)
        if stored.in_debt:
            self.debts[stored.row.key] += 1
        self.resident += 1
        self._counters.inserts += 1
        self._counters.hold(1)

    def retire(self, key: Hashable, *, cancel: bool = False) -> None:
        """Purge the rows of a key from memory, since no arrival can join them any more.

        Rows in debt move to the purge buffer, unless `cancel` says that they owe nothing any more.
        """
        bucket = self.of(key)
        rows = bucket.memory.pop(key, [])
        self._counters.state_nodes -= bool(rows)
        bucket.buffer += [stored for stored in rows if stored.in_debt and not cancel]
        gone = [stored for stored in rows if cancel or not stored.in_debt]
        self.resident -= len(gone)
        self._purged(gone)

    def purge(self, spent: Callable[[Hashable], bool]) -> None:
        """Scan the hash tables, and retire every key of which the other side has no more rows to process."""
        for bucket in self.buckets:
            self._counters.purge_scans += len(bucket.memory)
            for key in [key for key in bucket.memory if spent(key)]:
                self.retire(key)

    def settle(self, debtors: Collection[Stored]) -> None:
        """Cancel the debts of rows that have met all their partners, and purge those in purge buffers."""
        for stored in debtors:
            self._cancel(stored)
        for index in {hash(stored.row.key) % len(self.buckets) for stored in debtors}:
            bucket = self.buckets[index]
            free = [stored for stored in bucket.buffer if not stored.in_debt]
            bucket.buffer = [stored for stored in bucket.buffer if stored.in_debt]
            self.resident -= len(free)
            self._purged(free)

    def purge_disk(self, bucket: Bucket, useless: Collection[Stored]) -> None:
        """Write a bucket's disk part again without its useless rows."""
        if not useless:
            return
        bucket.disk = [stored for stored in bucket.disk if stored not in useless]
        self._purged(useless)
        self._counters.page_writes += bool(bucket.disk)

    @property
    def fullest(self) -> int:
        """The number of rows in memory of the bucket that has most of them."""
        return max(len(bucket.resident()) for bucket in self.buckets)

    def write_fullest(self, now: int) -> None:
        """Move the rows in memory of the bucket that has most of them to its disk part, at the step `now`."""
        bucket = max(self.buckets, key=lambda bucket: len(bucket.resident()))
        for stored in bucket.resident():
            stored.written = now
            bucket.disk.append(stored)
            self.resident -= 1
        self._counters.state_nodes -= len(bucket.memory)
        bucket.memory, bucket.buffer = {}, []
        self._counters.page_writes += 1

    def clear(self) -> None:
        """Drop all rows, once the streams have ended and every pair has met."""
        self._counters.hold(-sum(1 for _ in self))
        self._counters.state_nodes -= sum(len(bucket.memory) for bucket in self.buckets)
        self.buckets = [Bucket() for _ in self.buckets]
        self.debts.clear()
        self.resident = 0

    def _purged(self, gone: Collection[Stored]) -> None:
        for stored in gone:
            self._cancel(stored)
        self._counters.purged += len(gone)
        self._counters.hold(-len(gone))

    def _cancel(self, stored: Stored) -> None:
        if not stored.in_debt:
            return
        stored.in_debt = False
        self.debts[stored.row.key] -= 1
        if not self.debts[stored.row.key]:
            del self.debts[stored.row.key]

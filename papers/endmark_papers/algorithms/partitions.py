"""Hash partitions with a part in memory and a part on disk, and the record of which pairs have met.

Definition: rows of both sides are hashed by key into partitions. For each side, a partition keeps a memory
part (a hash table, probed by every arrival of the other side), a disk part (read as a whole), and waiting
rows (the purge buffer: no arrival can join them any more, but rows on the other side's disk part may).

Paper: XJoin (Urhan and Franklin, Data Engineering Bulletin 23(2), 2000); the purge buffer is PJoin's
(EDBT'04). A row's residence runs from its arrival (ATS) to its departure to disk (DTS). Two rows have met

- when the later arrived while the earlier was resident: the arrival probed it;
- or when one was on a disk part that was joined with memory while the other was resident: the history has
  the time of each such probe, and how much of the disk part it covered;
- or when the whole partition was joined since: then every pair of rows that had arrived by then has met.

Deviations: time is a counter that grows with every step, so that no two steps tie. The third case replaces
the histories that precede it, which keeps them short. A flush writes the waiting rows too, so the memory
budget is kept strictly.

Complexity: an arrival looks at the rows of its key in memory. A probe reads one disk part, a join of the
whole partition two. The test whether a pair has met costs O(history). Purging by a constant costs one access,
by another pattern a scan of the keys in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from endmark.errors import ConfigError
from endmark.punctuation.pattern import Equals, Pattern
from endmark_papers.algorithms.contract import Counters, Result, Row, Side


@dataclass(slots=True)
class Stored:
    """A row and its residence in memory.

    Args:
        row: the row.
        arrived: the first step of its residence.
        departed: the step at which it was written to disk; infinite while it is in memory.
    """

    row: Row
    arrived: int
    departed: float = math.inf

    def resident_with(self, other: Stored) -> bool:
        return max(self.arrived, other.arrived) < min(self.departed, other.departed)


class Probe(NamedTuple):
    """A past probe: a join of a disk part with the rows that the other side had in memory.

    Args:
        flushed: rows written to the disk part up to this step took part.
        at: rows that were resident at this step took part.
    """

    flushed: float
    at: int

    def covered(self, disk: Stored, memory: Stored) -> bool:
        return disk.departed <= self.flushed and memory.arrived <= self.at < memory.departed


Chains = dict[Hashable, list[Stored]]


@dataclass(slots=True)
class Part:
    """One side of a partition.

    Args:
        memory: rows by key, which arrivals of the other side probe.
        waiting: the purge buffer, by key.
        disk: rows on disk, in the order in which they were written.
        history: the probes of `disk` since the whole partition was joined last.
    """

    memory: Chains = field(default_factory=dict)
    waiting: Chains = field(default_factory=dict)
    disk: list[Stored] = field(default_factory=list)
    history: list[Probe] = field(default_factory=list)

    def resident(self) -> Iterator[Stored]:
        return chain(*self.memory.values(), *self.waiting.values())

    @property
    def nodes(self) -> int:
        """The number of entries in the hash tables and in the history."""
        return len(self.memory) + len(self.waiting) + len(self.history)


class Partition:
    """A partition, with the rows of both sides whose keys hash alike."""

    def __init__(self) -> None:
        self.parts = {side: Part() for side in Side}
        self.joined = 0  # step of the last whole join: every pair of rows that had arrived by then has met
        self.changed = 0  # step at which a row was stored or a key closed last

    def rows(self, side: Side) -> Iterator[Stored]:
        part = self.parts[side]
        return chain(part.resident(), part.disk)

    def has_disk(self) -> bool:
        return any(part.disk for part in self.parts.values())

    @property
    def waiting(self) -> int:
        """The number of rows in the purge buffers."""
        return sum(len(rows) for part in self.parts.values() for rows in part.waiting.values())

    @property
    def due(self) -> bool:
        """True if a join of the whole partition may give results or purge rows."""
        return self.has_disk() and self.changed > self.joined

    def met(self, one: Stored, other: Stored) -> bool:
        return (
            max(one.arrived, other.arrived) <= self.joined
            or one.resident_with(other)
            or any(probe.covered(one, other) for probe in self.parts[one.row.side].history)
            or any(probe.covered(other, one) for probe in self.parts[other.row.side].history)
        )

    def owed(self, stored: Stored) -> bool:
        """Return whether the other side's disk part may hold rows that a resident row has not met."""
        disk = self.parts[stored.row.side.other].disk
        return bool(disk) and disk[0].departed <= stored.arrived and stored.arrived > self.joined

    def unprobed(self, side: Side) -> int:
        """Count the pairs of a disk part with the other side's memory that no probe has covered.

        A probe gives at most that many results.
        """
        part = self.parts[side]
        last = part.history[-1] if part.history else Probe(self.joined, self.joined)
        old_disk = sum(stored.departed <= last.flushed for stored in part.disk)
        old_memory = [stored.arrived <= last.at for stored in self.parts[side.other].resident()]
        return len(part.disk) * len(old_memory) - old_disk * sum(old_memory)


class Partitions:
    """The partitions of a join, with one memory budget for both sides.

    Args:
        count: the number of partitions.
        memory_rows: rows that both sides together may hold in memory; `None`: no limit.
        counters: counts probes, results, inserts, purges, disk accesses and rows held.

    Raises:
        ConfigError: a number is below 1.
    """

    def __init__(self, count: int, memory_rows: int | None, counters: Counters) -> None:
        if count < 1 or (memory_rows is not None and memory_rows < 1):
            raise ConfigError(
                f"a join needs at least one partition and one row of memory, not partitions={count}, "
                f"memory_rows={memory_rows}"
            )
        self._partitions = [Partition() for _ in range(count)]
        self._memory_rows = memory_rows
        self._counters = counters
        self._clock = 0
        self._resident = 0

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._partitions)

    def rows(self) -> Iterator[Row]:
        return (stored.row for partition in self for side in Side for stored in partition.rows(side))

    @property
    def nodes(self) -> int:
        return sum(part.nodes for partition in self for part in partition.parts.values())

    @property
    def full(self) -> bool:
        return self._memory_rows is not None and self._resident >= self._memory_rows

    def of(self, key: Hashable) -> Partition:
        return self._partitions[hash(key) % len(self._partitions)]

    def chain(self, row: Row) -> int:
        """Return the rows that a probe compares if each partition's memory is one chain without keys."""
        return sum(map(len, self.of(row.key).parts[row.side.other].memory.values()))

    def arrive(self, row: Row) -> tuple[Stored, list[Result]]:
        """Join an arrival with the other side's memory; return it as it is to be kept, and the results."""
        stored = Stored(row, self._tick())
        partners = self.of(row.key).parts[row.side.other].memory.get(row.key, [])
        self._counters.probes += len(partners)
        return stored, self._emit((stored, partner) for partner in partners)

    def keep(self, stored: Stored, waiting: bool = False) -> None:
        """Put an arrival into the hash table or, if it is `waiting`, straight into the purge buffer."""
        partition = self.of(stored.row.key)
        part = partition.parts[stored.row.side]
        chains = part.waiting if waiting else part.memory
        chains.setdefault(stored.row.key, []).append(stored)
        partition.changed = stored.arrived
        self._resident += 1
        self._counters.inserts += 1
        self._counters.hold(1)

    def flush_largest(self) -> None:
        """Write the part with the most rows in memory to disk."""
        parts = [part for partition in self for part in partition.parts.values()]
        part = max(parts, key=lambda part: sum(1 for _ in part.resident()))
        now = self._tick()
        for stored in part.resident():
            stored.departed = now
            part.disk.append(stored)
            self._resident -= 1
        part.memory, part.waiting = {}, {}
        self._counters.page_writes += 1

    def probe_disk(self, partition: Partition, side: Side) -> list[Result]:
        """Join a disk part with what the other side has in memory (XJoin's second stage)."""
        part = partition.parts[side]
        results = self._join_unmet(partition, part.disk, partition.parts[side.other].resident())
        self._counters.page_reads += 1
        part.history.append(Probe(part.disk[-1].departed, self._tick()))
        return results

    def join_whole(self, partition: Partition) -> list[Result]:
        """Join all rows of a partition that have not met (XJoin's third stage)."""
        results = self._join_unmet(partition, partition.rows(Side.LEFT), partition.rows(Side.RIGHT))
        self._counters.page_reads += sum(bool(part.disk) for part in partition.parts.values())
        partition.joined = self._tick()
        for part in partition.parts.values():
            part.history.clear()
        return results

    def close(self, side: Side, pattern: Pattern) -> list[Row]:
        """Purge the rows of `side` in memory whose keys the other side has closed.

        Rows that may have partners on disk move to the purge buffer.

        Returns:
            The rows purged.
        """
        freed = list[Row]()
        for partition in self._partitions_of(pattern):
            partition.changed = self._tick()
            part = partition.parts[side]
            for key in keys_matching(part.memory, pattern):
                for stored in part.memory.pop(key):
                    if partition.owed(stored):
                        part.waiting.setdefault(key, []).append(stored)
                    else:
                        freed.append(stored.row)
        self._resident -= len(freed)
        return self._purged(freed)

    def sweep(self, partition: Partition, side: Side, closed: Callable[[Hashable], bool]) -> list[Row]:
        """Purge one side's rows after a join of a whole partition.

        These are the rows in the purge buffer, and those on disk whose keys the other side has closed.

        Args:
            partition: the partition that was joined.
            side: the side whose rows are purged.
            closed: returns whether the other side has closed a key.

        Returns:
            The rows purged.
        """
        part = partition.parts[side]
        freed = [stored.row for stored in chain(*part.waiting.values())]
        self._resident -= len(freed)
        left = [stored for stored in part.disk if not closed(stored.row.key)]
        if len(left) < len(part.disk):
            freed += [stored.row for stored in part.disk if closed(stored.row.key)]
            self._counters.page_writes += bool(left)
        part.waiting, part.disk = {}, left
        return self._purged(freed)

    def _partitions_of(self, pattern: Pattern) -> list[Partition]:
        if isinstance(pattern, Equals):
            return [self.of(pattern.value)]
        return self._partitions

    def _tick(self) -> int:
        self._clock += 1
        return self._clock

    def _purged(self, rows: list[Row]) -> list[Row]:
        self._counters.purged += len(rows)
        self._counters.hold(-len(rows))
        return rows

    def _join_unmet(
        self, partition: Partition, ones: Iterable[Stored], others: Iterable[Stored]
    ) -> list[Result]:
        table: Chains = {}
        for other in others:
            table.setdefault(other.row.key, []).append(other)
        pairs = [(one, other) for one in ones for other in table.get(one.row.key, [])]
        self._counters.probes += len(pairs)
        return self._emit(pair for pair in pairs if not partition.met(*pair))

    def _emit(self, pairs: Iterable[tuple[Stored, Stored]]) -> list[Result]:
        results = [Result.of(one.row, other.row) for one, other in pairs]
        self._counters.results += len(results)
        return results


def keys_matching(table: Mapping[Hashable, object], pattern: Pattern) -> list[Hashable]:
    """Return a hash table's keys that a pattern matches, by one access for a constant, else by a scan."""
    if isinstance(pattern, Equals):
        return [pattern.value] if pattern.value in table else []
    return [key for key in table if pattern.matches(key)]  # type: ignore[arg-type]

"""XJoin: a symmetric hash join that spills to disk and joins what it spilled while its inputs pause.

Definition: three stages over hash partitions. The first joins every arrival with the other side's memory
and keeps it; when memory is full, the largest partition of either side is written to disk. The second, while
both inputs pause, joins the disk part of one partition with the other side's memory. The third, after the
end of both, joins whatever has not met.

Paper: Urhan and Franklin, Data Engineering Bulletin 23(2), 2000. `partitions` explains how it finds the pairs
that have met.

Deviations: time is a step counter, and a pause is a call of `idle`, not a time-out. An arrival probes before
room is made for it, so it still meets the rows that are then written to disk. The activation threshold of the
second stage counts pairs that no probe has covered yet. This is an upper bound of the results, since their
expected number needs the selectivity, which is unknown. Punctuations are ignored.

Complexity: an arrival costs the rows of its key in memory, a second stage one disk part, the third stage
all disk parts. State is every row that ever came.
"""

from __future__ import annotations

from collections.abc import Iterator

from endmark.errors import ConfigError
from endmark_papers.algorithms.contract import Closing, Counters, Element, Output, Row, Side
from endmark_papers.algorithms.partitions import Partitions


class XJoin:
    """A join that keeps every row for ever, in bounded memory and on disk.

    Args:
        memory_rows: rows that both sides together may hold in memory; `None`: no limit, nothing is spilled.
        partitions: the number of hash partitions.
        activation: the least number of pairs that no probe has covered for which a disk part is read in a
            pause.

    Raises:
        ConfigError: a number is below 1.
    """

    def __init__(self, memory_rows: int | None, partitions: int = 4, activation: int = 1) -> None:
        if activation < 1:
            raise ConfigError(f"a disk part is read for at least one pair, not activation={activation}")
        self.counters = Counters()
        self._store = Partitions(partitions, memory_rows, self.counters)
        self._activation = activation

    def process(self, element: Element) -> list[Output]:
        """Run the first stage: join an arrival with the other side's memory, and keep it."""
        if isinstance(element, Closing):
            return []
        stored, results = self._store.arrive(element)
        if self._store.full:
            self._store.flush_largest()
        self._store.keep(stored)
        self.counters.state_nodes = self._store.nodes
        return [*results]

    def idle(self) -> list[Output]:
        """Run the second stage for the disk part that may give most results."""
        parts = [(partition, side) for partition in self._store for side in Side]
        partition, side = max(parts, key=lambda part: part[0].unprobed(part[1]))
        if partition.unprobed(side) < self._activation:
            return []
        results = self._store.probe_disk(partition, side)
        self.counters.state_nodes = self._store.nodes
        return [*results]

    def finish(self) -> list[Output]:
        """Run the third stage: join all pairs that have not met."""
        spilled = [partition for partition in self._store if partition.has_disk()]
        results = [result for partition in spilled for result in self._store.join_whole(partition)]
        self.counters.state_nodes = self._store.nodes
        return [*results]

    def chain(self, row: Row) -> int:
        """Return the rows that a probe compares if each partition's memory is one chain without keys."""
        return self._store.chain(row)

    def live(self) -> Iterator[Row]:
        return self._store.rows()

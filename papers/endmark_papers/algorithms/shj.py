"""SHJ: a symmetric hash join, which keeps all rows and knows no punctuations.

Definition: there is a hash table per side. An arrival is joined with the rows of its key in the other side's
table and then put into its own, so every pair is emitted once, by its later row.

Paper: Wilschut and Apers, PDIS'91; the starting point of XJoin, PJoin and PWJoin (CIKM'04, section 2).

Deviations: none. Punctuations are ignored.

Complexity: an arrival costs the rows of its key. State is every row that ever came.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import chain

from endmark_papers.algorithms.contract import Closing, Counters, Element, Output, Result, Row, Side


class SymmetricHashJoin:
    """A join that keeps every row for ever."""

    def __init__(self) -> None:
        self.counters = Counters()
        self._tables: dict[Side, dict[Hashable, list[Row]]] = {side: {} for side in Side}

    def process(self, element: Element) -> list[Output]:
        if isinstance(element, Closing):
            return []
        partners = self._tables[element.side.other].get(element.key, [])
        self._tables[element.side].setdefault(element.key, []).append(element)
        self.counters.probes += len(partners)
        self.counters.results += len(partners)
        self.counters.inserts += 1
        self.counters.hold(1)
        self.counters.state_nodes = sum(map(len, self._tables.values()))
        return [Result.of(element, partner) for partner in partners]

    def idle(self) -> list[Output]:
        return []

    def finish(self) -> list[Output]:
        return []

    def live(self) -> Iterator[Row]:
        return (row for table in self._tables.values() for row in chain(*table.values()))

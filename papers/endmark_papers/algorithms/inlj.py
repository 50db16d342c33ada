"""INLJ: an index nested loop join of a stream with R, the baseline of the lookup joins.

Definition: a stream row looks its key up in R's index. A batch looks up each of its distinct keys once.

Paper: UoA-SE-2010-2, section 2 (related work) and the comparison of section 6.

Deviations: the paper takes one row at a time, which is `batch=1`; larger batches stand for today's databases,
which answer a list of keys in one statement. `page_reads` counts index accesses, one per distinct key.

Complexity: one index access per distinct key of a batch. No row waits for the pages of others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from endmark.errors import ConfigError
from endmark_papers.algorithms.relation import (
    Lookup,
    LookupCounters,
    MasterRow,
    Match,
    Miss,
    PagedRelation,
    StreamRow,
)


class IndexNestedLoopJoin:
    """A lookup join that looks up each key in R's index.

    Args:
        relation: R.
        batch: the most rows looked up together; a loop does not wait for that many.

    Raises:
        ConfigError: `batch` is below one.
    """

    def __init__(self, relation: PagedRelation, batch: int = 1) -> None:
        if batch < 1:
            raise ConfigError(f"INLJ looks up at least one row at a time, not batch={batch}")
        self.counters = LookupCounters()
        self._relation = relation
        self._batch = batch
        self._buffer: deque[StreamRow] = deque()

    def offer(self, rows: Sequence[StreamRow]) -> None:
        self._buffer.extend(rows)

    def loop(self) -> list[Lookup]:
        if not self._buffer:
            return []
        self.counters.loops += 1
        rows = [self._buffer.popleft() for _ in range(min(self._batch, len(self._buffer)))]
        self.counters.inserts += len(rows)
        self.counters.hold(len(rows))
        found = {key: self._find(key) for key in {row.key for row in rows}}
        output: list[Lookup] = []
        for row in rows:
            partners = found[row.key]
            output += [Match(row, master) for master in partners] or [Miss(row)]
            self.counters.results += len(partners)
            self.counters.misses += not partners
        self.counters.hold(-len(rows))
        return output

    def finish(self) -> list[Lookup]:
        output: list[Lookup] = []
        while self._buffer:
            output += self.loop()
        return output

    def pending(self) -> Iterator[StreamRow]:
        return iter(self._buffer)

    def _find(self, key: int) -> Sequence[MasterRow]:
        found = self._relation.find(key)
        self.counters.page_reads += 1
        self.counters.rows_read += len(found)
        self.counters.probes += len(found)
        return found

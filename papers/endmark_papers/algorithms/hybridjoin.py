"""HYBRIDJOIN: a join of a stream with R, in which the oldest pending row picks the page to read.

Definition: pending rows are kept in a hash multimap and in a queue in order of arrival. Every loop fills the
free memory from the stream, reads the page of R that the queue's front row needs, and answers every pending
row whose key is in the page's range of keys.

Paper: UoA-SE-2010-2, section 4 and figure 5.

Deviations: figure 5 leaves w undefined at the start, and counts it per row of R. Here w is the free memory,
and a loop takes as many rows into it as the stream has. All pending rows in the page's range of keys are
answered. Rows without a partner become a `Miss`; figure 5 keeps them for ever. Pages are aligned to fixed key
ranges, since theorem 1 does not hold otherwise. An option lets pages begin at the front row's key, which is
another way to read "using dequeued value as an index". R may have equal keys. A queue node holds the whole
row, and the hash holds nodes only.

Complexity: a loop costs one page, D_t probes, O(1) queue work per answered row and O(log H_t) comparisons in
the sorted keys per new key. While memory is full, a page is read at most once per H_t consecutive stream rows
(theorem 1). Every read answers the oldest row, so reads never outnumber rows (theorem 2), and no row starves.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Literal

from endmark.errors import ConfigError
from endmark_papers.algorithms.relation import (
    Lookup,
    LookupCounters,
    Match,
    Miss,
    Page,
    PagedRelation,
    StreamRow,
)

_ENDS = 0  # the node before the front and behind the back


class ArrivalQueue:
    """A doubly linked list of rows in order of arrival, with O(1) removal anywhere.

    Links are indices into arrays, since `copy.deepcopy` copies linked objects by recursion, which fails at
    some hundred nodes.
    """

    def __init__(self) -> None:
        self._rows: list[StreamRow | None] = [None]
        self._before = [_ENDS]
        self._after = [_ENDS]
        self._unused: list[int] = []

    def __len__(self) -> int:
        return len(self._rows) - len(self._unused) - 1

    def __iter__(self) -> Iterator[StreamRow]:
        node = self._after[_ENDS]
        while node != _ENDS:
            yield self.row(node)
            node = self._after[node]

    @property
    def front(self) -> StreamRow:
        """The oldest row.

        Raises:
            LookupError: the queue is empty.
        """
        return self.row(self._after[_ENDS])

    def row(self, node: int) -> StreamRow:
        row = self._rows[node]
        if row is None:
            raise LookupError(f"node {node} holds no row")
        return row

    def append(self, row: StreamRow) -> int:
        """Append a row at the back; return its node, which is valid until the row is removed."""
        if self._unused:
            node = self._unused.pop()
        else:
            node = len(self._rows)
            self._rows.append(None)
            self._before.append(_ENDS)
            self._after.append(_ENDS)
        last = self._before[_ENDS]
        self._rows[node] = row
        self._before[node], self._after[node] = last, _ENDS
        self._after[last] = self._before[_ENDS] = node
        return node

    def remove(self, node: int) -> None:
        before, after = self._before[node], self._after[node]
        self._after[before], self._before[after] = after, before
        self._rows[node] = None
        self._unused.append(node)


class HybridJoin:
    """A lookup join that reads the page that the oldest pending row needs, and answers all rows that it can.

    Args:
        relation: R.
        memory_rows: the most pending rows held, the paper's H_t; the stream buffer is no part of them.
        pages: `aligned` reads the pages of R's directory, `paper` reads pages that begin at the front row's
            key.

    Raises:
        ConfigError: `memory_rows` is below 1, or `pages` is neither of the two.
    """

    def __init__(
        self,
        relation: PagedRelation,
        memory_rows: int,
        pages: Literal["aligned", "paper"] = "aligned",
    ) -> None:
        if memory_rows < 1:
            raise ConfigError(f"HYBRIDJOIN holds at least one row, not memory_rows={memory_rows}")
        if pages not in ("aligned", "paper"):
            raise ConfigError(f'pages of HYBRIDJOIN are "aligned" or "paper", not "{pages}"')
        self.counters = LookupCounters()
        self._relation = relation
        self._memory_rows = memory_rows
        self._aligned = pages == "aligned"
        self._buffer: deque[StreamRow] = deque()
        self._queue = ArrivalQueue()
        self._hash: dict[int, list[int]] = {}
        """Queue nodes by key, oldest first."""
        self._keys: list[int] = []
        """The keys of the hash, sorted, since a page answers a range of them."""

    def offer(self, rows: Sequence[StreamRow]) -> None:
        self._buffer.extend(rows)

    def loop(self) -> list[Lookup]:
        self._load()
        if not self._queue:
            return []
        self.counters.loops += 1
        page = self._read()
        return [*self._join(page), *self._answer(page)]

    def finish(self) -> list[Lookup]:
        output: list[Lookup] = []
        while self._buffer or self._queue:
            output += self.loop()
        return output

    def pending(self) -> Iterator[StreamRow]:
        yield from self._queue
        yield from self._buffer

    def _load(self) -> None:
        """Fill the free memory with rows that the stream has; never wait for more of them."""
        taken = min(self._memory_rows - len(self._queue), len(self._buffer))
        for _ in range(taken):
            row = self._buffer.popleft()
            if row.key not in self._hash:
                self._hash[row.key] = []
                insort(self._keys, row.key)
            self._hash[row.key].append(self._queue.append(row))
        self.counters.inserts += taken
        self.counters.state_nodes += taken
        self.counters.hold(taken)

    def _read(self) -> Page:
        key = self._queue.front.key
        if self._aligned:
            page = self._relation.read(self._relation.page_of(key))
        else:
            page = self._relation.read_from(key)
        self.counters.page_reads += 1
        self.counters.rows_read += len(page.rows)
        self.counters.probes += len(page.rows)
        return page

    def _join(self, page: Page) -> list[Lookup]:
        output: list[Lookup] = [
            Match(self._queue.row(node), master)
            for master in page.rows
            for node in self._hash.get(master.key, ())
        ]
        self.counters.results += len(output)
        return output

    def _answer(self, page: Page) -> list[Lookup]:
        """Remove every pending row in the page's range of keys; return those without a partner."""
        start, end = bisect_left(self._keys, page.low), bisect_left(self._keys, page.high)
        present = {master.key for master in page.rows}
        misses: list[Lookup] = []
        for key in self._keys[start:end]:
            nodes = self._hash.pop(key)
            if key not in present:
                misses += [Miss(self._queue.row(node)) for node in nodes]
            for node in nodes:
                self._queue.remove(node)
            self.counters.state_nodes -= len(nodes)
            self.counters.hold(-len(nodes))
        del self._keys[start:end]
        self.counters.misses += len(misses)
        return misses

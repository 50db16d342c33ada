"""MESHJOIN: a join of a stream with R, which is read over and over from end to end.

Definition: R is cut into k segments that are read in a circle. Every loop reads the next segment, takes w
rows from the stream and joins the segment with all pending rows. After k loops a row has met all of R.

Paper: UoA-SE-2010-2, section 3, after Polyzotis et al., ICDE 2007.

Deviations: a row that met all of R without a partner is a `Miss`; the paper drops it silently. A loop waits
for its w rows before it reads its segment, not after, so that waiting reads nothing. Once the stream has
ended, loops take what is left.

Complexity: a row costs R / w probes and 1 / w of a reading of R, and stays for k loops; memory is w * k rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from endmark.errors import ConfigError
from endmark_papers.algorithms.relation import Lookup, LookupCounters, Match, Miss, PagedRelation, StreamRow


@dataclass(slots=True)
class _Entry:
    row: StreamRow
    matched: bool = False


class MeshJoin:
    """A lookup join that joins every segment of R with every pending row.

    Args:
        relation: R.
        loop_rows: stream rows taken per loop, the paper's w, from which `memory_rows` follows.
        pages_per_segment: pages read per loop, the paper's b.

    Raises:
        ConfigError: a size is below one.
    """

    def __init__(self, relation: PagedRelation, loop_rows: int, pages_per_segment: int = 1) -> None:
        if loop_rows < 1 or pages_per_segment < 1:
            raise ConfigError(
                "a loop of MESHJOIN takes at least one row and one page, "
                f"not loop_rows={loop_rows}, pages_per_segment={pages_per_segment}"
            )
        self.counters = LookupCounters()
        self._relation = relation
        self._loop_rows = loop_rows
        self._segments = [
            range(first, min(first + pages_per_segment, relation.pages))
            for first in range(0, relation.pages, pages_per_segment)
        ]
        self._next_segment = 0
        self._buffer: deque[StreamRow] = deque()
        self._hash: dict[int, deque[_Entry]] = {}
        self._queue: deque[list[_Entry]] = deque()
        """The rows that each of the last loops took, oldest first."""

    @property
    def memory_rows(self) -> int:
        """The most rows held beside the stream buffer, the paper's H_t = w * k."""
        return self._loop_rows * len(self._segments)

    def offer(self, rows: Sequence[StreamRow]) -> None:
        self._buffer.extend(rows)

    def loop(self) -> list[Lookup]:
        return [] if len(self._buffer) < self._loop_rows else self._mesh()

    def finish(self) -> list[Lookup]:
        output: list[Lookup] = []
        while self._buffer or self._hash:
            output += self._mesh()
        return output

    def pending(self) -> Iterator[StreamRow]:
        for entries in self._queue:
            yield from (entry.row for entry in entries)
        yield from self._buffer

    def _mesh(self) -> list[Lookup]:
        self.counters.loops += 1
        self._load()
        output = self._join()
        if len(self._queue) == len(self._segments):
            output += self._expire()
        return output

    def _load(self) -> None:
        taken = min(self._loop_rows, len(self._buffer))
        entries = [_Entry(self._buffer.popleft()) for _ in range(taken)]
        for entry in entries:
            self._hash.setdefault(entry.row.key, deque()).append(entry)
        self._queue.append(entries)
        self.counters.inserts += taken
        self.counters.state_nodes += taken
        self.counters.hold(taken)

    def _join(self) -> list[Lookup]:
        output: list[Lookup] = []
        for page in self._segments[self._next_segment]:
            rows = self._relation.read(page).rows
            self.counters.page_reads += 1
            self.counters.rows_read += len(rows)
            self.counters.probes += len(rows)
            for master in rows:
                for entry in self._hash.get(master.key, ()):
                    entry.matched = True
                    output.append(Match(entry.row, master))
        self._next_segment = (self._next_segment + 1) % len(self._segments)
        self.counters.results += len(output)
        return output

    def _expire(self) -> list[Lookup]:
        """Remove the oldest loop's rows, which have met every segment; return those without a partner."""
        entries = self._queue.popleft()
        for entry in entries:
            same_key = self._hash[entry.row.key]
            same_key.popleft()  # the oldest of its key, since older loops have left before
            if not same_key:
                del self._hash[entry.row.key]
        misses: list[Lookup] = [Miss(entry.row) for entry in entries if not entry.matched]
        self.counters.misses += len(misses)
        self.counters.state_nodes -= len(entries)
        self.counters.hold(-len(entries))
        return misses

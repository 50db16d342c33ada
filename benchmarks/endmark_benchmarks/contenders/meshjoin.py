"""MESHJOIN by its paper's rules, on the engine's lookup join, so that its time compares with the strategies'.

R is cut into k segments, which are read in a cycle. Each loop takes w rows from the stream and reads the
next segment (UoA-SE-2010-2, section 3, after Polyzotis et al., ICDE 2007). A row leaves memory after k loops,
never before. So memory holds w k rows, and a page answers H D / R of them. The strategy `mesh` lets a row go
once its page is read, after half a cycle on average, and so answers twice as many.

All of R's rows of a key lie on one page, so a row has all its answers when its segment is read. From then on
it takes up memory but costs no time here, which favours MESHJOIN.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from endmark.operators.lookup import reads
from endmark.operators.lookup.join import LookupJoin
from endmark.operators.lookup.reader import Budget
from endmark.operators.lookup.waiting_rows import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from endmark.operators.lookup.join import LookupSpec, Source
    from endmark.operators.lookup.waiting_rows import Piece
    from endmark.relation.contract import PageDirectory
    from endmark.state.keys import KeySpec
    from endmark.state.search import Ints
    from endmark.state.store import SegmentStore


class MeshJoin(LookupJoin):
    """A lookup join by MESHJOIN. Rows that a batch brings beyond its whole loops wait outside of memory.

    Args:
        spec: what is joined; its budget and capacity are not used.
        source: the relation R; its strategy is not used.
        store: keeps the rows that wait.
        memory_rows: rows in memory, the paper's w k. Answered rows that have not left count.
        restored: a snapshot.
    """

    def __init__(
        self,
        spec: LookupSpec,
        source: Source,
        store: SegmentStore,
        memory_rows: int,
        restored: bytes | None = None,
    ) -> None:
        super().__init__(spec, replace(source, strategy="mesh"), store, restored=restored)
        self.notes = {"taken": self.notes.get("taken", 0)}
        segments = -(-len(source.directory) // reads.PAGES_AT_ONCE)
        self.loop_rows = max(1, memory_rows // segments)
        """The stream rows that a loop takes, the paper's w."""

    def _ordered(self, pieces: Sequence[Piece]) -> Waiting:
        return _Taken(pieces, self._spec.key, self._resolver.directory, self._take)

    def _limits(self, waiting: Waiting, reserved: int, *, drain: bool) -> tuple[Budget, int | None]:
        if drain:
            return Budget(), None
        loops = (self.pending.arrived_rows - self.notes["taken"]) // self.loop_rows
        return Budget(reads=self._pages_of(loops)), None

    def _pages_of(self, loops: int) -> int:
        """Return the number of pages that the next loops read; a cycle's last segment may have fewer."""
        at, read = self._planner.position, 0
        for _ in range(loops):
            stop = min(at + reads.PAGES_AT_ONCE, self._pages)
            read, at = read + stop - at, stop % self._pages
        return read

    def _take(self) -> int:
        """Take the rows of one loop; return how many rows were ever taken."""
        self.notes["taken"] = min(self.notes["taken"] + self.loop_rows, self.pending.arrived_rows)
        taken: int = self.notes["taken"]
        return taken


class _Taken(Waiting):
    """Waiting rows, of which only those in memory meet a segment.

    Args:
        pieces, key, directory: as for `Waiting`.
        take: takes the rows of one loop into memory, and returns how many rows were ever taken.
    """

    def __init__(
        self, pieces: Sequence[Piece], key: KeySpec, directory: PageDirectory, take: Callable[[], int]
    ) -> None:
        super().__init__(pieces, key, directory)
        self._take = take

    def on_pages(self, numbers: Ints) -> Ints:
        """Take the rows of one loop; return the rows in memory that the loop's segment answers."""
        rows, taken = super().on_pages(numbers), self._take()
        return rows[self._serials[rows] < taken]

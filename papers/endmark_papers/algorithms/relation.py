"""The master table that every lookup join of the papers reads: in pages, with a count of what that costs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from endmark.errors import ConfigError
from endmark_papers.algorithms.contract import Held


class StreamRow(NamedTuple):
    """A row that looks for partners in R."""

    key: int
    serial: int


class MasterRow(NamedTuple):
    """A row of R."""

    key: int
    serial: int


class Match(NamedTuple):
    """A joined pair."""

    stream: StreamRow
    master: MasterRow


class Miss(NamedTuple):
    """A row without partner in R."""

    stream: StreamRow


Lookup = Match | Miss


@dataclass(slots=True)
class LookupCounters(Held):
    """The counts of an operator's work since it began, and of what it holds.

    Attributes:
        loops: times round the algorithm's loop.
        page_reads: pages of R read, however many at a time.
        rows_read: rows of R read.
        probes: rows of R looked up among the pending rows.
        inserts: stream rows put into state.
        results: pairs emitted.
        misses: stream rows found to have no partner.
        state_rows: stream rows in state now; the stream buffer is no part of it.
        state_nodes: queue nodes now.
        peak_rows: the most stream rows in state at a time.
    """

    loops: int = 0
    page_reads: int = 0
    rows_read: int = 0
    probes: int = 0
    inserts: int = 0
    results: int = 0
    misses: int = 0
    state_rows: int = 0
    state_nodes: int = 0
    peak_rows: int = 0


class Page(NamedTuple):
    """Rows that are read at once, and the keys it answers for: all from `low` to below `high`."""

    low: float
    high: float
    rows: Sequence[MasterRow]


class PagedRelation:
    """R, sorted on the join key and cut into pages; rows of equal key are never parted.

    Args:
        rows: in any order.
        page_rows: rows per page (the papers' D_t); a page is longer where equal keys want it.

    Raises:
        ConfigError: `page_rows` is below one.
    """

    def __init__(self, rows: Sequence[MasterRow], page_rows: int) -> None:
        if page_rows < 1:
            raise ConfigError(f"a page of R has at least one row, not page_rows={page_rows}")
        self._rows = sorted(rows)
        self._keys = [row.key for row in self._rows]
        self._starts = [0] if rows else []
        while self._starts and self._starts[-1] + page_rows < len(self._rows):
            end = self._starts[-1] + page_rows
            cut = bisect_left(self._keys, self._keys[end])
            if cut == self._starts[-1]:  # one key fills the page
                cut = bisect_right(self._keys, self._keys[end])
                if cut == len(self._rows):
                    break
            self._starts.append(cut)
        self._lows = [self._keys[start] for start in self._starts]
        self.page_rows = page_rows

    def __len__(self) -> int:
        return len(self._rows)

    def __deepcopy__(self, memo: object) -> PagedRelation:
        """R is outside the operators and never changes: a checkpoint reads the same one."""
        return self

    @property
    def pages(self) -> int:
        return max(1, len(self._starts))

    def page_of(self, key: int) -> int:
        """The page that answers for a key, whether the key is in R or not."""
        return max(0, bisect_right(self._lows, key) - 1)

    def read(self, page: int) -> Page:
        low = self._lows[page] if page else float("-inf")
        high = self._lows[page + 1] if page + 1 < len(self._lows) else float("inf")
        start = self._starts[page] if self._starts else 0
        end = self._starts[page + 1] if page + 1 < len(self._starts) else len(self._rows)
        return Page(low, high, self._rows[start:end])

    def read_from(self, key: int) -> Page:
        """Read the unaligned page of the paper's own code: as many rows as a page has, from a key on.

        Rows with the key of the last one come too.
        """
        start = bisect_left(self._keys, key)
        end = min(start + self.page_rows, len(self._rows))
        if 0 < end < len(self._rows):
            end = bisect_right(self._keys, self._keys[end - 1])
        high = self._keys[end] if end < len(self._rows) else float("inf")
        return Page(key, high, self._rows[start:end])

    def find(self, key: int) -> Sequence[MasterRow]:
        """One index access."""
        return self._rows[bisect_left(self._keys, key) : bisect_right(self._keys, key)]


class ReferenceLookup(Protocol):
    """A join of a stream with R. All state is in plain objects, so `copy.deepcopy` is a checkpoint."""

    @property
    def counters(self) -> LookupCounters: ...

    def offer(self, rows: Sequence[StreamRow]) -> None:
        """Rows arrive in the stream buffer."""
        ...

    def loop(self) -> list[Lookup]:
        """Once round the algorithm's loop; nothing when it must wait for input."""
        ...

    def finish(self) -> list[Lookup]:
        """The stream has ended: answer what is pending."""
        ...

    def pending(self) -> Iterator[StreamRow]:
        """Rows not yet answered, in the buffer or in state."""
        ...

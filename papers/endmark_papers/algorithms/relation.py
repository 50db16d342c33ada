"""The master table R in pages, and the interface and counters of the papers' lookup joins, which read it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from endmark.errors import ConfigError
from endmark_papers.algorithms.contract import Held


class StreamRow(NamedTuple):
    """A row of the stream, which looks for partners in R."""

    key: int
    serial: int


class MasterRow(NamedTuple):
    """A row of R."""

    key: int
    serial: int


class Match(NamedTuple):
    """A stream row with a partner in R."""

    stream: StreamRow
    master: MasterRow


class Miss(NamedTuple):
    """A stream row without a partner in R."""

    stream: StreamRow


Lookup = Match | Miss


@dataclass(slots=True)
class LookupCounters(Held):
    """The counters of a lookup join: its work since it began, and the rows and nodes that it holds.

    Args:
        loops: rounds of the algorithm's loop.
        page_reads: pages of R read, however many at a time.
        rows_read: rows of R read.
        probes: rows of R looked up among the pending rows.
        inserts: stream rows put into state.
        results: pairs emitted.
        misses: stream rows found to have no partner.
        state_rows: stream rows in state now; the stream buffer is no part of it.
        state_nodes: queue nodes held now.
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
    """A page of R: rows that are read at once, and the range of keys that they answer for.

    Args:
        low: the least key of the range.
        high: the end of the range, which is not in it.
        rows: all rows of R with these keys, sorted by key.
    """

    low: float
    high: float
    rows: Sequence[MasterRow]


class PagedRelation:
    """The relation R, sorted on the join key and cut into pages; rows of equal key are on the same page.

    Args:
        rows: the rows of R, in any order.
        page_rows: rows per page (the papers' D_t); where that would part rows of equal key, a page has fewer,
            or more if one key fills it.

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
        """Return R itself: R is no part of an operator's state and never changes, so checkpoints share R."""
        return self

    @property
    def pages(self) -> int:
        return max(1, len(self._starts))

    def page_of(self, key: int) -> int:
        """Return the number of the page that answers for a key, whether the key is in R or not."""
        return max(0, bisect_right(self._lows, key) - 1)

    def read(self, page: int) -> Page:
        low = self._lows[page] if page else float("-inf")
        high = self._lows[page + 1] if page + 1 < len(self._lows) else float("inf")
        start = self._starts[page] if self._starts else 0
        end = self._starts[page + 1] if page + 1 < len(self._starts) else len(self._rows)
        return Page(low, high, self._rows[start:end])

    def read_from(self, key: int) -> Page:
        """Read a page that begins at a key and is not aligned, as in the paper's own code.

        It has as many rows as any page, and further ones that have the same key as the last.
        """
        start = bisect_left(self._keys, key)
        end = min(start + self.page_rows, len(self._rows))
        if 0 < end < len(self._rows):
            end = bisect_right(self._keys, self._keys[end - 1])
        high = self._keys[end] if end < len(self._rows) else float("inf")
        return Page(key, high, self._rows[start:end])

    def find(self, key: int) -> Sequence[MasterRow]:
        """Return the rows of a key, found by one index access."""
        return self._rows[bisect_left(self._keys, key) : bisect_right(self._keys, key)]


class ReferenceLookup(Protocol):
    """The interface of a join of a stream with R.

    All state is in plain objects, so `copy.deepcopy` makes a checkpoint.
    """

    @property
    def counters(self) -> LookupCounters: ...

    def offer(self, rows: Sequence[StreamRow]) -> None:
        """Add rows to the stream buffer."""
        ...

    def loop(self) -> list[Lookup]:
        """Go once round the algorithm's loop; return nothing if it must wait for input."""
        ...

    def finish(self) -> list[Lookup]:
        """End the stream, and answer all pending rows."""
        ...

    def pending(self) -> Iterator[StreamRow]:
        """Yield the rows that are not yet answered, in the buffer or in state."""
        ...

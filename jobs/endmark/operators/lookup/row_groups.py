"""Groups of waiting rows that one read answers together: the rows of a page, or those of a key."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from endmark.state.search import Bools, Ints


class _Order:
    """A fixed order of groups. Groups with waiting rows are taken from its front."""

    def __init__(self, groups: Ints) -> None:
        self._groups = groups
        self._head = 0

    def front(self, waiting: Ints, limit: int) -> Ints:
        """Return the first groups with waiting rows. A group that was answered never waits again.

        Args:
            waiting: the number of waiting rows of each group.
            limit: return at most this many groups.
        """
        found: list[Ints] = []
        missing, at = limit, self._head
        while missing > 0 and at < len(self._groups):
            window = self._groups[at : at + limit]
            found.append(window[waiting[window] > 0][:missing])
            missing -= len(found[-1])
            at += limit
            if missing == limit:  # no group up to here waits, so none of them is looked at again
                self._head = at
        return np.concatenate(found) if found else np.empty(0, np.int64)


class _Groups:
    """Groups of waiting rows.

    Attributes:
        waiting: the rows of each group that still wait.

    Args:
        waiting: the rows of each group.
        oldest: the serial number of each group's oldest row.
    """

    def __init__(self, waiting: Ints, oldest: Ints) -> None:
        self.waiting = waiting
        self.oldest = oldest

    def first(self, limit: int) -> Ints:
        """Return up to `limit` groups with waiting rows. Groups with older rows come first."""
        return self._by_age.front(self.waiting, limit)

    @cached_property
    def _by_age(self) -> _Order:
        return _Order(np.argsort(self.oldest))


class PageGroups(_Groups):
    """The rows of each page that rows wait for. They lie side by side in every piece.

    No order of all rows is needed for that. With 1.7 million waiting rows, to put them in order took most of
    the 118 ms before a batch's first read.

    Attributes:
        numbers: the number of each page, ascending.
        starts: for each page, the number of rows on pages before it.

    Args:
        begins: the position of each piece's first row.
        ends: a row for each piece and a column for each page of R: the position behind the page's rows.
        serials: the serial numbers of all rows.
    """

    def __init__(self, begins: Ints, ends: Ints, serials: Ints) -> None:
        starts = np.concatenate([begins[:, np.newaxis], ends[:, :-1]], axis=1)
        counts = ends - starts
        rows = counts.sum(axis=0)
        self.numbers = np.flatnonzero(rows)
        self._begins, self._counts = starts[:, self.numbers], counts[:, self.numbers]
        oldest = np.full(len(self.numbers), np.iinfo(np.int64).max)
        for begin, count, end in zip(self._begins, self._counts, ends[:, -1], strict=True):
            there = np.flatnonzero(count)
            if len(there):
                of_piece = np.minimum.reduceat(serials[:end], begin[there])
                oldest[there] = np.minimum(oldest[there], of_piece)
        super().__init__(rows[self.numbers], oldest)
        self.starts = np.cumsum(self.waiting) - self.waiting

    def rows(self, groups: Ints) -> Ints:
        """Return the ascending positions of all rows of some pages, given in ascending order."""
        return _positions(self._begins[:, groups].ravel(), self._counts[:, groups].ravel())

    def of_rows(self, rows: Ints) -> Ints:
        """Return the page of each row, as a position in `numbers`."""
        # Pages without rows in a piece begin where the next page does, so the last one that begins has rows.
        return (np.searchsorted(self._begins.ravel(), rows, "right") - 1) % len(self.numbers)

    def answered(self, rows: Ints) -> None:
        """Subtract rows, given by position, from the waiting rows of their groups."""
        if len(rows):
            self.waiting -= np.bincount(self.of_rows(rows), minlength=len(self.numbers))


class KeyGroups(_Groups):
    """Runs of rows of one key. They are answered together: all rows of a group wait, or none does.

    Args:
        order: the positions of all rows, in order of page and code.
        starts: where each group begins in that order.
        serials: the serial numbers of all rows.
        unanswered: a mask of the rows that still wait.
    """

    def __init__(self, order: Ints, starts: Ints, serials: Ints, unanswered: Bools) -> None:
        self._order = order
        self._starts = starts
        self._counts = np.diff(starts, append=len(order))
        waiting = np.add.reduceat(unanswered[order], starts, dtype=np.int64) if len(starts) else starts
        super().__init__(waiting, np.minimum.reduceat(serials[order], starts) if len(starts) else starts)

    @cached_property
    def one_row(self) -> Ints:
        """The position of a row of each group."""
        return self._order[self._starts]

    def rows(self, groups: Ints) -> Ints:
        """Return the positions of all rows of some groups, group by group."""
        return self._order[_positions(self._starts[groups], self._counts[groups])]

    def answered(self, rows: Ints) -> None:
        """Subtract rows, given by position, from the waiting rows of their groups."""
        groups = np.searchsorted(self._starts, self._position[rows], "right") - 1
        self.waiting -= np.bincount(groups, minlength=len(self._starts))

    def fullest(self, limit: int) -> Ints:
        """Return up to `limit` groups with waiting rows. Groups with more waiting rows come first."""
        return self._by_number.front(self.waiting, limit)

    @cached_property
    def _position(self) -> Ints:
        """The position of each row in the order."""
        position = np.empty(len(self._order), np.int64)
        position[self._order] = np.arange(len(self._order))
        return position

    @cached_property
    def _by_number(self) -> _Order:
        # NumPy's stable sort of short numbers is a radix sort, which takes a tenth of the time.
        few = np.iinfo(np.uint16).max - np.minimum(self.waiting, np.iinfo(np.uint16).max)
        return _Order(np.argsort(few.astype(np.uint16), kind="stable"))


def _positions(starts: Ints, counts: Ints) -> Ints:
    """Return the positions of runs that begin at `starts` and have `counts` rows, run by run."""
    before = np.cumsum(counts) - counts
    found: Ints = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return found

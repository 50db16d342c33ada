"""The planner of the strategy `auto`: it compares the expected costs of reads, again for every read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.lookup.costs import range_count
from endmark.operators.lookup.reads import LIST_KEYS, ReadKeys, ReadPages, overdue
from endmark.operators.lookup.strategies import STRATEGIES
from endmark.operators.lookup.workload import Asked

if TYPE_CHECKING:
    from endmark.operators.lookup.costs import ReadCosts
    from endmark.operators.lookup.reads import Read
    from endmark.operators.lookup.waiting_rows import Waiting
    from endmark.state.search import Bools, Ints

# Lists of keys weighed against as many pages as are read at once.
_LISTS = 4
# If rows may wait, keys are read only if they answer this many times as many rows a second as pages do: to
# group a batch's rows by key takes a tenth of the batch, and costs are estimates.
BY_KEY = 2.0


class Auto:
    """Chooses the cheapest reads for all waiting rows, or the most rows a second if rows may go on waiting.

    To answer all rows, each page is read whole, or its keys in lists. If rows may go on waiting, it reads the
    pages, or the segment of neighbouring pages, that end most waiting a second, or keys if these answer many
    more rows. A read is never taken to be faster than the joining of its rows, which goes on beside it.

    Pages are compared by the sum of their rows' ages (R x W of Aksoy and Franklin, ToN 1999), not by rows. A
    memory of rows is used best if a page is read as often as the square root of how often it is asked for.
    By rows alone, crowded pages are read more often, and other rows wait until they are overdue, in state
    that is rewritten meanwhile.

    Attributes:
        predicted: the seconds in which each strategy would answer all waiting rows, before the first read.

    Args:
        costs: the costs of reads, which the caller keeps current.
        pages: the number of R's pages.
    """

    position = 0

    def __init__(self, costs: ReadCosts, pages: int) -> None:
        self._costs = costs
        self._pages = pages
        self.predicted: dict[str, float] = {}

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Planner.plan` says."""
        first = len(waiting) == waiting.total
        if first or drain:
            whole, expected = self._cheapest(waiting)
            self.predicted = expected if first else self.predicted
        if not drain:
            return self._densest(waiting, limit)
        if whole.any():
            return ReadPages(waiting.page_numbers[whole])
        return ReadKeys(np.flatnonzero(waiting.keys.waiting))

    def _cheapest(self, waiting: Waiting) -> tuple[Bools, dict[str, float]]:
        """Return a mask of the pages to read whole, to answer all soonest, and each strategy's seconds."""
        costs, left = self._costs, waiting.pages.waiting
        numbers, wanted = waiting.page_numbers, left > 0
        keys = np.minimum(waiting.keys_on_page, left)
        by_key = keys * (costs.key + costs.trip / LIST_KEYS)
        # A page is cheaper beside others that are read: that none is, and that all are, are the two extremes.
        choices = [wanted & (by_key > costs.seek + costs.page), wanted & (by_key > costs.page)]
        seconds = [costs.pages(numbers[some]) + costs.lists(int(keys[~some].sum())) for some in choices]
        best = int(np.argmin(seconds))
        asked = Asked(
            keys=int(keys.sum()),
            pages=int(np.count_nonzero(wanted)),
            ranges=range_count(numbers[wanted]),
            range_pages=int(np.count_nonzero(wanted)),
        )
        expected = {
            each.name: each.answering(costs, asked).seconds
            for each in STRATEGIES.values()
            if each.answering is not None
        }
        return choices[best], expected | {"auto": seconds[best]}

    def _densest(self, waiting: Waiting, limit: int) -> Read:
        """Choose the read that answers most rows a second, unless a row is overdue."""
        late = self._overdue(waiting, limit)
        if late is not None:
            return late
        pages, rate = self._densest_pages(waiting, limit)
        most, count = waiting.most_rows_of(LIST_KEYS * min(limit, _LISTS))
        if self._rate(most, self._costs.lists(count)) <= BY_KEY * rate:
            return pages
        keys = waiting.keys.fullest(count)
        if self._rate(waiting.keys.waiting[keys].sum(), self._costs.lists(len(keys))) <= BY_KEY * rate:
            return pages
        return ReadKeys(keys)

    def _overdue(self, waiting: Waiting, limit: int) -> Read | None:
        """Return a read of the oldest row if it is overdue: of its segment or of the oldest keys.

        Of the two, the read that answers more rows a second is chosen. `None` if the row is not overdue.
        """
        oldest = np.where(waiting.pages.waiting > 0, waiting.pages.oldest, waiting.newest)
        at = int(oldest.argmin())
        if not overdue(waiting, oldest[at : at + 1]).any():
            return None
        segments = waiting.page_numbers // limit
        segment = self._segment(int(segments[at]), limit)
        rows = float(waiting.pages.waiting[segments == segments[at]].sum())
        keys = min(LIST_KEYS, len(waiting))  # such old ones have hardly more rows than that
        if self._rate(rows, self._costs.pages(segment)) >= self._rate(keys, self._costs.lists(keys)):
            return ReadPages(segment)
        # A page is as old as its oldest row was at first, a key's rows are answered together.
        first = waiting.keys.first(LIST_KEYS)
        return ReadKeys(first) if overdue(waiting, waiting.keys.oldest[first[:1]]).any() else None

    def _rate(self, rows: float, seconds: float) -> float:
        """Return the rows a second of a read. No row is joined faster than in `costs.row` seconds."""
        return rows / max(seconds, rows * self._costs.row)

    def _densest_pages(self, waiting: Waiting, limit: int) -> tuple[ReadPages, float]:
        """Return the pages, or the segment of neighbours, that end more waiting a second; and their rate.

        The rate is the rows a second that they answer.
        """
        left, waited = waiting.pages.waiting, waiting.waited
        segments = waiting.page_numbers // limit
        in_segments = np.bincount(segments, weights=waited)
        fullest = int(in_segments.argmax())
        segment = self._segment(fullest, limit)
        few = min(limit, len(left))
        longest = np.sort(np.argpartition(waited, -few)[-few:])
        longest = longest[left[longest] > 0]
        pages = waiting.page_numbers[longest]
        of_segment, of_pages = self._costs.pages(segment), self._costs.pages(pages)
        if waited[longest].sum() / of_pages > in_segments[fullest] / of_segment:
            return ReadPages(pages), self._rate(float(left[longest].sum()), of_pages)
        return ReadPages(segment), self._rate(float(left[segments == fullest].sum()), of_segment)

    def _segment(self, number: int, pages: int) -> Ints:
        return np.arange(number * pages, min((number + 1) * pages, self._pages))

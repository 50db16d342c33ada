"""The planner of the strategy `auto`. Before every read, it compares the expected costs of reads."""

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

# The number of lists of keys that are compared with a read of pages.
_LISTS = 4
# If rows may wait, keys are read only if they answer this many times as many rows a second as pages do. To
# group the rows of a batch by key takes a tenth of the batch's time, and costs are only estimates.
BY_KEY = 2.0


class Auto:
    """Chooses the cheapest reads for all waiting rows, or the most rows a second if rows may go on waiting.

    To answer all rows, it reads each page whole, or the page's keys in lists. If rows may go on waiting, it
    reads single pages or a stretch of neighbouring pages, whichever ends more waiting a second. It reads keys
    instead if they answer many more rows a second. No read counts as faster than the joining of its rows,
    which goes on beside it.

    Pages are compared by the sum of their rows' ages (R x W of Aksoy and Franklin, ToN 1999), not by their
    number of rows. A memory of rows is used best if a page is read in proportion to the square root of how
    often it is asked for. If the number of rows decided, crowded pages would be read more often. Other rows
    would wait until they are overdue, in state that is rewritten meanwhile.

    Attributes:
        predicted: the seconds in which each strategy would answer all waiting rows, as expected before the
            first read.

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
        """Return a mask of the pages to read whole, and the expected seconds of each strategy.

        The other pages' keys are read in lists. Both together answer all rows soonest.
        """
        costs, left = self._costs, waiting.pages.waiting
        numbers, wanted = waiting.page_numbers, left > 0
        keys = np.minimum(waiting.keys_on_page, left)
        by_key = keys * (costs.key + costs.trip / LIST_KEYS)
        # A page is cheaper if a neighbour is read, too. The two choices assume the extremes: no neighbour is
        # read, or all are.
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
        """Choose the read that answers most rows a second, or a read of an overdue row."""
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
        """Return a read of the oldest row if it is overdue; `None` if it is not.

        It reads the row's stretch of pages, or the oldest keys, whichever answers more rows a second.
        """
        oldest = np.where(waiting.pages.waiting > 0, waiting.pages.oldest, waiting.newest)
        at = int(oldest.argmin())
        if not overdue(waiting, oldest[at : at + 1]).any():
            return None
        stretches = waiting.page_numbers // limit
        stretch = self._stretch(int(stretches[at]), limit)
        rows = float(waiting.pages.waiting[stretches == stretches[at]].sum())
        keys = min(LIST_KEYS, len(waiting))  # keys so old have hardly more than one row each
        if self._rate(rows, self._costs.pages(stretch)) >= self._rate(keys, self._costs.lists(keys)):
            return ReadPages(stretch)
        # The age of a page is that of its oldest row when the batch began, which may be answered by now. The
        # rows of a key are answered together, so its age is exact.
        first = waiting.keys.first(LIST_KEYS)
        return ReadKeys(first) if overdue(waiting, waiting.keys.oldest[first[:1]]).any() else None

    def _rate(self, rows: float, seconds: float) -> float:
        """Return the rows a second of a read. No row is joined faster than in `costs.row` seconds."""
        return rows / max(seconds, rows * self._costs.row)

    def _densest_pages(self, waiting: Waiting, limit: int) -> tuple[ReadPages, float]:
        """Return the best read of pages, and the rows a second that it answers.

        It reads single pages or a stretch of neighbours, whichever ends more waiting a second.
        """
        left, waited = waiting.pages.waiting, waiting.waited
        stretches = waiting.page_numbers // limit
        in_stretches = np.bincount(stretches, weights=waited)
        fullest = int(in_stretches.argmax())
        stretch = self._stretch(fullest, limit)
        few = min(limit, len(left))
        longest = np.sort(np.argpartition(waited, -few)[-few:])
        longest = longest[left[longest] > 0]
        pages = waiting.page_numbers[longest]
        of_stretch, of_pages = self._costs.pages(stretch), self._costs.pages(pages)
        if waited[longest].sum() / of_pages > in_stretches[fullest] / of_stretch:
            return ReadPages(pages), self._rate(float(left[longest].sum()), of_pages)
        return ReadPages(stretch), self._rate(float(left[stretches == fullest].sum()), of_stretch)

    def _stretch(self, number: int, pages: int) -> Ints:
        """Return the page numbers of a stretch, given its number and its size in pages."""
        return np.arange(number * pages, min((number + 1) * pages, self._pages))

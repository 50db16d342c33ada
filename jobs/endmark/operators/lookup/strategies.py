"""Strategies choose the next read of R, given the rows that wait.

Every strategy picks a read; what the read answers, it answers for all waiting rows, found or proven absent.

| strategy | next read | paper |
|---|---|---|
| `hybrid` | the pages of the oldest waiting rows | HYBRIDJOIN, UoA-SE-2010-2, section 4 |
| `best_page` | the pages most rows wait for, overdue ones first | SSIJ, ICDE 2011 |
| `mesh` | the next segment of a cyclic scan | MESHJOIN, ICDE 2007 |
| `inlj` | the oldest waiting row's key | UoA-SE-2010-2, section 6.2 |
| `batched` | the keys of the oldest waiting rows, in lists | |
| `scan` | every page that a row waits for, in order | |
| `auto` | what is cheapest of these, by `ReadCosts` | |
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from endmark.operators.lookup.auto import Auto
from endmark.operators.lookup.read_sizes import LIST_KEYS, LISTS_AT_ONCE, PAGES_AT_ONCE
from endmark.operators.lookup.reads import ReadKeys, ReadPages, overdue

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.operators.lookup.costs import ReadCosts
    from endmark.operators.lookup.reads import Read
    from endmark.operators.lookup.waiting_rows import Waiting

Name = Literal["hybrid", "best_page", "mesh", "inlj", "batched", "scan", "auto"]


class Strategy(Protocol):
    """Picks the next read."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """The next read, of about `limit` reads (pages, or lists of keys) at once; at least one row waits.

        Args:
            waiting: what waits.
            limit: the budget left, and no more than what is read at once.
            drain: whether nothing is to be left waiting.
        """
        ...

    @property
    def position(self) -> int:
        """All that must outlive a restart."""
        ...


class _WithoutPosition:
    position = 0


class Hybrid(_WithoutPosition):
    """The pages of the oldest waiting rows, so no row starves."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        return ReadPages(np.sort(waiting.page_numbers[waiting.pages.first(limit)]))


class BestPage(_WithoutPosition):
    """The pages most rows wait for; first come pages with an overdue row."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        left = waiting.pages.waiting
        late = overdue(waiting, waiting.pages.oldest)
        order = np.lexsort((waiting.pages.oldest, np.where(late, 0, -left), ~late))
        return ReadPages(np.sort(waiting.page_numbers[order[left[order] > 0][:limit]]))


class Mesh:
    """Segments of `PAGES_AT_ONCE` neighbouring pages, round and round, whoever waits for them."""

    def __init__(self, pages: int, position: int = 0) -> None:
        self._pages = pages
        self.position = position if position < pages else 0

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        first = self.position
        stop = min(first + PAGES_AT_ONCE, self._pages)
        self.position = stop % self._pages
        return ReadPages(np.arange(first, stop))


class SingleKeys(_WithoutPosition):
    """The oldest waiting row's key."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        return ReadKeys(waiting.keys.first(1))


class KeyLists(_WithoutPosition):
    """The keys of the oldest waiting rows, `LIST_KEYS` in each list."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        return ReadKeys(waiting.keys.first(LIST_KEYS * min(limit, LISTS_AT_ONCE)))


class Scan(_WithoutPosition):
    """Every page that a row waits for, whatever the budget."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        return ReadPages(waiting.page_numbers[waiting.pages.waiting > 0])


def make(name: Name, directory_pages: int, costs: ReadCosts, position: int = 0) -> Strategy:
    """The strategy of that name, where a checkpoint left it."""
    made: dict[Name, Callable[[], Strategy]] = {
        "hybrid": Hybrid,
        "best_page": BestPage,
        "mesh": lambda: Mesh(directory_pages, position),
        "inlj": SingleKeys,
        "batched": KeyLists,
        "scan": Scan,
        "auto": lambda: Auto(costs, directory_pages),
    }
    return made[name]()

"""Strategies choose the next read of R, given the rows that wait.

A read answers all waiting rows that it speaks of: R has their key, or is proven not to have it.

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
    """A strategy chooses the next read of R."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read.

        Args:
            waiting: the rows that wait, at least one.
            limit: about so many pages or lists of keys are to be read at once.
            drain: no row is to be left waiting.
        """
        ...

    @property
    def position(self) -> int:
        """The state that must outlive a restart; 0 for strategies without any."""
        ...


class _WithoutPosition:
    position = 0


class Hybrid(_WithoutPosition):
    """Reads the pages of the oldest waiting rows, so that no row starves."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Strategy.plan` says."""
        return ReadPages(np.sort(waiting.page_numbers[waiting.pages.first(limit)]))


class BestPage(_WithoutPosition):
    """Reads the pages that most rows wait for; pages with an overdue row come first."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Strategy.plan` says."""
        left = waiting.pages.waiting
        late = overdue(waiting, waiting.pages.oldest)
        order = np.lexsort((waiting.pages.oldest, np.where(late, 0, -left), ~late))
        return ReadPages(np.sort(waiting.page_numbers[order[left[order] > 0][:limit]]))


class Mesh:
    """Reads segments of `PAGES_AT_ONCE` neighbouring pages in a cycle, whether or not rows wait for them."""

    def __init__(self, pages: int, position: int = 0) -> None:
        self._pages = pages
        self.position = position if position < pages else 0

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Strategy.plan` says."""
        first = self.position
        stop = min(first + PAGES_AT_ONCE, self._pages)
        self.position = stop % self._pages
        return ReadPages(np.arange(first, stop))


class SingleKeys(_WithoutPosition):
    """Reads the key of the oldest waiting row."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Strategy.plan` says."""
        return ReadKeys(waiting.keys.first(1))


class KeyLists(_WithoutPosition):
    """Reads the keys of the oldest waiting rows, `LIST_KEYS` in each list."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Strategy.plan` says."""
        return ReadKeys(waiting.keys.first(LIST_KEYS * min(limit, LISTS_AT_ONCE)))


class Scan(_WithoutPosition):
    """Reads every page that a row waits for, whatever the budget."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Strategy.plan` says."""
        return ReadPages(waiting.page_numbers[waiting.pages.waiting > 0])


def make(name: Name, directory_pages: int, costs: ReadCosts, position: int = 0) -> Strategy:
    """Make a strategy.

    Args:
        name: its name.
        directory_pages: the number of R's pages.
        costs: the costs of reads.
        position: the position at which a checkpoint left it.
    """
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

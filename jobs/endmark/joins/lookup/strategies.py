"""What to read of R next, given the rows that wait.

Every strategy picks a read; what the read answers, it answers for all waiting rows, found or proven absent.

| strategy | next read | paper |
|---|---|---|
| `hybrid` | the pages of the oldest waiting rows | HYBRIDJOIN, UoA-SE-2010-2, section 4 |
| `best_page` | the pages most rows wait for, overdue ones first | SSIJ, ICDE 2011 |
| `mesh` | the next segment of a cyclic scan | MESHJOIN, ICDE 2007 |
| `inlj` | the oldest waiting row's key | UoA-SE-2010-2, section 6.2 |
| `batched` | the keys of the oldest waiting rows, in one list | |
| `scan` | all of R | |
| `auto` | the cheapest of these but `mesh`, by `ReadCosts` | |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from endmark.joins.lookup.costs import LIST_KEYS

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.joins.lookup.costs import ReadCosts
    from endmark.joins.lookup.waiting import Waiting
    from endmark.state.search import Bools, Ints

# A row is overdue once so many rows have come after it; a segment of `mesh` has so many pages.
OVERDUE_ROWS = 1 << 20
SEGMENT_PAGES = 64

Name = Literal["hybrid", "best_page", "mesh", "inlj", "batched", "scan", "auto"]


@dataclass(frozen=True)
class ReadPages:
    """Pages by ascending number; neighbours are read as one range."""

    numbers: Ints


@dataclass(frozen=True)
class ReadKeys:
    """Keys of waiting rows, by their groups in `Waiting.keys`."""

    groups: Ints


@dataclass(frozen=True)
class ReadAll:
    """All of R."""


Read = ReadPages | ReadKeys | ReadAll


class Strategy(Protocol):
    """Picks the next read."""

    def plan(self, waiting: Waiting, limit: int) -> Read:
        """At most `limit` reads at once, each a page or a list of keys; at least one row waits."""
        ...

    @property
    def position(self) -> int:
        """All that must outlive a restart."""
        ...


class _WithoutPosition:
    position = 0


class Hybrid(_WithoutPosition):
    """The pages of the oldest waiting rows, so no row starves."""

    def plan(self, waiting: Waiting, limit: int) -> Read:
        return ReadPages(np.sort(waiting.page_numbers[waiting.pages.first(limit)]))


class BestPage(_WithoutPosition):
    """The pages most rows wait for; first come pages with a row that arrived `overdue` rows ago or longer."""

    def __init__(self, overdue: int) -> None:
        self._overdue = overdue

    def plan(self, waiting: Waiting, limit: int) -> Read:
        return self.among(waiting, waiting.pages.waiting, limit)

    def among(self, waiting: Waiting, worth: Ints, limit: int) -> ReadPages:
        """The up to `limit` best of the pages that are worth something."""
        late = _overdue(waiting, self._overdue)
        order = np.lexsort((waiting.pages.oldest, np.where(late, 0, -worth), ~late))
        best = order[worth[order] > 0][:limit]
        return ReadPages(np.sort(waiting.page_numbers[best]))


class Mesh:
    """Segments of `segment_pages` neighbouring pages, round and round."""

    def __init__(self, pages: int, segment_pages: int, position: int = 0) -> None:
        self._pages = pages
        self._segment_pages = segment_pages
        self.position = position if position < pages else 0

    def plan(self, waiting: Waiting, limit: int) -> Read:
        first = self.position
        stop = min(first + self._segment_pages, self._pages)
        self.position = stop % self._pages
        return ReadPages(np.arange(first, stop))


class SingleKeys(_WithoutPosition):
    """The oldest waiting row's key."""

    def plan(self, waiting: Waiting, limit: int) -> Read:
        return ReadKeys(waiting.keys.first(1))


class KeyLists(_WithoutPosition):
    """The keys of the oldest waiting rows, `keys` in each list."""

    def __init__(self, keys: int) -> None:
        self._keys = keys

    def plan(self, waiting: Waiting, limit: int) -> Read:
        return ReadKeys(waiting.keys.first(self._keys * limit))


class Scan(_WithoutPosition):
    """All of R at once."""

    def plan(self, waiting: Waiting, limit: int) -> Read:
        return ReadAll()


class Auto(_WithoutPosition):
    """The cheapest way to answer all that wait: all of R, or each page by itself or by its keys.

    A cyclic scan is not among the choices: it reads as much as `scan`, a statement at a time.
    `predicted` holds, of the last plan, the seconds it would take by each strategy, and takes by `auto`.
    """

    def __init__(self, costs: ReadCosts, overdue: int) -> None:
        self._costs = costs
        self._overdue = overdue
        self._pages = BestPage(overdue)
        self._keys = KeyLists(LIST_KEYS)
        self.predicted: dict[str, float] = {}

    def plan(self, waiting: Waiting, limit: int) -> Read:
        left = waiting.pages.waiting
        keys = np.minimum(waiting.keys_on_page, left)
        by_page = keys * (self._costs.key + self._costs.trip / LIST_KEYS) > self._costs.page
        self._predict(int(np.count_nonzero(left)), keys, by_page)
        if self.predicted["scan"] <= self.predicted["auto"]:
            self.predicted["auto"] = self.predicted["scan"]
            return ReadAll()
        if by_page.any() and not self._starving(waiting, by_page):
            return self._pages.among(waiting, np.where(by_page, left, 0), limit)
        return self._keys.plan(waiting, limit)

    def _predict(self, pages: int, keys: Ints, by_page: Bools) -> None:
        costs, all_keys = self._costs, int(keys.sum())
        self.predicted = {
            "hybrid": pages * costs.page,
            "batched": costs.lists(all_keys),
            "inlj": all_keys * (costs.key + costs.trip),
            "scan": costs.scan,
            "auto": np.count_nonzero(by_page) * costs.page + costs.lists(int(keys[~by_page].sum())),
        }

    def _starving(self, waiting: Waiting, by_page: Bools) -> bool:
        """Whether an overdue row waits for its key to be read while pages go first."""
        [oldest] = waiting.pages.first(1)
        return not by_page[oldest] and bool(_overdue(waiting, self._overdue)[oldest])


def _overdue(waiting: Waiting, bound: int) -> Bools:
    """Which pages have a row that arrived so many rows before the newest."""
    return waiting.newest - waiting.pages.oldest >= bound


def make(name: Name, directory_pages: int, costs: ReadCosts, position: int = 0) -> Strategy:
    """The strategy of that name, where a checkpoint left it."""
    made: dict[Name, Callable[[], Strategy]] = {
        "hybrid": Hybrid,
        "best_page": lambda: BestPage(OVERDUE_ROWS),
        "mesh": lambda: Mesh(directory_pages, SEGMENT_PAGES, position),
        "inlj": SingleKeys,
        "batched": lambda: KeyLists(LIST_KEYS),
        "scan": Scan,
        "auto": lambda: Auto(costs, OVERDUE_ROWS),
    }
    return made[name]()

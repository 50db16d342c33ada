"""The strategies of a lookup: each chooses the next read of R, given the rows that wait.

A read answers all waiting rows whose key it covers: R has the key, or is proven not to have it.

`STRATEGIES` has one object for each strategy. The pipeline's schema, the operator, `auto`, `endmark plan` and
the sidecar's what-if all go through it. NumPy takes a tenth of a second to import, and the check of a
pipeline file does not need it. So functions here import it when they plan a read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from endmark.errors import ConfigError
from endmark.operators.lookup.reads import (
    LIST_KEYS,
    LISTS_AT_ONCE,
    PAGES_AT_ONCE,
    ReadKeys,
    ReadPages,
    overdue,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.operators.lookup.costs import ReadCosts
    from endmark.operators.lookup.reads import Read
    from endmark.operators.lookup.waiting_rows import Waiting
    from endmark.operators.lookup.workload import Asked, Setup


class Planner(Protocol):
    """A planner chooses the next read of R for one bucket."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read.

        Args:
            waiting: the rows that wait, at least one.
            limit: about how many pages or lists of keys to read at once.
            drain: whether all waiting rows are to be answered in this batch.
        """
        ...

    @property
    def position(self) -> int:
        """The state that must outlive a restart; 0 for a planner without state."""
        ...


class Reads(NamedTuple):
    """The reads that answer all rows of a batch.

    Args:
        number: the number of pages, keys, lists of keys or scans.
        seconds: the seconds of all of them.
        plans: the number of times that a planner chooses reads. It may be a fraction.
    """

    number: float
    seconds: float
    plans: float


class PageRead(NamedTuple):
    """One read of a page while memory is full of waiting rows.

    Args:
        rows: the number of waiting rows that it answers.
        seeks: the number of ranges for each page. Neighbours that are read at once share a range.
    """

    rows: float
    seeks: float


@dataclass(frozen=True)
class Strategy:
    """A strategy, with its costs where the papers' equations give them.

    Args:
        name: its name in a pipeline file.
        reads: its next read, in words for the docs.
        by_pages: whether it can only read pages. `auto` reads keys like `batched` if R has no pages.
        paper: its name in a paper; empty if no paper has it.
        planner: makes a planner from the costs of reads, the number of R's pages, which is 0 if R is read by
            keys alone, and the planner's position in a checkpoint.
        answering: predicts the reads that answer all rows of a batch, if none may wait for a later batch;
            `None` if they are not predicted.
        waiting: predicts one read of a page, if rows may wait for later batches; `None` if it is not
            predicted.
    """

    name: str
    reads: str
    paper: str
    planner: Callable[[ReadCosts, int, int], Planner]
    answering: Callable[[ReadCosts, Asked], Reads] | None = None
    waiting: Callable[[Setup], PageRead] | None = None
    by_pages: bool = True


class _Stateless:
    """A planner without state, which decides by the waiting rows alone."""

    position = 0

    def __init__(self, *_: object) -> None:
        pass


class Hybrid(_Stateless):
    """Reads the pages of the oldest waiting rows, so that no row starves."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Planner.plan` says."""
        numbers = waiting.page_numbers[waiting.pages.first(limit)]
        numbers.sort()
        return ReadPages(numbers)


class BestPage(_Stateless):
    """Reads the pages that most rows wait for; pages with an overdue row come first."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Planner.plan` says."""
        import numpy as np

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
        """Choose the next read, as `Planner.plan` says."""
        import numpy as np

        first = self.position
        stop = min(first + PAGES_AT_ONCE, self._pages)
        self.position = stop % self._pages
        return ReadPages(np.arange(first, stop))


class SingleKeys(_Stateless):
    """Reads the key of the oldest waiting row."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Planner.plan` says."""
        return ReadKeys(waiting.keys.first(1))


class KeyLists(_Stateless):
    """Reads the keys of the oldest waiting rows, `LIST_KEYS` in each list."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Planner.plan` says."""
        return ReadKeys(waiting.keys.first(LIST_KEYS * min(limit, LISTS_AT_ONCE)))


class Scan(_Stateless):
    """Reads every page that a row waits for, whatever the budget."""

    def plan(self, waiting: Waiting, limit: int, *, drain: bool) -> Read:
        """Choose the next read, as `Planner.plan` says."""
        return ReadPages(waiting.page_numbers[waiting.pages.waiting > 0])


def _auto(costs: ReadCosts, pages: int, position: int) -> Planner:
    """Make the planner of `auto`, which compares the strategies of this module if R has pages."""
    if not pages:
        return KeyLists()
    from endmark.operators.lookup.auto import Auto

    return Auto(costs, pages)


def _each_page(costs: ReadCosts, asked: Asked) -> Reads:
    """Return the reads of all pages with asked rows, each page by itself."""
    return Reads(asked.pages, asked.pages * (costs.seek + costs.page), asked.pages / PAGES_AT_ONCE)


def _each_key(costs: ReadCosts, asked: Asked) -> Reads:
    """Return the reads of all keys, each by itself."""
    return Reads(asked.keys, asked.keys * (costs.trip + costs.key), asked.keys)


def _key_lists(costs: ReadCosts, asked: Asked) -> Reads:
    """Return the reads of all keys in lists."""
    lists = -(-asked.keys // LIST_KEYS)
    return Reads(lists, costs.lists(asked.keys), lists / LISTS_AT_ONCE)


def _ranges(costs: ReadCosts, asked: Asked) -> Reads:
    """Return one scan of the ranges that have all pages with asked rows."""
    return Reads(1, asked.ranges * costs.seek + asked.range_pages * costs.page, 0)


def oldest_page(setup: Setup) -> PageRead:
    """Return a read of HYBRIDJOIN with aligned pages. Rows that it does not answer wait for later reads."""
    return PageRead(setup.page_yield, setup.seeks)


def _next_page(setup: Setup) -> PageRead:
    """Return a read of MESHJOIN, a cyclic scan.

    A row leaves once its page is read, after half a round on average. So a read answers 2 H D / R rows, for
    any distribution of keys. In the paper, a row stays for a whole round, and a read answers H D / R rows.
    """
    rows = 2 * setup.waiting_rows * setup.rows_on_page / setup.relation_rows
    return PageRead(rows, 1 / setup.at_once)


STRATEGIES = {
    each.name: each
    for each in (
        Strategy(
            "auto",
            "the cheapest pages or keys; if rows may go on waiting, those that answer most rows a second",
            "",
            _auto,
            by_pages=False,
        ),
        Strategy(
            "hybrid", "the pages of the oldest waiting rows", "HYBRIDJOIN", Hybrid, _each_page, oldest_page
        ),
        Strategy("best_page", "the pages that most rows wait for; overdue rows first", "SSIJ", BestPage),
        Strategy(
            "mesh",
            f"the next {PAGES_AT_ONCE} pages of a cyclic scan",
            "MESHJOIN, but a row leaves once its page is read",
            lambda _, pages, position: Mesh(pages, position),
            waiting=_next_page,
        ),
        Strategy(
            "inlj",
            "the oldest waiting row's key",
            "index nested loops",
            SingleKeys,
            _each_key,
            by_pages=False,
        ),
        Strategy(
            "batched",
            f"the keys of the oldest waiting rows, in lists of {LIST_KEYS:,}",
            "",
            KeyLists,
            _key_lists,
            by_pages=False,
        ),
        Strategy("scan", "every page that a row waits for, in order", "", Scan, _ranges),
    )
}
"""All strategies by name."""


def require_readable(field: str, strategy: str, unpaged: str | None) -> None:
    """Refuse a strategy that reads pages of a relation without pages.

    Args:
        field: the name of the field or argument that names the strategy.
        strategy: the name of the strategy.
        unpaged: the reason why the relation has no pages; `None` if it has pages.

    Raises:
        ConfigError: the strategy cannot read the relation. The text says what mends it.
    """
    if unpaged is not None and STRATEGIES[strategy].by_pages:
        others = ", ".join(each.name for each in STRATEGIES.values() if not each.by_pages)
        raise ConfigError(f"{field}: {strategy!r} reads pages, but {unpaged}; or take one of {others}")


if TYPE_CHECKING:
    Name = str
else:
    Name = Literal[tuple(STRATEGIES)]

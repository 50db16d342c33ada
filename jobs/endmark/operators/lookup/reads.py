"""Reads of R: pages or keys, the number of them at once, and the rule by which waiting rows are overdue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.operators.lookup.waiting_rows import Waiting
    from endmark.state.search import Bools, Ints

# The number of keys in one list. It is large enough that round trips do not matter, and small enough that a
# list is read while others are joined.
LIST_KEYS = 2_000
# The numbers of pages, and of lists of keys, that are read at once while earlier ones are joined. They bound
# memory by the size of a page instead of R, and let one merge answer rows of many pages.
PAGES_AT_ONCE = 64
LISTS_AT_ONCE = 8
# Let W be the number of rows that waited when the batch began. A row is overdue once this many times W rows
# have come after it. If a strategy serves crowded pages first, most rows wait for less than two times W rows.
OVERDUE_TIMES = 4


@dataclass(frozen=True)
class ReadPages:
    """A read of pages, by ascending number. Neighbours are read as one range."""

    numbers: Ints


@dataclass(frozen=True)
class ReadKeys:
    """A read of keys of waiting rows, by their groups in `Waiting.keys`."""

    groups: Ints


Read = ReadPages | ReadKeys


def parts(read: Read) -> Iterator[Read]:
    """Cut a read into parts, which are done one after the other."""
    if isinstance(read, ReadPages):
        for at in range(0, len(read.numbers), PAGES_AT_ONCE):
            yield ReadPages(read.numbers[at : at + PAGES_AT_ONCE])
    else:
        keys = LIST_KEYS * LISTS_AT_ONCE
        for at in range(0, len(read.groups), keys):
            yield ReadKeys(read.groups[at : at + keys])


def overdue(waiting: Waiting, oldest: Ints) -> Bools:
    """Return a mask of the overdue rows, given the serial numbers `oldest` of some rows."""
    return waiting.newest - oldest >= OVERDUE_TIMES * waiting.total

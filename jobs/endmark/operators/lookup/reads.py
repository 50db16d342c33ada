"""Reads of R: pages or keys, how many of them at once, and rows that have waited for theirs too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.operators.lookup.waiting_rows import Waiting
    from endmark.state.search import Bools, Ints

# Keys in one list: enough that its round trips do not matter, few enough to be read while others are joined.
LIST_KEYS = 2_000
# Pages, and lists of keys, that are read while those before them are joined. Bounds memory by the size of a
# page, not of R, and lets one merge resolve many pages.
PAGES_AT_ONCE = 64
LISTS_AT_ONCE = 8
# A row is overdue if at least this many times the rows that waited when the batch began have come after it.
# A strategy that serves crowded pages first lets most rows wait for less than two such times.
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
    """Cut a read into several that are done one after the other."""
    if isinstance(read, ReadPages):
        for at in range(0, len(read.numbers), PAGES_AT_ONCE):
            yield ReadPages(read.numbers[at : at + PAGES_AT_ONCE])
    else:
        keys = LIST_KEYS * LISTS_AT_ONCE
        for at in range(0, len(read.groups), keys):
            yield ReadKeys(read.groups[at : at + keys])


def overdue(waiting: Waiting, oldest: Ints) -> Bools:
    """Return a mask of the serials of rows that are overdue."""
    return waiting.newest - oldest >= OVERDUE_TIMES * waiting.total

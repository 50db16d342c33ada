"""A read of R: pages or keys, and which rows have waited for theirs too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.operators.lookup.read_sizes import LIST_KEYS, LISTS_AT_ONCE, PAGES_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.operators.lookup.waiting_rows import Waiting
    from endmark.state.search import Bools, Ints

# A row is overdue once so many times as many rows have come after it as waited when the batch began. Whoever
# serves crowded pages first lets most rows wait for less than two such times.
OVERDUE_TIMES = 4


@dataclass(frozen=True)
class ReadPages:
    """Pages by ascending number; neighbours are read as one range."""

    numbers: Ints


@dataclass(frozen=True)
class ReadKeys:
    """Keys of waiting rows, by their groups in `Waiting.keys`."""

    groups: Ints


Read = ReadPages | ReadKeys


def parts(read: Read) -> Iterator[Read]:
    """A read as some that are done one after the other."""
    if isinstance(read, ReadPages):
        for at in range(0, len(read.numbers), PAGES_AT_ONCE):
            yield ReadPages(read.numbers[at : at + PAGES_AT_ONCE])
    else:
        keys = LIST_KEYS * LISTS_AT_ONCE
        for at in range(0, len(read.groups), keys):
            yield ReadKeys(read.groups[at : at + keys])


def overdue(waiting: Waiting, oldest: Ints) -> Bools:
    """Which of these serials of rows are overdue."""
    return waiting.newest - oldest >= OVERDUE_TIMES * waiting.total

"""What reads of R cost, in seconds: measured at the start and kept current by every read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.relation.contract import PageDirectory, RelationReader
    from endmark.state.search import Ints

# Weight of the newest read: old enough reads are forgotten, one slow read is not believed.
_WEIGHT = 0.2
_MOST = 10.0  # nor is it taken for more than so many times what was expected
_LEAST = 1e-9
_SAMPLED_PAGES = 64
_SAMPLED_LOOKUPS = 5
_TIMES = 3
# Keys in one list: enough that its round trips do not matter, few enough to be read while others are joined.
LIST_KEYS = 2_000


@dataclass
class ReadCosts:
    """Seconds of a range of pages beside its pages, of a page in it, of a list of keys beside them, and of a
    key in it; of a read, until its rows are matched.

    Reads of one kind tell what is true of both of its parts, so both follow what they took.
    """

    seek: float
    page: float
    trip: float
    key: float

    @classmethod
    def restored(cls, kept: dict[str, float], measured: ReadCosts) -> ReadCosts:
        """What a snapshot kept, unless it kept other figures than these."""
        return cls(**kept) if kept.keys() == vars(measured).keys() else measured

    def pages(self, numbers: Ints) -> float:
        """Seconds of reading pages by ascending number; neighbours are one range."""
        return range_count(numbers) * self.seek + len(numbers) * self.page

    def lists(self, keys: int) -> float:
        """Seconds of reading so many keys in lists of `LIST_KEYS`."""
        return keys * self.key + -(-keys // LIST_KEYS) * self.trip

    def saw_pages(self, numbers: Ints, seconds: float) -> None:
        factor = _followed(self.pages(numbers), seconds)
        self.seek, self.page = self.seek * factor, self.page * factor

    def saw_keys(self, keys: int, seconds: float) -> None:
        factor = _followed(self.lists(keys), seconds)
        self.trip, self.key = self.trip * factor, self.key * factor


def range_count(numbers: Ints) -> int:
    """How many runs of neighbours ascending page numbers have."""
    return len(numbers) and 1 + int(np.count_nonzero(np.diff(numbers) > 1))


def _followed(expected: float, seconds: float) -> float:
    return 1 + _WEIGHT * (min(_MOST, seconds / expected) - 1)


def measure(reader: RelationReader, directory: PageDirectory) -> ReadCosts:
    """Costs of a few reads, spread over R. The first of each kind only warms up, and of the others the
    shortest counts: what else the machine does is no cost of R."""
    pages = len(directory)
    apart = np.unique(np.linspace(0, pages - 1, _SAMPLED_PAGES).astype(np.int64))
    ranges = [directory.range_of(int(number)) for number in apart]
    neighbours = np.arange(max(0, pages - _SAMPLED_PAGES) // 2, pages)[:_SAMPLED_PAGES]
    block = [directory.range_of(int(neighbours[0]), int(neighbours[-1]))]
    rows = reader.pages(ranges)
    each = _shortest(lambda: reader.pages(ranges)) / len(apart)
    together = _shortest(lambda: reader.pages(block)) / len(neighbours)
    distinct = pa.Table.from_batches([rows.select(list(reader.key))]).group_by(list(reader.key)).aggregate([])
    keys = distinct.combine_chunks().to_batches()
    trip, key = _lookups(reader, keys[0].slice(0, LIST_KEYS)) if keys else (each, each)
    page = max(_LEAST, min(each, together))
    return ReadCosts(max(_LEAST, each - page), page, max(_LEAST, trip), max(_LEAST, key))


def _lookups(reader: RelationReader, keys: pa.RecordBatch) -> tuple[float, float]:
    few = [keys.slice(at, 1) for at in range(min(_SAMPLED_LOOKUPS, keys.num_rows))]
    trip = min(_shortest(lambda one=one: reader.read_keys(one)) for one in few)  # type: ignore[misc]
    return trip, max(0.0, _shortest(lambda: reader.read_keys(keys)) - trip) / keys.num_rows


def _shortest(read: Callable[[], object]) -> float:
    seconds = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        read()
        seconds.append(time.perf_counter() - started)
    return min(seconds)

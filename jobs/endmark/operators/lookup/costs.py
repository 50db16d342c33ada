"""The unit costs of a lookup in seconds, for `auto`, the metrics, `endmark plan` and the what-if.

`read_timing` measures the costs of reads at the start, and every read corrects them. `calibration` also
measures the costs of a join beside its reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.lookup.reads import LIST_KEYS

if TYPE_CHECKING:
    from endmark.state.search import Ints

# The weight of the newest read. Old reads are forgotten, but one slow read changes little.
_WEIGHT = 0.2
_MOST = 10.0  # a read counts as at most this many times slower than expected
LEAST = 1e-9  # the least seconds of any cost
_ROW = 1e-6  # the seconds of a stream row before any was put out; 1.0 to 1.3 us were seen


@dataclass
class ReadCosts:
    """The costs of reads in seconds. A read lasts until its rows are matched.

    A read of keys corrects both `trip` and `key`. A read of neighbouring pages corrects `page`, and a read of
    pages apart corrects `seek`. When each read of pages corrected both, a range that was measured with a cold
    server seemed to cost half for a whole run: pages apart were read where neighbours answer 25 % more rows a
    second.

    Args:
        seek: the cost of a range of pages, without its pages.
        page: the cost of a page of a range.
        trip: the cost of a list of keys, without its keys.
        key: the cost of a key of a list.
        row: the cost of a stream row, from its match until it is put out.
    """

    seek: float
    page: float
    trip: float
    key: float
    row: float = _ROW

    @classmethod
    def restored(cls, kept: dict[str, float], measured: ReadCosts) -> ReadCosts:
        """Return the costs that a snapshot kept; if they have other fields, return the measured costs."""
        return cls(**kept) if kept.keys() == vars(measured).keys() else measured

    def cut(self, pages: int, into: int) -> ReadCosts:
        """Return the costs after R is cut into other pages. The cost of a page scales with its size.

        A snapshot has the costs of its own pages, so a changed page size needs this.

        Args:
            pages: the number of R's pages before.
            into: the number of R's pages now.
        """
        return replace(self, page=self.page * (pages / into))

    def pages(self, numbers: Ints) -> float:
        """Return the seconds of a read of pages, given their ascending numbers. Neighbours are one range."""
        return range_count(numbers) * self.seek + len(numbers) * self.page

    def lists(self, keys: float) -> float:
        """Return the seconds of a read of some number of keys, in lists of `LIST_KEYS`."""
        return keys * self.key + -(-keys // LIST_KEYS) * self.trip

    def saw_pages(self, numbers: Ints, seconds: float) -> None:
        """Correct the costs by a read: the ascending numbers of its pages, and the seconds that it took."""
        expected, ranges = self.pages(numbers), range_count(numbers)
        beyond = (_followed(expected, seconds) - 1) * expected
        if 2 * ranges > len(numbers):
            self.seek, self.page = _corrected(self.seek, ranges, self.page, len(numbers), beyond)
        else:
            self.page, self.seek = _corrected(self.page, len(numbers), self.seek, ranges, beyond)

    def saw_keys(self, keys: int, seconds: float) -> None:
        """Correct the costs by a read: the number of its keys, and the seconds that it took."""
        factor = _followed(self.lists(keys), seconds)
        self.trip, self.key = self.trip * factor, self.key * factor

    def saw_rows(self, rows: int, seconds: float) -> None:
        """Correct the cost of a row by a number of rows, and the seconds that they took."""
        self.row *= _followed(rows * self.row, seconds)


@dataclass
class JoinCosts(ReadCosts):
    """The costs of reads, and the costs of a join beside them, for predictions.

    Args:
        loop: the cost of planning a read and of matching its answer, without its rows.
        store: the cost of keeping a stream row beyond its batch.
        wait: the cost of a waiting row in each batch.
    """

    loop: float = 0.0
    store: float = 0.0
    wait: float = 0.0


def range_count(numbers: Ints) -> int:
    """Count the runs of neighbours among ascending page numbers."""
    return len(numbers) and 1 + int(np.count_nonzero(np.diff(numbers) > 1))


def _corrected(cost: float, times: int, other: float, other_times: int, beyond: float) -> tuple[float, float]:
    """Correct two costs after a read; return both.

    The first cost alone changes, unless nothing would be left of it. Then the other cost takes the rest.

    Args:
        cost: the first cost in seconds.
        times: the number of times that the read had the first cost.
        other: the other cost in seconds.
        other_times: the number of times that the read had the other cost.
        beyond: the seconds by which the read took longer than expected.
    """
    changed = cost + beyond / times
    if changed >= LEAST:
        return changed, other
    left = beyond + (cost - LEAST) * times
    return LEAST, max(LEAST, other + left / other_times)


def _followed(expected: float, seconds: float) -> float:
    """Return the factor by which a cost changes after a read that took other seconds than expected."""
    return 1 + _WEIGHT * (min(_MOST, seconds / expected) - 1)

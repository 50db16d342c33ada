"""The unit costs of a lookup in seconds, for `auto`, the metrics, `endmark plan` and the what-if.

`read_timing` measures the costs of reads at the start, and every read keeps them current. `calibration` also
measures what a join costs beside its reads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.lookup.reads import LIST_KEYS

if TYPE_CHECKING:
    from endmark.state.search import Ints

# Weight of the newest read: old enough reads are forgotten, one slow read is not believed.
_WEIGHT = 0.2
_MOST = 10.0  # nor is it taken for more than so many times what was expected
LEAST = 1e-9  # seconds of what seems to cost nothing
_ROW = 1e-6  # of a stream row, before any was put out; 1.0 to 1.3 us were seen


@dataclass
class ReadCosts:
    """The costs of reads in seconds, each until the rows of the read are matched.

    A read of keys corrects both `trip` and `key`. A read of neighbouring pages corrects `page`, and a read of
    pages apart corrects `seek`. When each read corrected both, a range that was measured with a cold server
    seemed to cost half for all of a run: pages apart were read where segments answer 25 % more rows a second.

    Args:
        seek: a range of pages, beside its pages.
        page: a page of a range.
        trip: a list of keys, beside its keys.
        key: a key of a list.
        row: a stream row, from its match until it is put out.
    """

    seek: float
    page: float
    trip: float
    key: float
    row: float = _ROW

    @classmethod
    def restored(cls, kept: dict[str, float], measured: ReadCosts) -> ReadCosts:
        """Restore the costs of a snapshot, unless it kept other figures than these."""
        return cls(**kept) if kept.keys() == vars(measured).keys() else measured

    def cut(self, pages: int, into: int) -> ReadCosts:
        """Costs after cutting R into `into` pages instead of `pages`; a page's cost scales with its size.

        A snapshot keeps the costs of its own pages, so a changed page size needs this.
        """
        return replace(self, page=self.page * (pages / into))

    def pages(self, numbers: Ints) -> float:
        """Return the seconds of reading pages by ascending number. Neighbours are one range."""
        return range_count(numbers) * self.seek + len(numbers) * self.page

    def lists(self, keys: float) -> float:
        """Return the seconds of reading a number of keys in lists of `LIST_KEYS`."""
        return keys * self.key + -(-keys // LIST_KEYS) * self.trip

    def saw_pages(self, numbers: Ints, seconds: float) -> None:
        expected, ranges = self.pages(numbers), range_count(numbers)
        beyond = (_followed(expected, seconds) - 1) * expected
        if 2 * ranges > len(numbers):
            self.seek, self.page = _corrected(self.seek, ranges, self.page, len(numbers), beyond)
        else:
            self.page, self.seek = _corrected(self.page, len(numbers), self.seek, ranges, beyond)

    def saw_keys(self, keys: int, seconds: float) -> None:
        factor = _followed(self.lists(keys), seconds)
        self.trip, self.key = self.trip * factor, self.key * factor

    def saw_rows(self, rows: int, seconds: float) -> None:
        self.row *= _followed(rows * self.row, seconds)


@dataclass
class JoinCosts(ReadCosts):
    """The costs of reads, and those of a join beside them, for predictions.

    Args:
        loop: planning a read and taking it apart, beside its rows.
        store: keeping a stream row beyond its batch.
        wait: a row that waits, in each batch.
    """

    loop: float = 0.0
    store: float = 0.0
    wait: float = 0.0


def range_count(numbers: Ints) -> int:
    """Count the runs of neighbours among ascending page numbers."""
    return len(numbers) and 1 + int(np.count_nonzero(np.diff(numbers) > 1))


def _corrected(cost: float, times: int, other: float, other_times: int, beyond: float) -> tuple[float, float]:
    """Correct a cost after a read that took `beyond` seconds longer than expected; return both costs.

    The first cost changes alone, unless nothing would be left of it. Then the other one takes the rest.
    """
    changed = cost + beyond / times
    if changed >= LEAST:
        return changed, other
    left = beyond + (cost - LEAST) * times
    return LEAST, max(LEAST, other + left / other_times)


def _followed(expected: float, seconds: float) -> float:
    return 1 + _WEIGHT * (min(_MOST, seconds / expected) - 1)

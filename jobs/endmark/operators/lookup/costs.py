"""The costs of reads of R in seconds: measured at the start and kept current by every read."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.lookup.read_sizes import LIST_KEYS
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.relation.contract import PageDirectory, RelationReader
    from endmark.state.search import Ints

# Weight of the newest read: old enough reads are forgotten, one slow read is not believed.
_WEIGHT = 0.2
_MOST = 10.0  # nor is it taken for more than so many times what was expected
_LEAST = 1e-9
_ROW = 1e-6  # of a stream row, before any was put out; 1.0 to 1.3 us were seen
_SAMPLED_PAGES = 32
_SAMPLED_LOOKUPS = 8  # one after the other, as `inlj` has them
_TIMES = 5


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

    def lists(self, keys: int) -> float:
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


def range_count(numbers: Ints) -> int:
    """Count the runs of neighbours among ascending page numbers."""
    return len(numbers) and 1 + int(np.count_nonzero(np.diff(numbers) > 1))


def _corrected(cost: float, times: int, other: float, other_times: int, beyond: float) -> tuple[float, float]:
    """Correct a cost after a read that took `beyond` seconds longer than expected; return both costs.

    The first cost changes alone, unless nothing would be left of it. Then the other one takes the rest.
    """
    changed = cost + beyond / times
    if changed >= _LEAST:
        return changed, other
    left = beyond + (cost - _LEAST) * times
    return _LEAST, max(_LEAST, other + left / other_times)


def _followed(expected: float, seconds: float) -> float:
    return 1 + _WEIGHT * (min(_MOST, seconds / expected) - 1)


def measure(reader: RelationReader, directory: PageDirectory, times: int = _TIMES) -> ReadCosts:
    """Measure the costs of a few reads all over R; the median of each kind counts.

    The kinds take turns. If R is large enough, none reads what another has read: reads of what is in the
    processor's cache took half as long.

    Args:
        reader, directory: R and its pages.
        times: the number of reads of each kind.
    """
    some = min(_SAMPLED_PAGES, len(directory))
    apart = np.unique(np.linspace(0, len(directory) - 1, some * times).astype(np.int64))
    firsts = np.linspace(0, len(directory) - some, times).astype(np.int64)
    first_rows = reader.pages([directory.range_of(int(number)) for number in apart[::times]])
    keys = _sampled_keys(directory, first_rows.select(list(reader.key)), LIST_KEYS * times)
    in_list = max(1, keys.num_rows // times)
    seconds: dict[str, list[float]] = {"apart": [], "together": [], "one": [], "list": []}
    for at, first in enumerate(firsts.tolist()):
        numbers = apart[at::times].tolist() or [first]
        ranges = [directory.range_of(number) for number in numbers]
        seconds["apart"].append(_seconds(partial(reader.pages, ranges)) / len(numbers))
        block = [directory.range_of(first, first + some - 1)]
        seconds["together"].append(_seconds(partial(reader.pages, block)) / some)
        if len(of_list := keys.slice(at * in_list, in_list)):
            seconds["list"].append(_seconds(partial(reader.read_keys, of_list)) / in_list)
            for one in range(0, len(of_list), -(-in_list // _SAMPLED_LOOKUPS)):
                seconds["one"].append(_seconds(partial(reader.read_keys, of_list.slice(one, 1))))
    each, together, trip, listed = (float(np.median(found or seconds["apart"])) for found in seconds.values())
    page = max(_LEAST, min(each, together))
    return ReadCosts(max(_LEAST, each - page), page, max(_LEAST, trip), max(_LEAST, listed - trip / in_list))


def _sampled_keys(directory: PageDirectory, some: pa.RecordBatch, most: int) -> pa.RecordBatch:
    """Return keys from all over R. Those that begin a page come first, since they lie apart."""
    bounds = directory.bounds
    bounds = bounds.take(pa.array(np.random.default_rng(0).permutation(bounds.num_rows)))
    found = codec.concat([bounds, some.rename_columns(bounds.schema.names)]).slice(0, most)
    distinct = pa.Table.from_batches([found]).group_by(found.schema.names, use_threads=False).aggregate([])
    return codec.concat(distinct.to_batches()) if found.num_rows else found


def _seconds(read: Callable[[], object]) -> float:
    started = time.perf_counter()
    read()
    return time.perf_counter() - started

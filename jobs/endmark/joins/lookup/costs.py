"""What reads of R cost, in seconds: measured at the start and kept current by every read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from endmark.relation.contract import PageDirectory, RelationReader
    from endmark.state.search import Ints

# Weight of the newest read: old enough reads are forgotten, one slow read is not believed.
_WEIGHT = 0.2
_MOST = 10.0  # nor is it taken for more than so many times what was expected
_LEAST = 1e-9
_SAMPLED_PAGES = 32
_SAMPLED_LOOKUPS = 15
_TIMES = 5
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
    """Costs of a few reads all over R, of which the middle one of each kind counts. Where R is large enough,
    none reads what another has read: that is in the server's processor cache, and took half as long."""
    pages = len(directory)
    some = min(_SAMPLED_PAGES, pages)
    apart = np.unique(np.linspace(0, pages - 1, some * _TIMES).astype(np.int64))
    firsts = np.linspace(0, pages - some, _TIMES).astype(np.int64)
    spread = [[directory.range_of(int(number)) for number in apart[at::_TIMES]] for at in range(_TIMES)]
    blocks = [[directory.range_of(int(first), int(first) + some - 1)] for first in firsts]
    rows = reader.pages(spread[0])
    each = _typical([partial(reader.pages, ranges) for ranges in spread if ranges]) / len(spread[0])
    together = _typical([partial(reader.pages, block) for block in blocks]) / some
    keys = _sampled_keys(directory, rows.select(list(reader.key)))
    trip, key = _lookups(reader, keys) if keys.num_rows else (each, each)
    page = max(_LEAST, min(each, together))
    return ReadCosts(max(_LEAST, each - page), page, max(_LEAST, trip), max(_LEAST, key))


def _sampled_keys(directory: PageDirectory, some: pa.RecordBatch) -> pa.RecordBatch:
    """Keys from anywhere; those that begin a page first, since they lie apart."""
    bounds = directory.bounds
    bounds = bounds.take(pa.array(np.random.default_rng(0).permutation(bounds.num_rows)))
    found = codec.concat([bounds, some.rename_columns(bounds.schema.names)]).slice(0, LIST_KEYS * _TIMES)
    distinct = pa.Table.from_batches([found]).group_by(found.schema.names, use_threads=False).aggregate([])
    return codec.concat(distinct.to_batches()) if found.num_rows else found


def _lookups(reader: RelationReader, keys: pa.RecordBatch) -> tuple[float, float]:
    """Seconds of a list beside its keys, and of a key in it."""
    ones = [keys.slice(at, 1) for at in range(min(_SAMPLED_LOOKUPS, keys.num_rows))]
    trip = _typical([partial(reader.read_keys, one) for one in ones])
    each = max(1, keys.num_rows // _TIMES)
    lists = [keys.slice(at, each) for at in range(0, keys.num_rows - each + 1, each)]
    return trip, max(0.0, _typical([partial(reader.read_keys, some) for some in lists]) - trip) / each


def _typical(reads: Sequence[Callable[[], object]]) -> float:
    seconds = []
    for read in reads:
        started = time.perf_counter()
        read()
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))

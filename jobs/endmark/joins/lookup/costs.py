"""What reads of R cost, in seconds: measured at the start and kept current by every read."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from endmark.relation.contract import PageDirectory, RelationReader

# Weight of the newest read: old enough reads are forgotten, one slow read is not believed.
_WEIGHT = 0.2
_SAMPLED_PAGES = 64
_SAMPLED_LOOKUPS = 5
# Keys in one statement: enough that its round trip does not matter, few enough for a packet.
LIST_KEYS = 2_000


@dataclass
class ReadCosts:
    """Seconds of a page, of a statement beside its keys, of a key in a statement's list, of all of R."""

    page: float
    trip: float
    key: float
    scan: float

    def lists(self, keys: int) -> float:
        """Seconds of reading so many keys in lists of `LIST_KEYS`."""
        return keys * self.key + -(-keys // LIST_KEYS) * self.trip

    def saw_pages(self, pages: int, seconds: float) -> None:
        self.page += _WEIGHT * (seconds / pages - self.page)

    def saw_keys(self, keys: int, seconds: float) -> None:
        trips = -(-keys // LIST_KEYS)
        if keys * self.key < trips * self.trip:  # what dominates is what this read tells something of
            self.trip += _WEIGHT * (max(0.0, seconds - keys * self.key) / trips - self.trip)
        else:
            self.key += _WEIGHT * (max(0.0, seconds - trips * self.trip) / keys - self.key)

    def saw_scan(self, seconds: float) -> None:
        self.scan += _WEIGHT * (seconds - self.scan)


def measure(reader: RelationReader, directory: PageDirectory) -> ReadCosts:
    """Costs of a few reads, spread over R; the first of each kind only warms up."""
    numbers = np.unique(np.linspace(0, len(directory) - 1, _SAMPLED_PAGES).astype(np.int64))
    ranges = [directory.range_of(int(number)) for number in numbers]
    reader.pages(ranges)
    started = time.perf_counter()
    rows = reader.pages(ranges)
    page = (time.perf_counter() - started) / len(ranges)
    distinct = pa.Table.from_batches([rows.select(list(reader.key))]).group_by(list(reader.key)).aggregate([])
    keys = distinct.combine_chunks().to_batches()
    trip, key = _lookups(reader, keys[0].slice(0, LIST_KEYS)) if keys else (page, page)
    return ReadCosts(page, trip, key, _scan_seconds(reader, rows.num_rows / len(ranges) * len(directory)))


def _lookups(reader: RelationReader, keys: pa.RecordBatch) -> tuple[float, float]:
    single = []
    for at in range(min(_SAMPLED_LOOKUPS, keys.num_rows)):
        started = time.perf_counter()
        reader.read_keys(keys.slice(at, 1))
        single.append(time.perf_counter() - started)
    trip = float(np.median(single))
    started = time.perf_counter()
    reader.read_keys(keys)
    return trip, max(0.0, time.perf_counter() - started - trip) / keys.num_rows


def _scan_seconds(reader: RelationReader, rows: float) -> float:
    """Seconds of a scan of so many rows, by its first piece."""
    started = time.perf_counter()
    for piece in reader.scan():
        if piece.num_rows:
            return (time.perf_counter() - started) * max(1.0, rows / int(piece.num_rows))
    return time.perf_counter() - started

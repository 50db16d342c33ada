"""The cache of R's rows: answers for the keys that are asked for most (CACHEJOIN, DaWaK 2012).

It also has keys that R does not have. It is not part of the state: if it is lost, that costs reads. An answer
may be as old as its lifetime.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.lookup.reader import Answer
from endmark.state import codec
from endmark.state.keys import Keys

if TYPE_CHECKING:
    from endmark.state.keys import KeySpec
    from endmark.state.search import Bools, Ints

_ROWS = 4
_SEEDS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93], np.uint64)
# The bytes of an entry's own columns: the time at which it was read, and whether R has the key.
_ENTRY_BYTES = 9
_OVER = -(1 << 62)  # the time at which an evicted entry counts as read: it is too old for any lifetime
# A key that the sketch has counted at least this many times is read again before its entry is too old.
OFTEN = 8


class Frequencies:
    """Counts how often each key was asked for lately, in a count-min sketch that is halved from time to time.

    Args:
        bits: each of the sketch's four rows has 2^bits counters.
    """

    def __init__(self, bits: int) -> None:
        self._shift = np.uint64(64 - bits)
        self._counts = np.zeros((_ROWS, 1 << bits), np.int64)
        self._left = 0

    def add(self, codes: Ints) -> None:
        """Count each code once for each time that it is given."""
        for row, at in enumerate(self._counters(codes)):
            self._counts[row] += np.bincount(at, minlength=self._counts.shape[1])
        self._left += len(codes)
        if self._left > 8 * self._counts.shape[1]:  # so that keys of long ago make room
            self._counts >>= 1
            self._left >>= 1

    def of(self, codes: Ints) -> Ints:
        """Return the counts of keys. Halvings aside, a key was added at most as often as its count says."""
        found: Ints = np.min([self._counts[row][at] for row, at in enumerate(self._counters(codes))], axis=0)
        return found

    def resize(self, bits: int) -> None:
        """Change to 2^bits counters in each row. Earlier counts stay as exact, or inexact, as they were."""
        before = 64 - int(self._shift)
        # The number of a counter among fewer is the first bits of its number among more.
        if bits > before:
            self._counts = np.repeat(self._counts, 1 << (bits - before), axis=1)
        else:
            self._counts = self._counts.reshape(_ROWS, 1 << bits, -1).sum(axis=2)
        self._shift = np.uint64(64 - bits)

    def _counters(self, codes: Ints) -> list[Ints]:
        mixed = codes.view(np.uint64)
        return [((mixed * seed) >> self._shift).astype(np.int64) for seed in _SEEDS]


@dataclass(frozen=True)
class CacheSpec:
    """Size and lifetimes of a cache.

    Args:
        capacity: the size in bytes.
        lifetime: microseconds for which rows of R are used after they were read.
        absent_lifetime: microseconds for which a key counts as absent after R did not have it.
    """

    capacity: int
    lifetime: int
    absent_lifetime: int


class FrontCache:
    """Holds answers by key, and keeps those that are asked for most often per byte.

    Args:
        spec: the size and the lifetimes.
        key: R's key.
        schema: R's columns.
    """

    def __init__(self, spec: CacheSpec, key: KeySpec, schema: pa.Schema) -> None:
        self._spec = spec
        self._key = key
        self._block = key.coded(pa.RecordBatch.from_pylist([], schema))
        self._keys = self._block.select(key.stored)
        self._read = np.empty(0, np.int64)
        self._found = np.empty(0, bool)
        self._asked = Frequencies(_sketch_bits(spec))

    def __len__(self) -> int:
        """Return the number of keys held."""
        return len(self._read)

    @property
    def size(self) -> int:
        """The bytes of all entries, without the sketch."""
        return int(self._block.nbytes + self._keys.nbytes) + _ENTRY_BYTES * len(self)

    def become(self, spec: CacheSpec) -> None:
        """Change the size and the lifetimes."""
        if spec == self._spec:
            return
        self._spec = spec
        self._asked.resize(_sketch_bits(spec))
        self._shrink()

    def age(self, now: int) -> int:
        """Return the age (µs) of the oldest answer that is still used; 0 without one.

        `now` is in microseconds since 1970.
        """
        return int(now - self._read[self._fresh(now)].min(initial=now))

    def lookup(self, keys: Keys, now: int) -> Answer:
        """Answer keys from the cache, except keys that are too old or due to be read again.

        Args:
            keys: the keys.
            now: microseconds since 1970.
        """
        self._asked.add(keys.codes)
        fresh = self._fresh(now)
        held, found = np.zeros(len(keys), bool), np.zeros(len(keys), bool)
        for i, entry in keys.pairs(self._key.keys(self._keys)):
            held[i] = fresh[entry] & ~self._due(keys.codes[i], entry, now)
            found[i] = held[i] & self._found[entry]
        rows = np.flatnonzero(held)
        numbers = np.cumsum(held) - 1
        hits = np.flatnonzero(found)
        pairs = [(numbers[hits[i]], j) for i, j in _taken(keys, hits).pairs(self._key.keys(self._block))]
        return Answer(rows, found[rows], pairs, self._block)

    def admit(self, answered: list[tuple[pa.RecordBatch, pa.RecordBatch]], now: int) -> None:
        """Add answers of R, then keep the entries that are asked for most.

        Args:
            answered: pairs of distinct keys and all of R's rows for them. The columns of keys are in the
                order of R's key.
            now: microseconds since 1970.
        """
        if not answered:
            return
        keys = [some.rename_columns(list(self._key.columns)) for some, _ in answered]
        new = self._key.sorted(self._key.coded(codec.concat(keys)))
        rows = self._key.sorted(codec.concat([rows for _, rows in answered]))
        self._keep(self._fresh(now) & ~self._key.keys(self._keys).among(self._key.keys(new)))
        self._keys = codec.concat([self._keys, new])
        self._read = np.append(self._read, np.full(new.num_rows, now))
        self._found = np.append(self._found, self._key.keys(new).among(self._key.keys(rows)))
        self._block = self._key.sorted(codec.concat([self._block, rows]))
        order = self._key.order(self._keys)
        self._keys = self._keys.take(pa.array(order))
        self._read, self._found = self._read[order], self._found[order]
        self._shrink()

    def evict(self, closed: pa.RecordBatch) -> None:
        """Stop using the answers for some keys. The next `admit` frees them.

        The columns of the keys in `closed` are in the order of R's key.
        """
        keys = self._key.coded(closed.rename_columns(list(self._key.columns)))
        for _, entry in self._key.keys(keys).pairs(self._key.keys(self._keys)):
            self._read[entry] = _OVER

    def _fresh(self, now: int) -> Bools:
        """Return a mask of the entries that are not too old."""
        fresh: Bools = now - self._read < self._lifetimes(self._found)
        return fresh

    def _lifetimes(self, found: Bools) -> Ints:
        return np.where(found, self._spec.lifetime, self._spec.absent_lifetime)

    def _due(self, codes: Ints, entries: Ints, now: int) -> Bools:
        """Return a mask of the entries that are to be read again with the reads of this batch.

        Keys that are asked for often are read in the same batch at first. So all of them would be too old in
        the same batch, again and again. Therefore each is due at a time of its own in the last quarter of its
        lifetime.

        Args:
            codes: the codes of the entries' keys.
            entries: the positions of the entries.
            now: microseconds since 1970.
        """
        lifetimes = self._lifetimes(self._found[entries])
        due: Bools = now - self._read[entries] >= lifetimes * 3 // 4
        some = np.flatnonzero(due)
        apart = (codes[some].view(np.uint64) * _SEEDS[0] >> np.uint64(32)) / 2**32
        ages = now - self._read[entries[some]]
        due[some] = (ages >= lifetimes[some] * (3 + apart) / 4) & (self._asked.of(codes[some]) >= OFTEN)
        return due

    def _shrink(self) -> None:
        """Keep the entries that are asked for most often per byte, within the capacity."""
        room = self._spec.capacity
        while len(self) and self.size > self._spec.capacity:
            self._keep(self._best(room))
            room = room * 9 // 10  # sizes are averages, and the rows that are kept may be longer than that

    def _best(self, room: int) -> Bools:
        """Return a mask of the entries that are asked for most often per byte, up to `room` bytes."""
        keys = self._key.keys(self._keys)
        rows = np.zeros(len(self), np.int64)
        for i, _ in keys.pairs(self._key.keys(self._block)):
            rows += np.bincount(i, minlength=len(self))
        row_bytes = int(self._block.nbytes) / max(1, int(self._block.num_rows))
        sizes = rows * row_bytes + int(self._keys.nbytes) / len(self) + _ENTRY_BYTES
        best = np.argsort(-self._asked.of(keys.codes) / sizes, kind="stable")
        kept = np.zeros(len(self), bool)
        kept[best[np.cumsum(sizes[best]) <= room]] = True
        return kept

    def _keep(self, kept: Bools) -> None:
        """Drop all entries but those of a mask."""
        if kept.all():
            return
        self._keys = self._keys.filter(pa.array(kept))
        self._read, self._found = self._read[kept], self._found[kept]
        held = self._key.keys(self._block).among(self._key.keys(self._keys))
        self._block = self._block.filter(pa.array(held))


def _sketch_bits(spec: CacheSpec) -> int:
    """Return the bits of a sketch with about one counter for each key that the cache could hold."""
    return max(10, min(20, int(spec.capacity / 100).bit_length()))


def _taken(keys: Keys, rows: Ints) -> Keys:
    return Keys(keys.codes[rows], tuple(column.take(pa.array(rows)) for column in keys.columns))

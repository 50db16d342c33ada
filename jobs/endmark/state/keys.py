"""Join keys as int64 codes, by which segments are sorted and rows are found.

A key of one integer, date, time or boolean column is its own code. Any other is hashed, and rows of equal
code are compared column by column, so a collision costs a comparison and never joins or closes a stranger.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.state import codec, search
from endmark.state.sieve import Sieve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.state.search import Bools, Ints

CODE = "$code"  # `$` cannot begin a column a pipeline names
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_WORD = 8
# Fewer keys than that are found before a sieve is made; many more others than keys pass it no sooner.
SIFTED = 4096
_OTHERS = 4
# Bits of a word's first n bytes.
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], np.uint64)


@dataclass(frozen=True)
class Keys:
    """The keys of some rows.

    Args:
        codes: one per row; equal keys have equal codes.
        columns: the key columns, compared where codes are equal; empty when the code is the key.
    """

    codes: Ints
    columns: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, positions: Ints) -> Keys:
        return Keys(self.codes[positions], tuple(column.take(pa.array(positions)) for column in self.columns))

    def pairs(self, others: Keys) -> Iterator[tuple[Ints, Ints]]:
        """Positions (i here, j in `others`) of equal keys, in pieces; `others` is sorted by code."""
        for i, j in self._of_equal_codes(others.codes):
            if not self.columns:
                yield i, j
                continue
            same = np.ones(len(i), bool)
            for mine, theirs in zip(self.columns, others.columns, strict=True):
                equal = pc.equal(mine.take(pa.array(i)), theirs.take(pa.array(j)))
                same &= equal.to_numpy(zero_copy_only=False)
            yield i[same], j[same]

    def _of_equal_codes(self, others: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield what `search.pairs` yields, but drop keys without a partner first.

        In a stream join few keys have a partner in a segment, and a search costs as much for the others.
        """
        if len(self) >= SIFTED and len(others) <= _OTHERS * len(self):
            mine, theirs = self._sieve.narrowed(others)
            if 2 * len(theirs) < len(others):
                for i, j in search.pairs(self.codes[mine], others[theirs]):
                    yield mine[i], theirs[j]
                return
        yield from search.pairs(self.codes, others)

    @cached_property
    def _sieve(self) -> Sieve:
        return Sieve(self.codes)

    def among(self, others: Keys) -> Bools:
        """Return a mask of these keys that are in `others`, which is sorted by code."""
        if not self.columns:
            return search.member(self.codes, others.codes)
        found = np.zeros(len(self), bool)
        for i, _ in self.pairs(others):
            found[i] = True
        return found


@dataclass(frozen=True)
class KeySpec:
    """The columns of a batch that make the key, and the place of its code.

    Args:
        columns: the key columns, in an order that both sides of a join share.
        hashed: the code is a column of its own, `CODE`; else the one key column is the code.
    """

    columns: tuple[str, ...]
    hashed: bool = False

    @classmethod
    def of(cls, columns: Sequence[str], types: Sequence[pa.DataType]) -> KeySpec:
        return cls(tuple(columns), len(columns) > 1 or not _is_exact(types[0]))

    @property
    def code(self) -> str:
        return CODE if self.hashed else self.columns[0]

    @property
    def stored(self) -> list[str]:
        """The columns of a key, with its code."""
        return [*self.columns, CODE] if self.hashed else list(self.columns)

    @property
    def shared(self) -> KeySpec:
        """The same key by names that both sides of a join share: `key`, or `key_0`, `key_1` and so on."""
        numbered = tuple(f"key_{number}" for number in range(len(self.columns)))
        return KeySpec(numbered if len(numbered) > 1 else ("key",), self.hashed)

    def keys(self, batch: pa.RecordBatch) -> Keys:
        """The keys of rows that have their code."""
        compared = tuple(batch.column(name) for name in self.columns) if self.hashed else ()
        return Keys(_codes(batch.column(self.code)), compared)

    def coded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows with the column that holds their code."""
        if not self.hashed:
            return batch
        codes = hash_columns([batch.column(name) for name in self.columns])
        return batch.append_column(CODE, pa.array(codes))

    def order(self, batch: pa.RecordBatch) -> Ints:
        """Positions in order of code; equal codes keep their order."""
        # Stable means timsort, which merges the sorted runs that a batch may consist of.
        return np.argsort(_codes(batch.column(self.code)), kind="stable")

    def sorted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        codes = _codes(batch.column(self.code))
        if (codes[1:] >= codes[:-1]).all():  # as pages of R and rows of one page are
            return batch
        return batch.take(pa.array(self.order(batch)))

    def distinct(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Every key of at least one row, once, in order of code."""
        table = pa.Table.from_batches([batch.select(self.stored)])
        once = table.group_by(self.stored, use_threads=False).aggregate([])
        return self.sorted(codec.concat(once.to_batches()))


def hash_columns(columns: Sequence[pa.Array]) -> Ints:
    """A 64-bit hash of each row over its columns; rows of equal values have equal hashes. 5 M strings/s."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        mixed = _mix(mixed + _MIX, _words(column))
    return mixed.view(np.int64)


def _is_exact(kind: pa.DataType) -> bool:
    whole = (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp, pa.types.is_boolean)
    return any(fits(kind) for fits in whole)


def _codes(column: pa.Array) -> Ints:
    """An exact column as int64, without copying where it has 8 bytes a value."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    if column.type.bit_width == 64:
        return np.asarray(column.view(pa.int64()).to_numpy(zero_copy_only=True))
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64)


def _words(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """64 bits of each value: itself, where it fits."""
    if _is_exact(column.type):
        return _codes(column).view(np.uint64)
    if pa.types.is_decimal(column.type):
        halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset :][: 2 * len(column)]
        # The upper half of a negative number inverts the lower one, unless that is spread before.
        return _mix(halves[::2] * _MIX, halves[1::2])
    return _hash_bytes(column.cast(pa.large_binary()))


def _hash_bytes(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Strings eight bytes at a time, all rows at once; rows drop out where they end."""
    _, offsets, data = column.buffers()
    bounds = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    padded = np.concatenate([np.frombuffer(data or b"", np.uint8), np.zeros(_WORD, np.uint8)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, _WORD)
    lengths = np.diff(bounds)
    mixed = lengths.astype(np.uint64) * _MIX
    rows = np.flatnonzero(lengths)
    for at in range(0, int(lengths.max(initial=0)), _WORD):
        rows = rows[lengths[rows] > at]
        words = np.ascontiguousarray(windows[bounds[rows] + at]).view(np.uint64).ravel()
        mixed[rows] = _mix(mixed[rows], words & _MASKS[np.minimum(lengths[rows] - at, _WORD)])
    return mixed


def _mix(
    one: np.ndarray[tuple[int], np.dtype[np.uint64]], other: np.ndarray[tuple[int], np.dtype[np.uint64]]
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    product = (one ^ other) * _SPREAD
    return product ^ (product >> _HALF)

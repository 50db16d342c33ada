"""Join keys as int64 codes. Segments are sorted by these codes, and rows are found by them.

A key of one integer, date, time or boolean column is its own code. Any other key is hashed. Rows with equal
hashes are then compared column by column. So a collision costs a comparison, but never joins rows of
different keys, and never closes the wrong key.
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

CODE = "$code"  # no column that a pipeline names begins with `$`
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SPREAD = np.uint64(0xFF51AFD7ED558CCD)
_HALF = np.uint64(32)
_WORD = 8
# A sieve is used for at least this many keys: fewer are found before it is built.
SIFTED = 4096
# A sieve is used for at most this many others a key: for more, it saves no time.
_OTHERS = 4
# The n-th mask has the bits of a word's first n bytes.
_MASKS = np.array([(1 << (8 * n)) - 1 for n in range(_WORD + 1)], np.uint64)


@dataclass(frozen=True)
class Keys:
    """The keys of some rows.

    Args:
        codes: one code a row. Equal keys have equal codes.
        columns: the key columns, which are compared where codes are equal. It is empty if the code is the
            key.
    """

    codes: Ints
    columns: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, positions: Ints) -> Keys:
        """Return the keys at some positions."""
        return Keys(self.codes[positions], tuple(column.take(pa.array(positions)) for column in self.columns))

    def pairs(self, others: Keys) -> Iterator[tuple[Ints, Ints]]:
        """Yield positions (i here, j in `others`) of equal keys, in pieces; `others` is sorted by code."""
        for i, j in self._of_equal_codes(others.codes):
            if not self.columns:
                yield i, j
                continue
            same = np.ones(len(i), bool)
            for mine, theirs in zip(self.columns, others.columns, strict=True):
                same &= _equal(mine.take(pa.array(i)), theirs.take(pa.array(j)))
            yield i[same], j[same]

    def _of_equal_codes(self, others: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield what `search.pairs` yields, but drop keys without a partner first.

        In a stream join, few keys have a partner in a segment. A search costs as much for keys without one.
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
        """Return a mask of the keys that are also in `others`, which is sorted by code."""
        if not self.columns:
            return search.member(self.codes, others.codes)
        found = np.zeros(len(self), bool)
        for i, _ in self.pairs(others):
            found[i] = True
        return found


@dataclass(frozen=True)
class KeySpec:
    """The columns of a batch that make the key, and the column of its code.

    In a key that may have nulls, null counts as a value of its own.

    Args:
        columns: the key columns, in an order that both sides of a join share.
        hashed: whether the code is a column of its own, `CODE`. If not, the one key column is the code.
    """

    columns: tuple[str, ...]
    hashed: bool = False

    @classmethod
    def of(cls, columns: Sequence[str], types: Sequence[pa.DataType], *, nullable: bool = False) -> KeySpec:
        """Make the key of some columns and their types. It is hashed unless one column is its own code.

        Args:
            columns: the names of the columns.
            types: their types.
            nullable: whether they may have nulls, which have no code of their own.
        """
        return cls(tuple(columns), len(columns) > 1 or nullable or not _is_exact(types[0]))

    @property
    def code(self) -> str:
        """The name of the column that has the code."""
        return CODE if self.hashed else self.columns[0]

    @property
    def stored(self) -> list[str]:
        """The names of the key columns and, if the key is hashed, of its code."""
        return [*self.columns, CODE] if self.hashed else list(self.columns)

    @property
    def shared(self) -> KeySpec:
        """The same key, with the column names that both sides of a join share.

        They are `key` for one column, and `key_0`, `key_1` and so on for several.
        """
        numbered = tuple(f"key_{number}" for number in range(len(self.columns)))
        return KeySpec(numbered if len(numbered) > 1 else ("key",), self.hashed)

    def keys(self, batch: pa.RecordBatch) -> Keys:
        """Return the keys of rows, which have the column of their code."""
        compared = tuple(batch.column(name) for name in self.columns) if self.hashed else ()
        return Keys(_codes(batch.column(self.code)), compared)

    def coded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with the column of their code. It is added if the key is hashed."""
        if not self.hashed:
            return batch
        codes = hash_columns([batch.column(name) for name in self.columns])
        return batch.append_column(CODE, pa.array(codes))

    @staticmethod
    def from_codes(codes: Ints, kind: pa.DataType) -> pa.Array:
        """Return the column of a type that is its own code, given its codes."""
        whole = pa.array(codes)
        return whole.cast(pa.int32()).view(kind) if pa.types.is_date32(kind) else whole.cast(kind)

    def order(self, batch: pa.RecordBatch) -> Ints:
        """Return the positions of rows in order of code; equal codes keep their order."""
        # `stable` selects timsort, which merges the sorted runs that a batch may consist of.
        return np.argsort(_codes(batch.column(self.code)), kind="stable")

    def sorted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows, which have their code, in order of code."""
        codes = _codes(batch.column(self.code))
        if (codes[1:] >= codes[:-1]).all():  # pages of R, and the rows of a page, come sorted
            return batch
        return batch.take(pa.array(self.order(batch)))

    def distinct(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return each key of the rows once, in order of code. There must be at least one row."""
        if not self.hashed:
            keys = self.sorted(batch.select(self.stored))
            codes = _codes(keys.column(self.code))
            # Of 20,000 keys in four sorted runs, this takes 0.2 ms. Arrow's grouping takes 0.9 ms.
            return keys.filter(pa.array(np.concatenate([[True], codes[1:] != codes[:-1]])))
        table = pa.Table.from_batches([batch.select(self.stored)])
        once = table.group_by(self.stored, use_threads=False).aggregate([])
        return self.sorted(codec.concat(once.to_batches()))


def nulls(batch: pa.RecordBatch, columns: Sequence[str]) -> Bools:
    """Return a mask of the rows that have a null in one of some columns."""
    found = np.zeros(batch.num_rows, bool)
    for name in columns:
        column = batch.column(name)
        if column.null_count:
            found |= np.asarray(column.is_null())
    return found


def numbered(columns: Sequence[pa.Array]) -> Ints:
    """Return a number from 0 on for each row, so that rows are equal in all columns if their numbers are.

    Nulls are equal to each other. There is at least one column, and none of doubles or arrays.
    """
    found = np.zeros(len(columns[0]), np.int64)
    for number, column in enumerate(columns):
        encoded = column.dictionary_encode(null_encoding="encode")
        found = found * len(encoded.dictionary) + encoded.indices.to_numpy(zero_copy_only=False)
        if number:  # keep the numbers small, so that no product of many columns overflows
            found = np.unique(found, return_inverse=True)[1]
    return found


def bucket_of(codes: Ints, buckets: int) -> Ints:
    """Return the number of the bucket that each key belongs to, among some number of buckets.

    It is made of the high bits of a multiplicative hash, so runs of ids spread evenly.
    """
    high = (codes.view(np.uint64) * _MIX) >> _HALF
    return (high % np.uint64(buckets)).astype(np.int64)


@dataclass(frozen=True)
class Share:
    """The keys of one bucket.

    Args:
        number: the number of the bucket.
        buckets: the number of buckets.
    """

    number: int
    buckets: int

    def has(self, codes: Ints) -> Bools:
        """Return a mask of the bucket's own keys among keys with these codes."""
        found: Bools = bucket_of(codes, self.buckets) == self.number
        return found


def hash_columns(columns: Sequence[pa.Array]) -> Ints:
    """Return a 64-bit hash of each row; rows with equal values have equal hashes. It hashes 5 M strings/s."""
    mixed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        words = _words(column) if not column.null_count else _words_or_null(column)
        mixed = _mix(mixed + _MIX, words)
    return mixed.view(np.int64)


def _equal(some: pa.Array, others: pa.Array) -> Bools:
    """Return a mask of the rows in which two columns are equal. Two nulls are equal."""
    equal = pc.equal(some, others)
    if equal.null_count:
        equal = pc.fill_null(equal, pc.and_(some.is_null(), others.is_null()))
    found: Bools = equal.to_numpy(zero_copy_only=False)
    return found


def _is_exact(kind: pa.DataType) -> bool:
    whole = (pa.types.is_integer, pa.types.is_date32, pa.types.is_timestamp, pa.types.is_boolean)
    return any(fits(kind) for fits in whole)


def _codes(column: pa.Array) -> Ints:
    """Return a column that is its own code as int64, without copying if a value has 8 bytes."""
    if pa.types.is_date32(column.type):
        column = column.view(pa.int32())
    if column.type.bit_width == 64:
        return np.asarray(column.view(pa.int64()).to_numpy(zero_copy_only=True))
    return np.asarray(column.to_numpy(zero_copy_only=False)).astype(np.int64)


def _words(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return 64 bits of each value: the value itself if it fits, else a hash."""
    if _is_exact(column.type):
        return _codes(column).view(np.uint64)
    if pa.types.is_decimal(column.type):
        halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset :][: 2 * len(column)]
        # The lower half is spread first. Else the upper half of a negative number, which is all ones, would
        # only invert it.
        return _mix(halves[::2] * _MIX, halves[1::2])
    return _hash_bytes(column.cast(pa.large_binary()))


def _words_or_null(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Return 64 bits of each value. Those of a null are always the same."""
    present = np.asarray(column.is_valid())
    words = np.full(len(column), _SPREAD)
    words[present] = _words(column.drop_null())
    return words


def _hash_bytes(column: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """Hash strings eight bytes at a time, all rows at once. A row drops out where its string ends."""
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

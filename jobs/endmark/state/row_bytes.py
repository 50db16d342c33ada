"""Bytes of rows. Blocks of rows are cut by them, since Arrow refuses a column with 2 GiB of text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from endmark.state.search import Ints

    Offsets = NDArray[np.signedinteger]

# The most bytes of a block of rows; a block of a single row may have more. `PAIRS_AT_ONCE` rows of up to 256
# bytes fit into one, so most blocks are not cut.
BYTES_AT_ONCE = 1 << 28


def cut(sides: Sequence[tuple[pa.RecordBatch, Ints]]) -> Iterator[slice]:
    """Yield ranges of some results, in order. A range takes up to `BYTES_AT_ONCE`, or is a single result.

    Args:
        sides: rows of each side, and the position of each result's row in them.
    """
    count = len(sides[0][1])
    fixed = sum(_width(column) for rows, _ in sides for column in rows.columns)
    lengths = [
        _lengths(column, positions)
        for rows, positions in sides
        for column in rows.columns
        if _width(column) == 0
    ]
    if count * fixed + sum(int(each.sum(dtype=np.int64)) for each in lengths) <= BYTES_AT_ONCE:
        yield slice(0, count)
        return
    ends = np.cumsum(sum(lengths, np.full(count, fixed, np.int64)))
    start = 0
    while start < count:
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + BYTES_AT_ONCE, "right")))
        yield slice(start, stop)
        start = stop


def _width(column: pa.Array) -> int:
    """Return the bytes of a value; 0 if values have different lengths, for which Arrow keeps offsets.

    Structs and maps, which frames may carry, have the mean of the column.
    """
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_list(kind):
        return 0
    try:
        return -(-int(kind.bit_width) // 8)
    except ValueError:  # it is no type of fixed width
        return max(1, int(column.nbytes) // max(1, len(column)))


def _lengths(column: pa.Array, positions: Ints) -> Offsets:
    """Return the bytes of the values at some positions."""
    if len(positions) > len(column):  # several positions are the same
        return _lengths(column, np.arange(len(column)))[positions]
    return _span_bytes(column, positions, positions + 1)


def _span_bytes(column: pa.Array, starts: Offsets, ends: Offsets) -> Offsets:
    """Return the bytes of the values from each start to before its end."""
    width = _width(column)
    if width or len(column) == 0:  # without values there may be no offsets
        return (ends - starts) * width
    # The offsets are not widened to 64 bits: to copy those of a large segment took longer than all else here.
    first, last = column.offset, column.offset + len(column) + 1
    offsets = np.frombuffer(column.buffers()[1], np.int32)[first:last]
    low, high = offsets[starts], offsets[ends]
    return _span_bytes(column.values, low, high) if pa.types.is_list(column.type) else high - low

"""Exact sums of doubles. They do not depend on the order of the values, and are rounded once, at the end.

A double is a whole number of 53 bits times a power of two. Written in digits of `DIGIT` bits, it has at most
two digits, which are neighbours. Digits of equal place add up as whole numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from endmark.state.search import Ints

    Doubles = NDArray[np.float64]

AMOUNT = pa.decimal128(38, 0)  # the type of the sum of a digit: it has room for 2**74 rows
DIGIT = 52
_MASK = (1 << DIGIT) - 1
_MANTISSA = 53
_LOWEST = -1126  # the exponent of the least double, when its mantissa is normal
_CARRIES = 2  # digits by which a sum may be longer than its values
_KEPT = 62  # bits that rounding looks at; the last one stands for all bits below
_AT_ONCE = 1 << 16  # sums that are rounded at a time


def digits(values: Doubles) -> tuple[Ints, Ints, Ints]:
    """Split finite doubles into digits; return the position of a digit's value, its place and its amount."""
    fraction, exponent = np.frexp(values)
    whole = np.ldexp(fraction, _MANTISSA).astype(np.int64)
    place, shift = np.divmod(exponent.astype(np.int64) - _MANTISSA - _LOWEST, DIGIT)
    sign, size = np.sign(whole), np.abs(whole)
    low = (size & (_MASK >> shift)) << shift
    high = size >> (DIGIT - shift)
    positions = np.arange(len(values))
    amounts = np.concatenate([sign * low, sign * high])
    some = np.flatnonzero(amounts)
    return np.tile(positions, 2)[some], np.concatenate([place, place + 1])[some], amounts[some]


def nearest(owners: Ints, places: Ints, amounts: pa.Array, count: int) -> Doubles:
    """Return the double nearest to each of `count` sums, ties to even. It is infinite beyond all doubles.

    Args:
        owners: the number of the sum that each digit belongs to, from 0.
        places: the place of each digit in its sum. A sum has each place at most once.
        amounts: the value of each digit, of type `AMOUNT`.
        count: the number of sums. A sum without digits is 0.
    """
    sums = np.zeros(count)
    if len(owners) == 0:
        return sums
    words = np.frombuffer(amounts.buffers()[1], np.int64)[2 * amounts.offset :][: 2 * len(amounts)]
    order = np.argsort(owners, kind="stable")
    for start in range(0, count, _AT_ONCE):
        stop = min(start + _AT_ONCE, count)
        first, last = np.searchsorted(owners[order], [start, stop])
        own = order[first:last]
        if len(own):
            lower, upper = words[::2][own], words[1::2][own]
            sums[start:stop] = _nearest(owners[own] - start, places[own], lower, upper, stop - start)
    return sums


def _nearest(owners: Ints, places: Ints, lower: Ints, upper: Ints, count: int) -> Doubles:
    base, top = int(places.min()), int(places.max())
    rests, carries = (np.zeros((top - base + 1 + _CARRIES, count), np.int64) for _ in range(2))
    rests[places - base, owners] = lower & _MASK
    carries[places - base, owners] = (upper << (64 - DIGIT)) | ((lower >> DIGIT) & ((1 << (64 - DIGIT)) - 1))
    carry = np.zeros(count, np.int64)
    for rest, own in zip(rests, carries, strict=True):
        found = rest + carry
        rest[:] = found & _MASK
        carry = own + (found >> DIGIT)
    negative = carry < 0
    carry[:] = 0
    for rest in rests:
        found = np.where(negative, carry - rest, rest)
        rest[:] = found & _MASK
        carry = found >> DIGIT
    return np.where(negative, -1.0, 1.0) * _rounded(rests, _LOWEST + DIGIT * base)


def _rounded(rests: Ints, exponent: int) -> Doubles:
    """Return the nearest doubles of whole numbers times two to the `exponent`.

    `rests` has a row for each digit, the lowest first, and a column for each number.
    """
    padded = np.concatenate([np.zeros((2, rests.shape[1]), np.int64), rests])
    highest = len(rests) - 1 - np.argmax(rests[::-1] > 0, axis=0)
    columns = np.arange(rests.shape[1])
    top, middle, bottom = (padded[highest + at, columns] for at in (2, 1, 0))
    below = (np.cumsum(padded > 0, axis=0) > 0)[np.maximum(highest - 1, 0), columns]
    bits = np.frexp(top.astype(np.float64))[1].astype(np.int64)
    # The kept bits come from the top digit, then from the middle one, then from the bottom one.
    dropped = np.maximum(bits - (_KEPT - DIGIT), 0)
    added = np.maximum((_KEPT - DIGIT) - bits, 0)
    kept = (top << (_KEPT - bits)) | ((middle >> dropped) << added) | (bottom >> (DIGIT - added))
    rest = (middle & ((1 << dropped) - 1)) | (bottom & (_MASK >> added)) | below
    # The last bit is odd if any bit below is set, so that a number just above a tie is not rounded as a tie.
    with np.errstate(over="ignore"):
        sums: Doubles = np.ldexp(
            (kept | (rest != 0)).astype(np.float64), exponent + DIGIT * highest - (_KEPT - bits)
        )
    return sums

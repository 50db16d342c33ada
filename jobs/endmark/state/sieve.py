"""A sieve of key codes. It drops most codes that are not among its own, for less than a search costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from endmark.state import search

if TYPE_CHECKING:
    from endmark.state.search import Bools, Ints

_MIX = np.uint64(0x9E3779B97F4A7C15)
# Bits of a slot's number beyond those that count the codes. So there are 8 to 16 slots a code, each of one
# byte, and at most an eighth of the other codes pass.
_SPARE = 3
# If at least this many codes come to each of the others that have passed, a search is faster than sifting the
# codes: sifting 100,000 codes takes as long as searching 800 others among them, 0.16 ms.
_FEW = 100
_NONE = np.empty(0, np.int64)


class Sieve:
    """Slots by a multiplicative hash; those of `codes` are taken, and other codes pass if theirs is taken."""

    def __init__(self, codes: Ints) -> None:
        self._codes = codes
        self._sorted = bool((codes[1:] >= codes[:-1]).all())
        self._bits = len(codes).bit_length() + _SPARE
        self._own = self._slots(codes)
        self._taken = self._with(self._own)

    def narrowed(self, others: Ints) -> tuple[Ints, Ints]:
        """Return positions of the sieve's codes and of `others`, both in order.

        They include all positions of codes that are on both sides, and few more.
        """
        slots = self._slots(others)
        theirs = np.flatnonzero(self._taken[slots])
        if self._sorted and _FEW * len(theirs) <= len(self._codes):
            found = search.pairs(np.unique(others[theirs]), self._codes)
            return np.concatenate([_NONE, *(mine for _, mine in found)]), theirs
        return np.flatnonzero(self._with(slots[theirs])[self._own]), theirs

    def _slots(self, codes: Ints) -> Ints:
        return ((codes.view(np.uint64) * _MIX) >> np.uint64(64 - self._bits)).view(np.int64)

    def _with(self, slots: Ints) -> Bools:
        taken = np.zeros(1 << self._bits, bool)
        taken[slots] = True
        return taken

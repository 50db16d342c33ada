"""A sieve of key codes: what is not among them falls through, mostly, for less than a search costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from endmark.state import search

if TYPE_CHECKING:
    from endmark.state.search import Bools, Ints

_MIX = np.uint64(0x9E3779B97F4A7C15)
# Bits of a slot's number beyond those that count the codes: 8 to 16 slots a code, of a byte each, so that
# an eighth at most of what is not among them stays.
_SPARE = 3
# To sift 100,000 codes takes as long as to search 800 others among them, 0.16 ms.
_FEW = 100
_NONE = np.empty(0, np.int64)


class Sieve:
    """Slots by a multiplicative hash, of which those of `codes` are taken."""

    def __init__(self, codes: Ints) -> None:
        self._codes = codes
        self._sorted = bool((codes[1:] >= codes[:-1]).all())
        self._bits = len(codes).bit_length() + _SPARE
        self._own = self._slots(codes)
        self._taken = self._with(self._own)

    def narrowed(self, others: Ints) -> tuple[Ints, Ints]:
        """Positions of these codes and of `others`, both in order: all of equal codes, and few more."""
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

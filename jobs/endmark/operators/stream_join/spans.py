"""Spans of keys, for a key that is its own code. A search finds the keys that are inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.punctuation.algebra import Span
    from endmark.state.search import Bools, Ints


class Spans:
    """Spans of keys, in order.

    Args:
        spans: for each span, the code of its first key, and the code behind that of its last key.
    """

    def __init__(self, spans: Iterable[Span]) -> None:
        ends = list(spans)
        self._lows = np.array([low for low, _ in ends], np.int64)
        self._lasts = np.array([high - 1 for _, high in ends], np.int64)  # the highest cut exceeds int64

    def contain(self, codes: Ints) -> Bools:
        """Return a mask of the codes that are inside a span."""
        if not len(self._lows):
            return np.zeros(len(codes), bool)
        at = np.searchsorted(self._lows, codes, "right") - 1
        inside: Bools = (at >= 0) & (codes <= self._lasts[at])
        return inside

    def positions(self, codes: Ints) -> Ints:
        """Return the positions of codes that are inside a span. It bisects, so codes must be sorted."""
        first = np.searchsorted(codes, self._lows)
        behind = np.searchsorted(codes, self._lasts, "right")
        pieces = [np.arange(low, high) for low, high in zip(first, behind, strict=True) if low < high]
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)

    def holding(self, firsts: Ints, lasts: Ints) -> Ints:
        """Return the positions of ranges that lie in one span.

        Args:
            firsts, lasts: the codes of the first and of the last key of each range.
        """
        if not len(self._lows):
            return np.empty(0, np.int64)
        at = np.searchsorted(self._lows, firsts, "right") - 1
        return np.flatnonzero((at >= 0) & (lasts <= self._lasts[at]))

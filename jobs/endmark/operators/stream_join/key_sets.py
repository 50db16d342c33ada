"""Sets of keys that one partition of a stream has promised by patterns.

A key of one column has the union of the patterns as its set: a stream that promises ever more of the column
takes the space of one interval. A key of several columns has those patterns that no later one includes.

A row that comes nevertheless breaks one promise: the interval of the union that its key is in, with the
offset of the pattern that last widened it, or the newest pattern on several columns that matches its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from endmark.punctuation.columns import contains_all, matches
from endmark.punctuation.pattern import Anything
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.punctuation.ranges import Ranges

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.domain import Domain
    from endmark.punctuation.algebra import Span
    from endmark.punctuation.pattern import Pattern
    from endmark.state.keys import Keys
    from endmark.state.search import Bools, Ints

# The offset of a promise that nobody has sent.
UNKNOWN = -1


class Closed(Protocol):
    """The keys that one partition has promised."""

    def add(self, promise: Punctuation) -> None: ...
    def match(self, keys: Keys) -> Bools: ...
    def broken_by(self, keys: Keys, at: int) -> Punctuation | None: ...
    def promises(self) -> Iterable[Punctuation]: ...


class Interval:
    """Promised keys of one column, as intervals.

    Args:
        stream: the name of the stream.
        partition: the partition that has promised them.
        name: the key's column.
        domain: the domain of that column.
    """

    def __init__(self, stream: str, partition: int, name: str, domain: Domain) -> None:
        self._stream = stream
        self._partition = partition
        self._name = name
        self.ranges = Ranges(domain)

    def add(self, promise: Punctuation) -> None:
        self.ranges.add(dict(promise.patterns).get(self._name, Anything()), offset_of(promise))

    def match(self, keys: Keys) -> Bools:
        if keys.columns:
            return contains_all(self.ranges, keys.columns[0])
        return Spans(self.ranges.spans()).contain(keys.codes)

    def broken_by(self, keys: Keys, at: int) -> Punctuation | None:
        domain = self.ranges.domain
        cut = (
            domain.below(domain.coerce(keys.columns[0][at].as_py())) if keys.columns else int(keys.codes[at])
        )
        found = self.ranges.find(cut)
        return None if found is None else self._as_of(*found)

    def promises(self) -> Iterable[Punctuation]:
        return (self._as_of(*found) for found in self.ranges.dated())

    def _as_of(self, pattern: Pattern, offset: int) -> Punctuation:
        return Punctuation.of(self._stream, {self._name: pattern}, Origin(self._partition, offset))


class Boxes:
    """Promised keys of several columns, as the patterns that no later one includes."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains
        self._boxes: list[Punctuation] = []

    def add(self, promise: Punctuation) -> None:
        self._boxes = [box for box in self._boxes if not box.implies(promise, self._domains)]
        self._boxes.append(promise)

    def match(self, keys: Keys) -> Bools:
        columns = dict(zip(self._domains, keys.columns, strict=True))
        inside = np.zeros(len(keys), bool)
        for box in self._boxes:
            mask = np.ones(len(keys), bool)
            for name, pattern in box.patterns:
                mask &= matches(pattern, columns[name])
            inside |= mask
        return inside

    def broken_by(self, keys: Keys, at: int) -> Punctuation | None:
        row = {name: column[at].as_py() for name, column in zip(self._domains, keys.columns, strict=True)}
        found = next((box for box in reversed(self._boxes) if box.matches(row)), None)
        return None if found is None else found.normal(self._domains)

    def promises(self) -> Iterable[Punctuation]:
        return self._boxes


class Spans:
    """Spans of keys whose codes are the ordinals of a discrete domain."""

    def __init__(self, spans: Iterable[Span]) -> None:
        ends = list(spans)
        self._lows = np.array([low for low, _ in ends], np.int64)
        self._lasts = np.array([high - 1 for _, high in ends], np.int64)  # the top cut of longs is no int64

    def contain(self, codes: Ints) -> Bools:
        if not len(self._lows):
            return np.zeros(len(codes), bool)
        at = np.searchsorted(self._lows, codes, "right") - 1
        inside: Bools = (at >= 0) & (codes <= self._lasts[at])
        return inside

    def positions(self, codes: Ints) -> Ints:
        """Return the positions of the sorted codes that are inside; it bisects."""
        first = np.searchsorted(codes, self._lows)
        behind = np.searchsorted(codes, self._lasts, "right")
        pieces = [np.arange(low, high) for low, high in zip(first, behind, strict=True) if low < high]
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def offset_of(promise: Punctuation) -> int:
    return UNKNOWN if promise.origin is None else promise.origin.offset

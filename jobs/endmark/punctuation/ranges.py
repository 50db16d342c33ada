"""The punctuated range of one attribute: everything its stream has closed so far (MJoin report, section 5.1).

A sorted list of spans that do not touch, so what lies side by side is one entry: closing 1, 2, 3, ... takes
the space of one interval. Asking costs O(log n). Adding costs O(log n + spans merged) comparisons and one
memmove of the entries behind, 8 bytes each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import Self

from endmark.punctuation.algebra import Span, pattern_of, spans_of
from endmark.punctuation.domain import Domain
from endmark.punctuation.pattern import Anything, Pattern, Value
from endmark.punctuation.wire_json import PatternJson, pattern_from_json, pattern_to_json


class Ranges:
    """A union of patterns.

    Attributes:
        everything: `Anything` was added, so null and NaN are closed too.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.everything = False
        self._spans: list[Span] = []

    def __len__(self) -> int:
        return len(self._spans)

    def spans(self) -> Iterator[Span]:
        """In ascending order."""
        return iter(self._spans)

    def patterns(self) -> Iterator[Pattern]:
        """The union as disjoint patterns in normal form, ascending."""
        if self.everything:
            return iter([Anything()])
        return (pattern_of(span, self.domain) for span in self.spans())

    def add(self, pattern: Pattern) -> list[Pattern]:
        """What was new, as disjoint patterns in normal form. `Anything` is new as a whole, since it alone
        closes null and NaN."""
        if self.everything:
            return []
        fresh = self.add_spans(spans_of(pattern, self.domain))
        if isinstance(pattern, Anything):
            self.everything = True
            return [pattern]
        return [pattern_of(span, self.domain) for span in fresh]

    def add_spans(self, spans: Iterable[Span]) -> list[Span]:
        """As `add`, for spans of this domain."""
        return [fresh for span in spans for fresh in self._add(span)]

    def contains(self, value: Value | None) -> bool:
        """Whether a pattern added matches; a value that the domain does not hold is in no range."""
        if self.everything:
            return True
        if not self.domain.holds(value) or value != value:  # noqa: PLR0124  # NaN
            return False
        cut = self.domain.below(value)
        at = bisect_right(self._spans, (cut, self.domain.top)) - 1
        return at >= 0 and bool(cut < self._spans[at][1])

    def snapshot(self) -> list[PatternJson]:
        """What `restore` takes, ready for JSON."""
        return [pattern_to_json(pattern, self.domain) for pattern in self.patterns()]

    @classmethod
    def restore(cls, domain: Domain, snapshot: Iterable[PatternJson]) -> Self:
        ranges = cls(domain)
        for pattern in snapshot:
            ranges.add(pattern_from_json(pattern, domain))
        return ranges

    def _add(self, span: Span) -> list[Span]:
        low, high = span
        first = behind = bisect_left(self._spans, span)
        if first and self._spans[first - 1][1] >= low:
            first -= 1
        while behind < len(self._spans) and self._spans[behind][0] <= high:
            behind += 1
        touched = self._spans[first:behind]
        fresh = _gaps(touched, span)
        if touched:
            span = min(low, touched[0][0]), max(high, touched[-1][1])
        self._spans[first:behind] = [span]
        return fresh


def _gaps(covered: Iterable[Span], span: Span) -> list[Span]:
    """What of a span is not covered by ascending ones that touch it."""
    start, high = span
    gaps = []
    for covered_from, covered_to in covered:
        if start < covered_from:
            gaps.append((start, covered_from))
        start = covered_to
    if start < high:
        gaps.append((start, high))
    return gaps

"""The punctuated range of one attribute: all values that its stream has closed so far.

The MJoin report defines it in section 5.1. The range is a sorted list of spans that do not touch.
Neighbouring values are one entry, so closing 1, 2, 3, ... takes the space of one interval. A question costs
O(log n). An addition costs O(log n + spans merged) comparisons and one memmove of the entries behind, 8 bytes
each.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from endmark.domain import Cut, Domain
from endmark.punctuation.algebra import Span, pattern_of, spans_of
from endmark.punctuation.pattern import Anything, Pattern, Value


class Ranges:
    """A union of patterns. Each of its spans has the time of the newest pattern that widened it.

    Attributes:
        everything: whether `Anything` was added, so that null and NaN are closed too.
    """

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.everything = False
        self._spans: list[Span] = []
        self._as_of: list[int] = []  # the time of each span

    def __len__(self) -> int:
        return len(self._spans)

    def spans(self) -> Iterator[Span]:
        """Yield the spans in ascending order."""
        return iter(self._spans)

    def patterns(self) -> Iterator[Pattern]:
        """Return the union as disjoint patterns in normal form, ascending."""
        return (pattern for pattern, _ in self.dated())

    def dated(self) -> Iterator[tuple[Pattern, int]]:
        """Yield the disjoint patterns of the union, each with the time when one last widened it."""
        if self.everything:
            return iter([(Anything(), self._as_of[0])])
        patterns = (pattern_of(span, self.domain) for span in self._spans)
        return zip(patterns, self._as_of, strict=True)

    def find(self, cut: Cut) -> tuple[Pattern, int] | None:
        """Return the disjoint pattern that holds the value just above a cut, and its time, if one does."""
        at = self._position(cut)
        return None if at is None else (pattern_of(self._spans[at], self.domain), self._as_of[at])

    def add(self, pattern: Pattern, time: int = 0) -> list[Pattern]:
        """Add a pattern, and return its new values as disjoint patterns in normal form.

        `Anything` is returned as a whole, since it alone closes null and NaN. `time` must not go back from
        one call to the next.
        """
        if self.everything:
            return []
        fresh = [gap for span in spans_of(pattern, self.domain) for gap in self._add(span, time)]
        if isinstance(pattern, Anything):
            self.everything = True
            return [pattern]
        return [pattern_of(span, self.domain) for span in fresh]

    def contains(self, value: Value | None) -> bool:
        """Return whether an added pattern matches a value. Only `Anything` matches one of another domain."""
        if self.everything:
            return True
        if not self.domain.holds(value) or value != value:  # noqa: PLR0124  # NaN
            return False
        return self._position(self.domain.below(value)) is not None

    def includes(self, pattern: Pattern) -> bool:
        """Return whether the added patterns match all values of a pattern. Null and NaN do not count."""
        return all(self._covers(span) for span in spans_of(pattern, self.domain))

    def _covers(self, span: Span) -> bool:
        low, high = span  # our spans do not touch, so a single one must cover it
        at = bisect_right(self._spans, (low, self.domain.top)) - 1
        return at >= 0 and high <= self._spans[at][1]

    def _position(self, cut: Cut) -> int | None:
        at = bisect_right(self._spans, (cut, self.domain.top)) - 1
        return at if at >= 0 and cut < self._spans[at][1] else None

    def _add(self, span: Span, time: int) -> list[Span]:
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
        self._as_of[first:behind] = [time if fresh else self._as_of[first]]
        self._spans[first:behind] = [span]
        return fresh


def _gaps(covered: Iterable[Span], span: Span) -> list[Span]:
    """Return the parts of a span that some spans do not cover; these are ascending and all touch it."""
    start, high = span
    gaps = []
    for covered_from, covered_to in covered:
        if start < covered_from:
            gaps.append((start, covered_from))
        start = covered_to
    if start < high:
        gaps.append((start, high))
    return gaps

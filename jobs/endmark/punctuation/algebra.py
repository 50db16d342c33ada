"""Patterns as sets over a domain: normal form and intersection.

A set without null and NaN is a sorted list of spans that do not touch. A span is a pair of cuts. Two sets are
equal if their lists are equal, so each set has one normal form:

- `Nothing` stands for no value, `Equals` for one value, and `Between` for all values without a gap.
- `OneOf` stands for several values with gaps.
- In a discrete domain both ends are closed. An end is left out if the domain itself ends there.
- `Between()` stands for all values but null and NaN, and `Anything` for all values with these.

Both operations take O(n log n) in the number of values written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from endmark.domain import Cut, Domain
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern, Value

Span = tuple[Cut, Cut]


def normal(pattern: Pattern, domain: Domain) -> Pattern:
    """Return the one pattern that stands for the same set of values, which are coerced to the domain."""
    return pattern if isinstance(pattern, Anything) else _pattern(spans_of(pattern, domain), domain)


def meet(left: Pattern, right: Pattern, domain: Domain) -> Pattern:
    """Return the values that both patterns match, in normal form.

    Args:
        left: one pattern.
        right: the other pattern.
        domain: the domain of their attribute.
    """
    if isinstance(left, Anything):
        return normal(right, domain)
    if isinstance(right, Anything):
        return normal(left, domain)
    return _pattern(common(spans_of(left, domain), spans_of(right, domain)), domain)


def spans_of(pattern: Pattern, domain: Domain) -> list[Span]:
    """Return the spans of a pattern's values. Null and NaN, which `Anything` matches, are in no span."""
    match pattern:
        case Equals(value):
            return [_single(value, domain)]
        case OneOf(values):
            return _joined(sorted(_single(value, domain) for value in values))
        case Between(low, high, low_open, high_open):
            start = domain.bottom if low is None else _cut(low, low_open, domain)
            end = domain.top if high is None else _cut(high, not high_open, domain)
            return [(start, end)] if start < end else []
        case Nothing():
            return []
        case Anything():
            return [(domain.bottom, domain.top)]


def pattern_of(span: Span, domain: Domain) -> Pattern:
    """Return the pattern of the values between two cuts, in normal form."""
    low, high = span
    if domain.discrete:
        first, last = domain.value_at(low), domain.value_at(high - 1)
        if first == last:
            return Equals(first)
        return Between(first if low > domain.bottom else None, last if high < domain.top else None)
    if high == (*low[:2], 1):
        return Equals(low[1])
    start, low_open = (None, 0) if low == domain.bottom else low[1:]
    end, high_closed = (None, 1) if high == domain.top else high[1:]
    return Between(start, end, bool(low_open), not high_closed)


def _pattern(spans: Sequence[Span], domain: Domain) -> Pattern:
    if len(spans) == 1:
        return pattern_of(spans[0], domain)
    return OneOf(frozenset(_values(spans, domain))) if spans else Nothing()


def _values(spans: Iterable[Span], domain: Domain) -> Iterator[Value]:
    """The values of spans that were made from a `OneOf`. In a dense domain each span holds one value."""
    for low, high in spans:
        if domain.discrete:
            yield from map(domain.value_at, range(low, high))
        else:
            yield low[1]


def _single(value: Value, domain: Domain) -> Span:
    plain = domain.coerce(value)
    return domain.below(plain), domain.above(plain)


def _cut(value: Value, above: bool, domain: Domain) -> Cut:
    plain = domain.coerce(value)
    return domain.above(plain) if above else domain.below(plain)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """The spans after spans that touch are merged; `spans` ascend."""
    joined: list[Span] = []
    for low, high in spans:
        if joined and low <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    return joined


def common(left: Sequence[Span], right: Sequence[Span]) -> list[Span]:
    """Return the spans of the values that both lists of spans have. Both lists ascend."""
    shared: list[Span] = []
    i = j = 0
    while i < len(left) and j < len(right):
        low, high = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if low < high:
            shared.append((low, high))
        if left[i][1] <= right[j][1]:
            i += 1
        else:
            j += 1
    return shared

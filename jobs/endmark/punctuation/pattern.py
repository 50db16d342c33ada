"""Patterns: sets of values of one attribute that will not come again.

A pattern is a wildcard, a constant, a list, a range or empty (PWJoin CIKM'04 section 3.1). `matches` says
whether a value is in the set; a value of another type is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from endmark.domain import Domain, PunctuationError, Value, common_domain, domain_of_value

_NUMBERS = {int, float, Decimal}
_COMPARABLE: dict[type, set[type]] = {
    bool: {bool},
    **dict.fromkeys(_NUMBERS, _NUMBERS),
    str: {str},
    date: {date},
    datetime: {datetime},
}


@dataclass(frozen=True, slots=True)
class Anything:
    """Every value, including null and NaN. Attributes that a promise does not restrict have this pattern."""

    def matches(self, value: Value | None) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Nothing:
    """No value. The intersection of patterns without a common value is this pattern."""

    def matches(self, value: Value | None) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Equals:
    """One value."""

    value: Value

    def __post_init__(self) -> None:
        domain_of_value(self.value)

    def matches(self, value: Value | None) -> bool:
        return value == self.value and _same_kind(value, self.value)


@dataclass(frozen=True, slots=True)
class OneOf:
    """Several values."""

    values: frozenset[Value]

    def __post_init__(self) -> None:
        if self.values:
            common_domain({domain_of_value(value) for value in self.values})

    def matches(self, value: Value | None) -> bool:
        return value in self.values and _same_kind(value, next(iter(self.values)))


@dataclass(frozen=True, slots=True)
class Between:
    """An interval. An end that is `None` is unbounded. An open end does not belong to the interval."""

    low: Value | None = None
    high: Value | None = None
    low_open: bool = False
    high_open: bool = False

    def __post_init__(self) -> None:
        ends = {domain_of_value(end) for end in (self.low, self.high) if end is not None}
        if len(ends) > 1:
            common_domain(ends)
        # An unbounded end counts as closed, so that equal patterns have equal fields.
        object.__setattr__(self, "low_open", self.low_open and self.low is not None)
        object.__setattr__(self, "high_open", self.high_open and self.high is not None)

    def matches(self, value: Value | None) -> bool:
        if value is None or value != value:  # noqa: PLR0124  # NaN
            return False
        return self._reaches_up_to(value) and self._reaches_down_to(value)

    def _reaches_up_to(self, value: Value) -> bool:
        if self.high is None:
            return True
        if not _same_kind(value, self.high):
            return False
        return value < self.high if self.high_open else value <= self.high  # type: ignore[operator]

    def _reaches_down_to(self, value: Value) -> bool:
        if self.low is None:
            return True
        if not _same_kind(value, self.low):
            return False
        return value > self.low if self.low_open else value >= self.low  # type: ignore[operator]


Pattern = Anything | Equals | OneOf | Between | Nothing


def values_of(pattern: Pattern) -> list[Value]:
    """Return the values that a pattern is written with."""
    match pattern:
        case Equals(value):
            return [value]
        case OneOf(values):
            return list(values)
        case Between(low, high):
            return [end for end in (low, high) if end is not None]
        case _:
            return []


def _same_kind(value: object, other: object) -> bool:
    """Return whether two values may be compared: True and 1 may not, and a date and a timestamp may not."""
    kind, other_kind = type(value), type(other)
    return kind is other_kind or other_kind in _COMPARABLE.get(kind, ())


__all__ = [
    "Anything",
    "Between",
    "Domain",
    "Equals",
    "Nothing",
    "OneOf",
    "Pattern",
    "PunctuationError",
    "Value",
    "values_of",
]

"""What a promise says of one attribute: the values that will not come again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

Value = bool | int | float | str | Decimal | date | datetime


@dataclass(frozen=True, slots=True)
class Anything:
    """Every value; an attribute the promise does not speak of."""

    def matches(self, value: Value | None) -> bool:
        return True


@dataclass(frozen=True, slots=True)
class Nothing:
    """No value; the meet of patterns that have none in common."""

    def matches(self, value: Value | None) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Equals:
    """One value."""

    value: Value

    def matches(self, value: Value | None) -> bool:
        return value == self.value


@dataclass(frozen=True, slots=True)
class OneOf:
    """Several values."""

    values: frozenset[Value]

    def matches(self, value: Value | None) -> bool:
        return value in self.values


@dataclass(frozen=True, slots=True)
class Between:
    """An interval; an end that is None is unbounded, an open end does not belong to it."""

    low: Value | None = None
    high: Value | None = None
    low_open: bool = False
    high_open: bool = False

    def matches(self, value: Value | None) -> bool:
        if value is None or value != value:  # noqa: PLR0124  # NaN
            return False
        above = self.low is None or (value > self.low if self.low_open else value >= self.low)  # type: ignore[operator]
        below = self.high is None or (value < self.high if self.high_open else value <= self.high)  # type: ignore[operator]
        return above and below


Pattern = Anything | Equals | OneOf | Between | Nothing

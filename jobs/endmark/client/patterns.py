"""The patterns of a punctuation, one for each column. A matching row matches all of them."""

from __future__ import annotations

from endmark.punctuation.pattern import Anything, Between, Equals, OneOf, Value


def anything() -> Anything:
    """Return the pattern of every value."""
    return Anything()


def equals(value: Value) -> Equals:
    """Return the pattern of one value."""
    return Equals(value)


def one_of(first: Value, *others: Value) -> OneOf:
    """Return the pattern of any of these values."""
    return OneOf(frozenset([first, *others]))


def between(
    low: Value | None = None, high: Value | None = None, *, low_open: bool = False, high_open: bool = False
) -> Between:
    """Return the pattern of an interval.

    Args:
        low: the lower end; `None` is unbounded.
        high: the upper end; `None` is unbounded.
        low_open: whether the interval excludes its lower end.
        high_open: whether the interval excludes its upper end.
    """
    return Between(low, high, low_open, high_open)

"""The patterns of a punctuation, one for each column; patterns of several columns hold together (and)."""

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
        low, high: its ends; `None` is unbounded.
        low_open, high_open: the end does not belong to the interval.
    """
    return Between(low, high, low_open, high_open)

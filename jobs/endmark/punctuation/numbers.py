"""Converts patterns between the values of columns and the numbers that stand for them in records."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from endmark.domain import PunctuationError
from endmark.punctuation.pattern import Between, Equals, OneOf
from endmark.punctuation.punctuation import Punctuation
from endmark.types import Spelling

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from endmark.domain import Value
    from endmark.punctuation.pattern import Pattern
    from endmark.types import ColumnType


def from_numbers(promise: Punctuation, columns: Mapping[str, ColumnType]) -> Punctuation:
    """Return a punctuation with values in place of the numbers that a record spells them by.

    Args:
        promise: a punctuation that was read in the domains of the columns' spellings.
        columns: the types of the columns, by name.

    Raises:
        PunctuationError: a number is out of range. The error names the attribute.
    """
    return _converted(promise, columns, lambda spelling, number: spelling.value_of(cast("float", number)))


def to_numbers(promise: Punctuation, columns: Mapping[str, ColumnType]) -> Punctuation:
    """Return a punctuation with numbers in place of the values that a record spells by numbers.

    Raises:
        PunctuationError: a value is out of range, or between two numbers. The error names the attribute.
    """
    return _converted(promise, columns, Spelling.number_of)


def _converted(
    promise: Punctuation, columns: Mapping[str, ColumnType], convert: Callable[[Spelling, Value], Value]
) -> Punctuation:
    patterns = dict(promise.patterns)
    for name, pattern in promise.patterns:
        if spelling := columns[name].spelling:
            try:
                patterns[name] = _with_values(pattern, partial(convert, spelling))
            except PunctuationError as error:
                raise PunctuationError(f"attribute {name!r}: {error}") from None
    return Punctuation.of(promise.stream, patterns, promise.origin)


def _with_values(pattern: Pattern, convert: Callable[[Value], Value]) -> Pattern:
    match pattern:
        case Equals(value):
            return Equals(convert(value))
        case OneOf(values):
            return OneOf(frozenset(map(convert, values)))
        case Between(low, high, low_open, high_open):
            ends = [None if end is None else convert(end) for end in (low, high)]
            return Between(ends[0], ends[1], low_open, high_open)
    return pattern

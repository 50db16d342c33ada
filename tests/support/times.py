"""Numbers of the worlds as times of the engine: each is a microsecond after a start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from endmark.domain import Domain
from endmark.punctuation.pattern import Between, Pattern
from endmark.punctuation.wire_json import pattern_from_json
from support.output_world import numbers_of

Sets = frozenset[tuple[str, frozenset[int]]]
_MICROSECOND = timedelta(microseconds=1)


def in_column(name: str, pattern: Pattern, start: datetime) -> Pattern:
    """A pattern of numbers as the column has it."""
    if name.endswith("time") and isinstance(pattern, Between) and isinstance(pattern.high, int):
        return Between(high=start + pattern.high * _MICROSECOND, high_open=pattern.high_open)
    return pattern


def as_number(value: Any, start: datetime) -> Any:
    """A value of a column as a number."""
    return (value - start) // _MICROSECOND if isinstance(value, datetime) else value


def sets(text: Mapping[str, Any], start: datetime) -> Sets:
    """The numbers that an output punctuation matches in each column that it restricts."""
    return frozenset((name, _matched(name, each, start)) for name, each in text.items())


def _matched(name: str, written: Any, start: datetime) -> frozenset[int]:
    if not name.endswith("time"):
        pattern = pattern_from_json(written, Domain.LONG)
        return frozenset(n for n in numbers_of(name) if pattern.matches(n))
    pattern = pattern_from_json(written, Domain.TIMESTAMP)
    return frozenset(n for n in numbers_of(name) if pattern.matches(start + n * _MICROSECOND))

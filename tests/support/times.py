"""The spellings of a world's numbers: as longs, dates or times, also those at the ends of their types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from endmark.domain import Domain
from endmark.punctuation.pattern import Between, Equals, OneOf, Pattern
from endmark.punctuation.wire_json import pattern_from_json
from support.output_world import NUMBERS, numbers_of

Sets = frozenset[tuple[str, frozenset[int]]]


@dataclass(frozen=True)
class Spelling:
    """A column's values: `zero` stands for 0, and the next value of the type for the next number."""

    kind: pa.DataType
    domain: Domain
    zero: Any
    step: Any = 1

    def value(self, number: Any) -> Any:
        return None if number is None else self.zero + number * self.step

    def number(self, value: Any) -> Any:
        return None if value is None else (value - self.zero) // self.step

    def pattern(self, numbers: Pattern) -> Pattern:
        """A pattern of numbers as the column has it."""
        match numbers:
            case Equals(int(value)):
                return Equals(self.value(value))
            case OneOf(values):
                return OneOf(frozenset(map(self.value, values)))
            case Between(low, high, low_open, high_open):
                return Between(self.value(low), self.value(high), low_open, high_open)
        return numbers


_FIRST, _LAST = NUMBERS[0], NUMBERS[-1]
_MICROSECOND, _DAY = timedelta(microseconds=1), timedelta(days=1)


def times(start: datetime) -> Spelling:
    """The microseconds behind a start."""
    return Spelling(pa.timestamp("us", "UTC"), Domain.TIMESTAMP, start, _MICROSECOND)


LONGS = Spelling(pa.int64(), Domain.LONG, 0)
# The first number of a world is the first value of the type, or the last one is the last value.
SPELLINGS = [
    LONGS,
    Spelling(pa.int64(), Domain.LONG, -(2**63) - _FIRST),
    Spelling(pa.int64(), Domain.LONG, 2**63 - 1 - _LAST),
    Spelling(pa.date32(), Domain.DATE, date.min - _FIRST * _DAY, _DAY),
    Spelling(pa.date32(), Domain.DATE, date.max - _LAST * _DAY, _DAY),
    times(datetime.min.replace(tzinfo=UTC) - _FIRST * _MICROSECOND),
    times(datetime.max.replace(tzinfo=UTC) - _LAST * _MICROSECOND),
]
# Frames have smaller numbers, too.
SMALL = [
    Spelling(kind, Domain.LONG, zero)
    for kind, bits in ((pa.int32(), 31), (pa.int16(), 15), (pa.int8(), 7))
    for zero in (0, -(2**bits) - _FIRST, 2**bits - 1 - _LAST)
]


@dataclass(frozen=True)
class Spellings:
    """The spellings of the columns of a world."""

    key: Spelling
    value: Spelling
    time: Spelling

    def of(self, name: str) -> Spelling:
        """Return the spelling of a column of results, whose name ends with that of a column of a stream."""
        found: Spelling = getattr(self, name.rpartition("_")[2])
        return found

    def sets(self, text: Mapping[str, Any]) -> Sets:
        """The numbers that an output punctuation matches in each column that it restricts."""
        return frozenset((name, self._matched(name, each)) for name, each in text.items())

    def _matched(self, name: str, written: Any) -> frozenset[int]:
        spelling = self.of(name)
        pattern = pattern_from_json(written, spelling.domain)
        return frozenset(n for n in numbers_of(name) if pattern.matches(spelling.value(n)))


def spellings(start: datetime, more: list[Spelling] | None = None) -> st.SearchStrategy[Spellings]:
    """Any spellings of keys and values. Times begin in the year 1, before 1970 or with `start`."""
    chosen = st.sampled_from([*SPELLINGS, *(more or [])])
    starts = [start, datetime(1, 1, 1, 0, 0, 0, 1, UTC), datetime(1970, 1, 1, tzinfo=UTC) - 9 * _MICROSECOND]
    return st.builds(Spellings, chosen, chosen, st.sampled_from(starts).map(times))

"""The values that stand for a world's key numbers: one kind of key for each type, and a composite one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from endmark.state.keys import KeySpec

# Of different lengths: empty, within a hashed word, a whole one, and with a common beginning.
_TEXTS = ("", "a", "ab", "12345678", "123456789", "1234567\u00e9")
# Bytes of a hashed word that are zero, and texts whose order in UTF-16 is not that of their bytes.
_ODD_TEXTS = ("\0", "a", "a\0", "a\0\0", "\uffff", "\U0001f600")
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class KeyKind:
    """Key columns of some types; `value` gives their values for a key number."""

    name: str
    types: tuple[pa.DataType, ...]
    value: Callable[[int], tuple[Any, ...]]

    def spec(self, prefix: str) -> KeySpec:
        return KeySpec.of([f"{prefix}key_{at}" for at in range(len(self.types))], self.types)

    def columns(self, numbers: list[int]) -> list[pa.Array]:
        values = [self.value(number) for number in numbers]
        return [pa.array([value[at] for value in values], kind) for at, kind in enumerate(self.types)]

    def numbers(self, columns: list[pa.Array], domain: int = 64) -> list[int]:
        """The key numbers of rows."""
        known = {self.value(number): number for number in range(domain)}
        return [known[row] for row in zip(*(column.to_pylist() for column in columns), strict=True)]


def _text(number: int) -> str:
    return _TEXTS[number % 6] + "x" * (number // 6)


def _at_ends(number: int, first: Any, last: Any, step: Any) -> tuple[Any, ...]:
    """One of the first values of a type, or of the last ones."""
    return (first + number // 2 * step,) if number % 2 else (last - number // 2 * step,)


KINDS = (
    KeyKind("long", (pa.int64(),), lambda number: (number - 3,)),
    KeyKind("string", (pa.string(),), lambda number: (_text(number),)),
    KeyKind("date", (pa.date32(),), lambda number: (date(1970, 1, 3) - timedelta(days=number),)),
    KeyKind("decimal", (pa.decimal128(38, 2),), lambda number: (Decimal(number - 2) * 10**30 / 8,)),
    KeyKind("ends of longs", (pa.int64(),), lambda number: _at_ends(number, -(2**63), 2**63 - 1, 1)),
    KeyKind(
        "ends of times",
        (pa.timestamp("us", "UTC"),),
        lambda number: _at_ends(number, _FIRST, _LAST, timedelta(microseconds=1)),
    ),
    KeyKind("odd strings", (pa.string(),), lambda number: (_ODD_TEXTS[number % 6] + "x" * (number // 6),)),
    KeyKind(
        "composite",
        (pa.bool_(), pa.timestamp("us", "UTC"), pa.string()),
        lambda number: (
            number % 2 == 0,
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number // 2 % 2),
            _TEXTS[number // 4 % 6] + "y" * (number // 24),
        ),
    ),
)

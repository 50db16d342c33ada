"""Kinds of join key, each of which can spell small numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KeyKind:
    """A world's key columns: their types, and the members of a record that spell a number from 0 to 8."""

    types: dict[str, str]
    spell: Callable[[int], dict[str, Any]]

    def home(self, number: int, count: int) -> int:
        """The partition of a key, among `count`. Numbers that are spelled alike are one key."""
        alike = next(each for each in range(9) if self.spell(each) == self.spell(number))
        return alike % count


LONG = KeyKind({"item_id": "long"}, lambda n: {"item_id": n})
COMPOSITE = KeyKind({"item_id": "long", "lot": "string"}, lambda n: {"item_id": n // 2, "lot": "ab"[n % 2]})
EVERYTHING = KeyKind(
    {"day": "date", "house": "string", "fee": "decimal(6,2)", "open": "boolean", "at": "timestamp"},
    lambda n: {
        "day": f"2026-01-0{1 + n // 8}",
        "house": 'a "b" ,}',
        "fee": "1.50",
        "open": n % 2 == 0,
        "at": f"2026-01-01T00:00:0{n // 2}Z",
    },
)
KEY_KINDS = {
    "long": LONG,
    "string": KeyKind({"item_id": "string"}, lambda n: {"item_id": "\u00fc" * n}),
    "date": KeyKind({"item_id": "date"}, lambda n: {"item_id": f"2026-01-0{n + 1}"}),
    "decimal": KeyKind({"item_id": "decimal(38,2)"}, lambda n: {"item_id": f"-{n}.5"}),
    "timestamp": KeyKind({"item_id": "timestamp"}, lambda n: {"item_id": f"2026-01-01T00:00:00.{n}Z"}),
    "boolean": KeyKind({"item_id": "boolean"}, lambda n: {"item_id": n % 2 == 0}),
    "composite": COMPOSITE,
    "everything": EVERYTHING,
}

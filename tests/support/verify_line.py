"""A record that can be read, and where it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from support.verify_fates import Key, Promise


@dataclass(frozen=True)
class Line:
    """A row or a punctuation, with its place; `columns` is empty for a punctuation, which has a key or a
    promise about many. `found` is what matches in relations add to it, by `relation.column`."""

    partition: int
    offset: int
    key: Key
    columns: dict[str, Any]
    promise: Promise | None = None
    value: bytes | None = None  # what a row came as
    found: dict[str, Any] = field(default_factory=dict)

    def rules_out(self, row: Line) -> bool:
        """Return whether a punctuation matches a row."""
        return self.key == row.key if self.promise is None else self.promise.matches(row.columns)

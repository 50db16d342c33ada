"""The columns by which a lookup asks: those of its stream, or of a relation that an earlier lookup asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Column(NamedTuple):
    """A column of a stream or of a relation.

    Args:
        origin: the name of the stream or of the relation.
        name: the name of the column there.
    """

    origin: str
    name: str

    @property
    def in_results(self) -> str:
        """The name of the column in results."""
        return f"{self.origin}_{self.name}"


@dataclass(frozen=True)
class Asked:
    """The columns by which a lookup asks.

    Args:
        key: a column for each column of the relation's key, in the same order.
        time: the column of the time for which `as_of` picks a version; `None` without `as_of`.
    """

    key: tuple[Column, ...]
    time: Column | None

    @property
    def origins(self) -> set[str]:
        """The names of the stream and of the relations that the columns are of."""
        return {column.origin for column in (*self.key, *([] if self.time is None else [self.time]))}

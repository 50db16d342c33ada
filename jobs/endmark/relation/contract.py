"""What the lookup join asks of a relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from endmark.state.search import Ints


# `low <= key < high`; None is unbounded.
KeyRange = tuple[int | None, int | None]


class PageReader(Protocol):
    """Reads key ranges of a relation R."""

    @property
    def schema(self) -> pa.Schema:
        """R's columns, the key among them."""
        ...

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        """All rows of ascending, disjoint key ranges, sorted by key."""
        ...


class PageDirectory:
    """Which page holds a key: the lower key of every page, ascending.

    Pages cover all keys: the first has no lower bound and the last no upper one, so rows that come to R
    later still belong to a page.
    """

    def __init__(self, lower_keys: Ints) -> None:
        # One entry stands for the unbounded first page even when R is empty.
        self._bounds = lower_keys[1:]

    def __len__(self) -> int:
        return len(self._bounds) + 1

    def page_of(self, keys: Ints) -> Ints:
        """The page number of each key."""
        return np.searchsorted(self._bounds, keys, "right")

    def range_of(self, page: int) -> KeyRange:
        low = int(self._bounds[page - 1]) if page > 0 else None
        high = int(self._bounds[page]) if page < len(self._bounds) else None
        return low, high

"""The interface through which the lookup join reads a relation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from endmark.state.search import Ints

# One value of each key column, in the order of `RelationReader.key`.
KeyValues = tuple[Any, ...]
# The keys with `low <= key < high`, compared column by column; `None` is unbounded.
KeyRange = tuple[KeyValues | None, KeyValues | None]


class RelationReader(Protocol):
    """Reads a relation R.

    Every answer has R's columns. Keys with a null are never read. The rows of a page, and all rows of one
    key, are as they were at one moment.
    """

    @property
    def schema(self) -> pa.Schema:
        """R's columns, including the key."""
        ...

    @property
    def key(self) -> tuple[str, ...]:
        """R's key columns."""
        ...

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        """Return all rows of ascending, disjoint key ranges, ordered by key."""
        ...

    def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return all rows of distinct keys. The columns of `keys` have the names of R's key columns."""
        ...


class PagedRelation(RelationReader, Protocol):
    """A relation that can be cut into pages."""

    def directory(self, page_rows: int) -> PageDirectory:
        """Return the directory of pages of `page_rows` rows."""
        ...


class PageDirectory:
    """The pages of R, each by its lower key.

    Pages cover all keys: the first page has no lower bound, and the last has no upper bound. A row that comes
    to R later therefore still belongs to a page.

    Attributes:
        unpaged: the reason why R is read by lists of keys alone, and what mends it; `None` if R has pages.
        samples: some keys of R that can be read to time reads.

    Args:
        lower_keys: the lower key of each page, ascending and distinct, with a column for each of R's key
            columns. Strings are ordered by their bytes.
    """

    def __init__(self, lower_keys: pa.RecordBatch) -> None:
        # One entry stands for the unbounded first page even when R is empty.
        self._bounds = self.samples = lower_keys.slice(1)
        self._key = KeySpec.of(lower_keys.schema.names, lower_keys.schema.types)
        self.unpaged: str | None = None

    @classmethod
    def without_pages(cls, samples: pa.RecordBatch, unpaged: str) -> Self:
        """Make the directory of a relation without pages. Its one page has all keys, and is never read.

        Args:
            samples, unpaged: the attributes.
        """
        directory = cls(samples.slice(0, 0))
        directory.samples, directory.unpaged = samples, unpaged
        return directory

    def __len__(self) -> int:
        return int(self._bounds.num_rows) + 1

    def page_of(self, keys: pa.RecordBatch) -> Ints:
        """Return the page number of each key. `keys` has the key columns in their order, under any names."""
        named = keys.rename_columns(self._bounds.schema.names)
        if self._key.hashed:
            return _rank(self._bounds, named)
        return np.searchsorted(self._codes, self._key.keys(named).codes, "right")

    def ends(self, codes: Ints) -> Ints:
        """Count for each page the keys on it or on an earlier page. The keys are ascending codes."""
        return np.append(np.searchsorted(codes, self._codes), len(codes))

    def range_of(self, first: int, last: int | None = None) -> KeyRange:
        """Return the range of keys of the pages from `first` to `last`; `None` as `last` is `first` alone."""
        last = first if last is None else last
        low = self._bound(first - 1) if first > 0 else None
        high = self._bound(last) if last < self._bounds.num_rows else None
        return low, high

    @property
    def _codes(self) -> Ints:
        return self._key.keys(self._bounds).codes

    def _bound(self, at: int) -> KeyValues:
        return tuple(column[at].as_py() for column in self._bounds.columns)


def _rank(bounds: pa.RecordBatch, keys: pa.RecordBatch) -> Ints:
    """Count for each key the ascending bounds that are not above it. One second ranks 1 M strings."""
    together = pa.Table.from_batches([bounds, keys])
    # The sort is stable, so a bound comes before the keys that equal it.
    order = pc.sort_indices(together, [(name, "ascending") for name in bounds.schema.names]).to_numpy()
    is_bound = order < bounds.num_rows
    passed = np.cumsum(is_bound)
    ranks = np.empty(keys.num_rows, np.int64)
    ranks[order[~is_bound].astype(np.int64) - bounds.num_rows] = passed[~is_bound]
    return ranks

"""The closing group-by folds results into partial rows, and puts a group out when a punctuation closes it.

The state is a list of segments with partial rows by key, and one more list for each measure that needs more
than one row of a group. Segments combine rows of equal key when they merge. So the cost of a batch depends on
its own rows, not on the number of open groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.operators.group_by.measures import combined, input_name, kept_fields
from endmark.state import codec, manifest
from endmark.state.keys import KeySpec
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from endmark.operators.group_by.measures import MeasureSpec
    from endmark.state.keys import Keys, Share
    from endmark.state.search import Bools
    from endmark.state.segment_list import SegmentRows
    from endmark.state.store import SegmentStore


@dataclass(frozen=True)
class KeyColumn:
    """One column of the group key. Its value is the first one among several input columns that is not null.

    Args:
        name: the name of the column.
        kind: the type of the column.
        sources: the input columns, in order.
        nullable: whether all of them may be null in one row. Null is then a key as any other.
    """

    name: str
    kind: pa.DataType
    sources: tuple[str, ...]
    nullable: bool = False


def group_key(columns: Sequence[KeyColumn]) -> KeySpec:
    """Return the key of groups by some columns."""
    names, kinds = [column.name for column in columns], [column.kind for column in columns]
    return KeySpec.of(names, kinds, nullable=any(column.nullable for column in columns))


def group_inputs(
    keys: Sequence[KeyColumn], measures: Sequence[MeasureSpec], results: pa.RecordBatch
) -> pa.RecordBatch:
    """Return the columns of join results that groups need: the group key, and the inputs of measures."""
    columns = {key.name: pc.coalesce(*(results.column(name) for name in key.sources)) for key in keys}
    names = dict.fromkeys(name for measure in measures for name in measure.inputs)
    return pa.record_batch(columns | {input_name(name): results.column(name) for name in names})


class ClosingAggregate:
    """The open groups of one bucket. `add` folds results into them; `close` removes and returns closed ones.

    Attributes:
        schema: the columns of closed groups.
        groups: the partial rows of open groups.
        notes: JSON values of the caller, which a snapshot keeps.

    Args:
        keys: the columns of the group key.
        measures: the measures.
        store: keeps the state.
        restored: a snapshot; `None` to begin without groups.
    """

    def __init__(
        self,
        keys: list[KeyColumn],
        measures: list[MeasureSpec],
        store: SegmentStore,
        restored: bytes | None = None,
    ) -> None:
        self._keys = keys
        self._measures = measures
        names = [(column.name, column.kind) for column in keys]
        self.schema = pa.schema([*names, *((measure.name, measure.kind) for measure in measures)])
        self._partial = pa.schema([*names, *kept_fields(measures)])
        self._key = key = group_key(keys)
        self._combine = partial(combined, key, measures, self._partial)
        self.groups = SegmentList(store, key, merge=self._combine)
        self._spread = {
            measure.name: rows_of(measure, key, store)
            for measure in measures
            if (rows_of := measure.spread) is not None
        }
        self.notes: dict[str, Any] = {}
        if restored is not None:
            self.notes = manifest.load(restored, self.lists)

    @property
    def lists(self) -> dict[str, SegmentList]:
        """The lists of segments, by name."""
        spread = {f"{name}$spread": spread.rows for name, spread in self._spread.items()}
        return {"groups": self.groups} | spread

    def snapshot(self) -> bytes:
        """Return the state for `restored`, without the segments."""
        return manifest.save(self.lists, self.notes)

    def keep(self, share: Share) -> None:
        """Drop the groups that belong to other buckets."""
        for rows in self.lists.values():
            rows.keep(share)

    def add(self, inputs: list[pa.RecordBatch]) -> None:
        """Fold results, as `inputs` returns them, into their groups."""
        if not inputs:
            return
        rows = codec.concat(inputs)
        kept = [column for measure in self._measures for column in measure.of_rows(rows)]
        keys = rows.columns[: len(self._keys)]
        self.groups.append(self._combine(pa.record_batch([*keys, *kept], schema=self._partial)))
        self.groups.maintain()
        for spread in self._spread.values():
            spread.add(rows)

    def close(self, keys: Keys) -> pa.RecordBatch:
        """Remove the groups of `keys`, which are sorted by code, and return them, one row each."""
        return self._put_out(lambda rows: rows.remove(keys))

    def close_where(self, final: Callable[[Keys], Bools]) -> pa.RecordBatch:
        """Remove and return the groups whose key is final; `final` makes a mask of final keys."""
        return self._put_out(
            lambda rows: rows.remove_where(lambda segment: np.flatnonzero(final(segment.keys)))
        )

    def close_rows(self, final: Callable[[pa.RecordBatch], Bools]) -> pa.RecordBatch:
        """Remove and return the groups whose key is final; `final` makes a mask of rows, by key columns."""
        return self._put_out(
            lambda rows: rows.remove_where(lambda segment: np.flatnonzero(final(segment.batch)))
        )

    def keys_of(self, rows: list[pa.RecordBatch]) -> pa.RecordBatch:
        """Return the keys of rows that were added, each once, sorted by code."""
        columns = list(self._key.columns)
        return self._key.distinct(self._key.coded(codec.concat([each.select(columns) for each in rows])))

    def so_far(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return the present rows of the open groups among `keys`, which `keys_of` has returned."""
        found = self._key.keys(keys)
        return self._evaluated(lambda rows: rows.having(found))

    def _put_out(self, remove: Callable[[SegmentList], list[SegmentRows]]) -> pa.RecordBatch:
        groups = self._evaluated(remove)
        for rows in self.lists.values():
            rows.maintain()
        return groups

    def _evaluated(self, rows_of: Callable[[SegmentList], list[SegmentRows]]) -> pa.RecordBatch:
        """Return the groups with the values of their measures; `rows_of` finds their rows in a list."""
        parts = [some.batch for some in rows_of(self.groups)]
        if not parts:
            return pa.RecordBatch.from_pylist([], self.schema)
        groups = self._combine(codec.concat(parts))
        spread = {name: own.ended(rows_of(own.rows), groups) for name, own in self._spread.items()}
        ended = [measure.ended(groups, spread.get(measure.name)) for measure in self._measures]
        keys = groups.columns[: len(self._keys)]
        return pa.record_batch([*keys, *ended], schema=self.schema)

    def inputs(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the columns of join results that `add` needs."""
        return group_inputs(self._keys, self._measures, batch)

"""A segment: an immutable block of rows sorted by key, with marks for rows that died or had a partner."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints


def int64(column: pa.Array) -> Ints:
    """Return an integer or timestamp column as int64 without copying. Timestamps are in microseconds."""
    return np.asarray(column.view(pa.int64()).to_numpy(zero_copy_only=True))


def merge_sorted(batches: list[pa.RecordBatch], key: KeySpec) -> pa.RecordBatch:
    """Merge one or more batches, each sorted by key, to one that is."""
    return batches[0] if len(batches) == 1 else key.sorted(codec.concat(batches))


def completed(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Return rows with some columns in front, in their order; a column that the rows lack is null there."""
    if rows.schema.names[: len(columns)] == columns.names:
        return rows
    there = {name: rows.column(name) for name in rows.schema.names}
    found = {field.name: there.pop(field.name, None) for field in columns}
    arrays = [
        pa.nulls(rows.num_rows, columns.field(name).type) if column is None else column
        for name, column in found.items()
    ]
    return pa.record_batch([*arrays, *there.values()], names=[*found, *there])


def taken(rows: pa.RecordBatch, positions: Ints) -> pa.RecordBatch:
    """Return the rows at some positions. If these are all rows in their order, nothing is copied."""
    if len(positions) == rows.num_rows and np.array_equal(positions, np.arange(rows.num_rows)):
        return rows  # to copy the columns would take ten times as long as this check
    return rows.take(pa.array(positions))


@dataclass
class Segment:
    """A block of rows. All fields are known without loading the rows.

    Args:
        segment_id: the name of the block in the store; empty if no store has it.
        rows: the number of rows, dead ones included.
        size: the bytes in the store.
        low, high: bounds of the event times of live rows, in microseconds.
        dead: a mask of dead rows; `None` while there are none.
        matched: a mask of rows that have had a partner; `None` while there are none.
        key: the key of the rows.
        time: the column of their event time; `None` without one.
        load: loads the rows.
        memory: the bytes of the rows in memory.
        batch_number: the number of the batch in which the newest row came.
        joined_to: for a spilled segment, the number of the batch up to which rows of the other side have met
            it; `None` for a resident one.
    """

    segment_id: str
    rows: int
    size: int
    low: int
    high: int
    dead: Bools | None
    matched: Bools | None
    key: KeySpec
    time: str | None
    load: Callable[[], pa.RecordBatch]
    memory: int = 0
    batch_number: int = 0
    joined_to: int | None = None

    @cached_property
    def batch(self) -> pa.RecordBatch:
        return self.load()

    @cached_property
    def keys(self) -> Keys:
        return self.key.keys(self.batch)

    @cached_property
    def times(self) -> Ints:
        """The event times of all rows, in microseconds.

        Raises:
            TypeError: the rows have no time.
        """
        if self.time is None:
            raise TypeError("rows of this segment have no time")
        return int64(self.batch.column(self.time))

    @cached_property
    def live(self) -> int:
        """The number of live rows."""
        return self.rows if self.dead is None else self.rows - int(np.count_nonzero(self.dead))

    @classmethod
    def arrived(cls, batch: pa.RecordBatch, key: KeySpec, time: str | None, batch_number: int = 0) -> Segment:
        """Make a segment of rows that no store holds yet.

        Args:
            batch: the rows, sorted by the code of their key.
            key: their key.
            time: the column of their event time; `None` without one.
            batch_number: the number of the batch that they came in.
        """
        times = int64(batch.column(time)) if time else np.zeros(1, np.int64)
        low, high = int(times.min()), int(times.max())
        return cls(
            segment_id="",
            rows=batch.num_rows,
            size=0,
            low=low,
            high=high,
            dead=None,
            matched=None,
            key=key,
            time=time,
            load=lambda: batch,
            memory=batch.nbytes,
            batch_number=batch_number,
        )

    def live_batch(self) -> pa.RecordBatch:
        """Return the live rows."""
        return self.batch if self.dead is None else self.batch.filter(pa.array(~self.dead))

    @property
    def live_positions(self) -> Ints | None:
        """The positions of live rows; `None` if all rows are live."""
        return None if self.dead is None else np.flatnonzero(~self.dead)

    def live_matched(self) -> Bools:
        """Return a mask of the live rows that have had a partner."""
        matched = np.zeros(self.rows, bool) if self.matched is None else self.matched
        return matched if self.dead is None else matched[~self.dead]

    def find(self, probe: Keys) -> Iterator[tuple[Ints, Ints]]:
        """Yield the positions (i in `probe`, j in this segment) of equal keys among live rows."""
        for i, j in probe.pairs(self.keys):
            if self.dead is None:
                yield i, j
            else:
                alive = ~self.dead[j]
                yield i[alive], j[alive]

    def kill(self, positions: Ints) -> None:
        """Mark the live rows at these positions as dead."""
        self.dead = np.zeros(self.rows, bool) if self.dead is None else self.dead
        self.dead[positions] = True
        vars(self).pop("live", None)

    def match(self, positions: Ints) -> None:
        """Remember that the rows at these positions have had a partner."""
        self.matched = np.zeros(self.rows, bool) if self.matched is None else self.matched
        self.matched[positions] = True

    def unmatched(self, positions: Ints) -> Ints:
        """Return those of `positions` whose rows never had a partner."""
        return positions if self.matched is None else positions[~self.matched[positions]]

"""One input of the stream join: its rows, what it has closed, and how far its time has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.state.search import member
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.state.search import Bools, Ints
    from endmark.state.store import SegmentStore

# Before any event time, with room to subtract a window or a lateness.
NEVER = -(1 << 62)

_KEYS = pa.schema([("key", pa.int64())])
_PENDING = pa.schema([("key", pa.int64()), ("time", pa.int64())])


def late_rows(times: Ints, newest: int, lateness: int) -> tuple[Bools, int]:
    """Which rows of one partition, in offset order, are late, and the newest time after them.

    `newest` is the newest time before them, or `NEVER`; all times in microseconds.
    """
    seen = np.maximum.accumulate(np.concatenate([np.array([newest]), times]))
    return times < seen[:-1] - lateness, int(seen[-1])


@dataclass(frozen=True)
class SideSpec:
    """What the join knows of one input.

    Args:
        name: the stream's name.
        key, time: columns of its batches.
        partition, offset: columns that order its rows; `None` for a stream without an order within a
            batch, of which all rows count as one partition and precede the batch's punctuations.
        window: microseconds of event time for which a row stays joinable; `None` is for ever.
        lateness: microseconds a row may be older than the newest of its partition.
        partitions: how many partitions must have shown rows before time makes progress.
    """

    name: str
    key: str
    time: str
    partition: str | None
    offset: str | None
    window: int | None
    lateness: int = 0
    partitions: int = 1


@dataclass
class SideInput:
    """What one batch brings for one side of one bucket.

    Args:
        rows: data rows, sorted by key; rows late within their own batch are not among them.
        bystanders: rows that are not to be joined, but are checked for violations like the others.
        punctuations: keys closed, with their `partition` and `offset`.
        newest: newest event time in microseconds by partition, over all buckets.
    """

    rows: pa.RecordBatch | None = None
    bystanders: pa.RecordBatch | None = None
    punctuations: pa.RecordBatch | None = None
    newest: Mapping[int, int] = field(default_factory=dict)


class SideState:
    """State of one side in one bucket.

    `closed` holds every key the side has punctuated, `pending` those of them that are not announced yet
    with the time of the side's last live row: PWJoin's flags PUNCTUATED (pending) and PROPAGATED (not).
    """

    def __init__(self, spec: SideSpec, store: SegmentStore) -> None:
        self.spec = spec
        self.rows = SegmentList(store, spec.key, spec.time)
        self.closed = SegmentList(store, "key")
        self.pending = SegmentList(store, "key", "time")
        self.newest: dict[int, int] = {}

    def lists(self) -> dict[str, SegmentList]:
        name = self.spec.name
        return {f"{name}.rows": self.rows, f"{name}.closed": self.closed, f"{name}.pending": self.pending}

    @property
    def progress(self) -> int:
        """No row older than this (microseconds) will come; `NEVER` while a partition has shown none."""
        if len(self.newest) < self.spec.partitions:
            return NEVER
        return min(self.newest.values()) - self.spec.lateness

    def advance(self, newest: Mapping[int, int]) -> None:
        for partition, time in newest.items():
            self.newest[partition] = max(time, self.newest.get(partition, NEVER))

    def horizon(self, opposite_progress: int) -> int:
        """Rows older than this can meet no future row of the other side."""
        if self.spec.window is None or opposite_progress == NEVER:
            return NEVER
        return opposite_progress - self.spec.window

    def violations(self, rows: pa.RecordBatch, punctuations: pa.RecordBatch | None) -> tuple[Bools, Bools]:
        """Which rows are late, and which others an earlier punctuation had closed."""
        keys = int64(rows.column(self.spec.key))
        closed = self.closed.contains(keys)
        if punctuations is not None and self.spec.partition is not None:
            closed |= self._closed_within_batch(rows, keys, punctuations)
        late = self._late(rows)
        return late, closed & ~late

    def _closed_within_batch(self, rows: pa.RecordBatch, keys: Ints, punctuations: pa.RecordBatch) -> Bools:
        closed = np.zeros(len(keys), bool)
        by_key = np.argsort(int64(punctuations.column("key")), kind="stable")
        closing_keys = int64(punctuations.column("key"))[by_key]
        suspects = np.flatnonzero(member(keys, closing_keys))
        if len(suspects) == 0:
            return closed
        first = np.searchsorted(closing_keys, keys[suspects])
        count = np.searchsorted(closing_keys, keys[suspects], "right") - first
        closing = [int64(punctuations.column(name))[by_key] for name in ("partition", "offset")]
        own = [int64(rows.column(name))[suspects] for name in (self.spec.partition, self.spec.offset)]
        # A key is rarely closed twice in one batch, so this loop almost always runs once.
        for nth in range(int(count.max())):
            at = np.minimum(first + nth, len(closing_keys) - 1)
            hit = (nth < count) & (closing[0][at] == own[0]) & (closing[1][at] < own[1])
            closed[suspects[hit]] = True
        return closed

    def _late(self, rows: pa.RecordBatch) -> Bools:
        if not self.newest:
            return np.zeros(rows.num_rows, bool)
        bounds = np.full(max(self.newest) + 1, NEVER)
        for partition, time in self.newest.items():
            bounds[partition] = time - self.spec.lateness
        if self.spec.partition is None:
            partitions = np.zeros(rows.num_rows, np.int64)
        else:
            partitions = int64(rows.column(self.spec.partition))
        known = partitions < len(bounds)
        late: Bools = known & (
            int64(rows.column(self.spec.time)) < bounds[np.minimum(partitions, len(bounds) - 1)]
        )
        return late

    def close(self, keys: Ints) -> None:
        self.closed.append(pa.record_batch([pa.array(keys)], schema=_KEYS))

    def hold(self, keys: Ints, times: Ints) -> None:
        """Remember sorted closed keys that wait for their last row, whose event time is given."""
        self.pending.append(pa.record_batch([pa.array(keys), pa.array(times)], schema=_PENDING))

    def last_times(self, keys: Ints) -> Ints:
        """Newest event time of the live rows of each key; `NEVER` for keys without one."""
        last = np.full(len(keys), NEVER)
        for segment, i, j in self.rows.find(keys):
            np.maximum.at(last, i, segment.times[j])
        return last

    def maintain(self) -> None:
        for segments in self.lists().values():
            segments.maintain()

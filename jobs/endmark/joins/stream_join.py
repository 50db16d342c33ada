"""PWJoin on segments: two streams joined within windows, with state freed by punctuations.

Definition: all pairs of equal key where the later row is within the window of the earlier, except rows
that violate their stream's promises. Paper: CIKM'04, sections 3 and 4.
Deviations: a batch is processed as a whole. Rows probe everything that was live before the batch and each
other; only then do punctuations purge, since a punctuation never rules out a result of rows that precede
it. A closed key without live rows of its own side is announced at once.
Complexity per batch of n rows: O(n log s) comparisons for each of O(log s) segments over s state rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.joins.side import NEVER, SideInput, SideSpec, SideState
from endmark.state import manifest
from endmark.state.search import member, pairs
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.state.search import Bools, Ints
    from endmark.state.segment_list import SegmentList
    from endmark.state.store import SegmentStore


@dataclass
class Violation:
    """Rows of one side that break a promise of their own stream; `reason` is `closed` or `late`."""

    side: str
    reason: str
    rows: pa.RecordBatch


@dataclass
class BatchOutput:
    """What one batch gives beside its results.

    Args:
        violations: rows that were not joined.
        announced: keys of which no further result will come, each announced once.
        counts: (name, side) to number, named as in the catalogue of metrics.
    """

    violations: list[Violation] = field(default_factory=list)
    announced: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)


class StreamJoin:
    """Inner join of two streams on one bucket's share of the keys.

    Give each batch to `process`, then read `output`; `snapshot` and the `restored` argument carry it over a
    restart.
    """

    def __init__(
        self, left: SideSpec, right: SideSpec, store: SegmentStore, restored: bytes | None = None
    ) -> None:
        self.left = SideState(left, store)
        self.right = SideState(right, store)
        self._sides = (self.left, self.right)
        self._output = BatchOutput()
        if restored is not None:
            notes = manifest.load(restored, self._lists())
            for side in self._sides:
                side.newest = {int(p): time for p, time in notes[side.spec.name].items()}

    def _lists(self) -> dict[str, SegmentList]:
        return self.left.lists() | self.right.lists()

    def snapshot(self) -> bytes:
        return manifest.save(self._lists(), {side.spec.name: side.newest for side in self._sides})

    def process(self, left: SideInput, right: SideInput) -> Iterator[pa.RecordBatch]:
        """Join one batch: yields results (left columns, then right ones) in pieces, updates state.

        `output` speaks of this batch once the iterator is exhausted.
        """
        self._output = BatchOutput()
        admitted = self._admit(self.left, left), self._admit(self.right, right)
        yield from self._probe(*admitted)
        closing = [self._closing(side, given) for side, given in ((self.left, left), (self.right, right))]
        self._purge(*closing)
        self._insert(admitted, closing)
        for side, given in ((self.left, left), (self.right, right)):
            side.advance(given.newest)
        announced = [self._invalidate(self.left, self.right), self._invalidate(self.right, self.left)]
        announced.append(self._propagate(self.left, self.right, closing[0]))
        announced.append(self._propagate(self.right, self.left, closing[1]))
        self._output.announced = np.concatenate(announced)
        for side in self._sides:
            side.maintain()

    @property
    def output(self) -> BatchOutput:
        return self._output

    def _admit(self, side: SideState, given: SideInput) -> pa.RecordBatch | None:
        """Set violations aside; returns the rows to join."""
        if given.bystanders is not None:
            self._reject(side, given.bystanders, given.punctuations)
        if given.rows is None:
            return None
        bad = self._reject(side, given.rows, given.punctuations)
        return given.rows.filter(pa.array(~bad)) if bad.any() else given.rows

    def _reject(self, side: SideState, rows: pa.RecordBatch, punctuations: pa.RecordBatch | None) -> Bools:
        late, closed = side.violations(rows, punctuations)
        for reason, bad in (("late", late), ("closed", closed)):
            if bad.any():
                broken = rows.filter(pa.array(bad))
                self._output.violations.append(Violation(side.spec.name, reason, broken))
        return late | closed

    def _probe(self, left: pa.RecordBatch | None, right: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        left_keys = _column(left, self.left.spec.key)
        right_keys = _column(right, self.right.spec.key)
        for segment, i, j in self.right.rows.find(left_keys):
            yield from self._pair(left, segment.batch, i, j)
        for segment, i, j in self.left.rows.find(right_keys):
            yield from self._pair(segment.batch, right, j, i)
        for i, j in pairs(left_keys, right_keys):
            yield from self._pair(left, right, i, j)

    def _pair(
        self, left: pa.RecordBatch, right: pa.RecordBatch, i: Ints, j: Ints
    ) -> Iterator[pa.RecordBatch]:
        apart = int64(right.column(self.right.spec.time))[j] - int64(left.column(self.left.spec.time))[i]
        joins = np.ones(len(i), bool)
        if self.left.spec.window is not None:
            joins &= apart <= self.left.spec.window
        if self.right.spec.window is not None:
            joins &= -apart <= self.right.spec.window
        if not joins.all():
            i, j = i[joins], j[joins]
        if len(i):
            columns = left.take(pa.array(i)).columns + right.take(pa.array(j)).columns
            yield pa.record_batch(columns, names=left.schema.names + right.schema.names)
            self._output.counts["join_results_total", ""] += len(i)

    @staticmethod
    def _closing(side: SideState, given: SideInput) -> Ints:
        """Keys that this batch closes for the first time, sorted."""
        if given.punctuations is None:
            return np.empty(0, np.int64)
        keys = np.unique(int64(given.punctuations.column("key")))
        return keys[~side.closed.contains(keys)]

    def _purge(self, closing_left: Ints, closing_right: Ints) -> None:
        for side, closing in ((self.right, closing_left), (self.left, closing_right)):
            if len(closing):
                self._output.counts["join_purged_rows_total", side.spec.name] += side.rows.remove(closing)

    def _insert(self, admitted: tuple[pa.RecordBatch | None, ...], closing: list[Ints]) -> None:
        for side, rows, opposite, closed_now in (
            (self.left, admitted[0], self.right, closing[1]),
            (self.right, admitted[1], self.left, closing[0]),
        ):
            if rows is None:
                continue
            keys = int64(rows.column(side.spec.key))
            useless: Bools = opposite.closed.contains(keys) | member(keys, closed_now)
            dropped = int(np.count_nonzero(useless))
            side.rows.append(rows.filter(pa.array(~useless)) if dropped else rows)
            self._output.counts["join_dropped_rows_total", side.spec.name] += dropped
            self._output.counts["join_inserted_rows_total", side.spec.name] += rows.num_rows - dropped

    def _invalidate(self, side: SideState, opposite: SideState) -> Ints:
        """Drop rows that left the window; returns pending keys whose last row was among them."""
        horizon = side.horizon(opposite.progress)
        if horizon == NEVER:
            return np.empty(0, np.int64)
        gone = len(side.rows.expire(horizon))
        self._output.counts["join_invalidated_rows_total", side.spec.name] += gone
        expired = side.pending.expire(horizon)
        self._output.counts["propagated_punctuations_total", "expired"] += len(expired)
        return expired

    def _propagate(self, side: SideState, opposite: SideState, closing: Ints) -> Ints:
        """Announce or hold the keys that `side` closes in this batch; returns those announced."""
        if len(closing) == 0:
            return closing
        side.close(closing)
        both = opposite.closed.contains(closing)
        # What the other side had announced stays announced; what it held back is complete now, since
        # this side's punctuation has just purged the rows it was waiting for.
        completed = closing[both & opposite.pending.contains(closing)]
        opposite.pending.remove(completed)
        alone = closing[~both]
        last = side.last_times(alone)
        waiting = last != NEVER
        side.hold(alone[waiting], last[waiting])
        announced = np.concatenate([completed, alone[~waiting]])
        self._output.counts["propagated_punctuations_total", "closed"] += len(announced)
        return announced


def _column(rows: pa.RecordBatch | None, name: str) -> Ints:
    return np.empty(0, np.int64) if rows is None else int64(rows.column(name))

"""Probing: the rows of a batch find partners in the state of the other side, and in the same batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.expressions.condition_failures import Failures
from endmark.operators.stream_join.results import Results
from endmark.operators.stream_join.spill import is_owed
from endmark.state.row_bytes import cut
from endmark.state.segment_list import SegmentRows
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.expressions.condition import Condition
    from endmark.operators.stream_join.side import SideState
    from endmark.state.search import Ints
    from endmark.state.segment import Segment


class Probe:
    """Finds partners, and makes results of them.

    Partners have equal keys, are within their windows, and meet the residual condition. Rows of a preserved
    side are marked when they meet a partner. When a left row of a semi join meets its first partner, it is
    put out and dies.

    Attributes:
        spent: left rows that a semi join has put out in this batch.
        failures: the pairs on which the residual condition failed. They are no partners.

    Args:
        left, right: the state of both sides.
        kind: decides which rows become results.
        residual: the condition that pairs of equal key must meet beside the window; `None` is always met.
    """

    def __init__(self, left: SideState, right: SideState, kind: JoinType, residual: Condition | None) -> None:
        self._left = left
        self._right = right
        self._semi = kind is JoinType.SEMI
        self._residual = residual
        self._results = Results(left.spec.shown, right.spec.shown)
        if residual is not None:
            schemas = [_only(side.spec.schema, residual.columns) for side in (left, right)]
            self._candidates = Results(schemas[0], schemas[1])
        self.spent: list[SegmentRows] = []
        self.failures = Failures("where" if residual is None else residual.field)

    def results(self, left: Segment | None, right: Segment | None) -> Iterator[pa.RecordBatch]:
        """Yield the results of the rows of a batch with resident rows of the other side, and with each other.

        Args:
            left, right: the rows of the batch, which are not in state yet; `None` without any.
        """
        self.spent = []
        if left is not None:
            for segment in self._right.rows.resident:
                yield from self.between(left, segment)
        if right is not None:
            for segment in self._left.rows.resident:
                yield from self.between(segment, right)
        if left is not None and right is not None:
            yield from self.between(left, right)

    def settle(
        self, side: SideState, rows: SegmentRows, arrived: Sequence[Segment | None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results that some rows are owed.

        Args:
            side: the side of the rows.
            rows: the rows.
            arrived: rows of the batch that are not in state yet, of the left and of the right side.
        """
        opposite, came = (self._right, arrived[1]) if side is self._left else (self._left, arrived[0])
        for other in opposite.rows.segments + ([] if came is None else [came]):
            if is_owed(rows.segment, other) or is_owed(other, rows.segment):
                yield from self._owed_by(side, rows.segment, other, rows)

    def catch_up(self) -> Iterator[pa.RecordBatch]:
        """Yield all results that spilled rows are owed. The rows of the batch must be in state."""
        for side, opposite in ((self._left, self._right), (self._right, self._left)):
            for segment in side.rows.segments:
                for other in opposite.rows.segments if segment.joined_to is not None else ():
                    if is_owed(segment, other):
                        yield from self._owed_by(side, segment, other, None)

    def _owed_by(
        self, side: SideState, segment: Segment, other: Segment, rows: SegmentRows | None
    ) -> Iterator[pa.RecordBatch]:
        pair = (segment, other) if side is self._left else (other, segment)
        yield from self.between(*pair, rows)

    def between(
        self, left: Segment, right: Segment, only: SegmentRows | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results of a left and a right segment.

        Args:
            left, right: the segments.
            only: rows of one of the segments. Only these meet the rows of the other segment. `None`: all rows
                of both meet each other.
        """
        if only is None:
            smaller = left if left.rows <= right.rows else right
            only = SegmentRows(smaller, np.arange(smaller.rows)).alive
        keys = only.segment.keys
        if len(only) < len(keys):
            keys = keys.take(only.positions)
        if only.segment is left:
            for i, j in right.find(keys):
                yield from self._meet(left, right, only.positions[i], j)
        else:
            for j, i in left.find(keys):
                yield from self._meet(left, right, i, only.positions[j])

    def _meet(self, left: Segment, right: Segment, i: Ints, j: Ints) -> Iterator[pa.RecordBatch]:
        i, j = self._within_window(left, right, i, j)
        for part in cut([(left.batch, i), (right.batch, j)]):
            yield from self._of_pairs(left, right, i[part], j[part])

    def _of_pairs(self, left: Segment, right: Segment, i: Ints, j: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the results of pairs within their windows that meet the condition, and mark their rows."""
        if self._residual is not None:
            answer = self._residual.ask(self._candidates.pairs(left.batch, i, right.batch, j))
            if len(answer.failed):
                first = int(answer.failed[0])
                at = [
                    self._left.spec.coordinates(left.batch, int(i[first])),
                    self._right.spec.coordinates(right.batch, int(j[first])),
                ]
                self.failures.add(len(answer.failed), answer.why, at)
            i, j = i[answer.holds], j[answer.holds]
        if len(i) == 0:
            return
        if self._semi:
            yield from self._put_out_first(left, i)
            return
        if self._left.preserved:
            left.match(i)
        if self._right.preserved:
            right.match(j)
        yield self._results.pairs(left.batch, i, right.batch, j)

    def _within_window(self, left: Segment, right: Segment, i: Ints, j: Ints) -> tuple[Ints, Ints]:
        apart = right.times[j] - left.times[i]
        joins = np.ones(len(i), bool)
        if self._left.spec.window is not None:
            joins &= apart <= self._left.spec.window
        if self._right.spec.window is not None:
            joins &= -apart <= self._right.spec.window
        return (i, j) if joins.all() else (i[joins], j[joins])

    def _put_out_first(self, left: Segment, i: Ints) -> Iterator[pa.RecordBatch]:
        """Yield the left rows of a semi join that have just met their first partner, and let them die."""
        first = np.unique(i)
        if left.dead is not None:
            first = first[~left.dead[first]]
        if len(first):
            left.kill(first)
            gone = SegmentRows(left, first)
            self.spent.append(gone)
            yield gone.batch.select(self._left.spec.schema.names)


def _only(schema: pa.Schema, names: tuple[str, ...]) -> pa.Schema:
    return pa.schema([field for field in schema if field.name in names])

"""PWJoin on segments: two streams joined within windows, with state freed by punctuations.

Definition: all pairs of equal key that meet the residual condition, where the later row is within the window
of the earlier, except rows that violate their stream's promises. Outer joins add each row of a preserved side
that has no partner, beside nulls; a semi join gives each left row that has one. Paper: CIKM'04, sections 3
and 4, which know the inner join only.
Deviations: a batch is processed as a whole. Rows probe everything that was live before the batch and each
other; only then do punctuations purge, since a punctuation never rules out a result of rows that precede
it. A closed key without live rows of its own side is announced at once.
Outer rows come out when their row leaves the state, or is not let in: that is when no partner can come.
Complexity per batch of n rows: O(n log s) comparisons for each of O(log s) segments over s state rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.joins.probe import Probe
from endmark.joins.propagate import expired, final, hold_back, is_closed, newly_closed, propagate
from endmark.joins.results import Results
from endmark.joins.side import NEVER, SideInput, SideSpec, SideState
from endmark.state import codec, manifest
from endmark.state.segment import Segment
from endmark.state.segment_list import Gone
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.joins.residual import Residual
    from endmark.state.keys import Keys
    from endmark.state.search import Bools
    from endmark.state.segment_list import SegmentList
    from endmark.state.store import SegmentStore

    # Keys that the left and the right side close in a batch.
    Closing = tuple[pa.RecordBatch | None, pa.RecordBatch | None]


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
        announced: keys of which no further result will come, each announced once, under the names that both
            sides share, in order of code; `None` without any.
        widened: a pattern has closed keys beside those: all are announced that `StreamJoin.final` says.
        counts: (name, side) to number, named as in the catalogue of metrics.
    """

    violations: list[Violation] = field(default_factory=list)
    announced: pa.RecordBatch | None = None
    widened: bool = False
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)


class StreamJoin:
    """Join of two streams on one bucket's share of the keys.

    Give each batch to `process`, then read `output`; `snapshot` and the `restored` argument carry it over a
    restart.

    Args:
        left, right: the inputs.
        store: where state rests.
        kind: which rows become results.
        residual: what pairs of equal key must meet beside the window.
        restored: a snapshot of the same join.
    """

    def __init__(
        self,
        left: SideSpec,
        right: SideSpec,
        store: SegmentStore,
        *,
        kind: JoinType = JoinType.INNER,
        residual: Residual | None = None,
        restored: bytes | None = None,
    ) -> None:
        self.left = SideState(left, store, preserved=kind.keeps_left)
        self.right = SideState(right, store, preserved=kind.keeps_right)
        self._sides = (self.left, self.right)
        self._profile = store.profile
        self._probe = Probe(self.left, self.right, kind, residual)
        self._results = Results(left.schema, right.schema)
        self._output = BatchOutput()
        if restored is not None:
            notes = manifest.load(restored, self._lists())
            for side in self._sides:
                side.newest = {int(p): time for p, time in notes[side.spec.name].items()}
                side.promises.restore(notes.get(f"{side.spec.name}.promises", {}))

    def _lists(self) -> dict[str, SegmentList]:
        return self.left.lists() | self.right.lists()

    def snapshot(self) -> bytes:
        newest = {side.spec.name: side.newest for side in self._sides}
        promises = {f"{side.spec.name}.promises": side.promises.snapshot() for side in self._sides}
        return manifest.save(self._lists(), newest | promises)

    @property
    def output(self) -> BatchOutput:
        return self._output

    def final(self, keys: Keys) -> Bools:
        """Of which keys no further result can come; to be asked between two batches."""
        return final(self.left, self.right, keys)

    def process(self, left: SideInput, right: SideInput) -> Iterator[pa.RecordBatch]:
        """Join one batch: yields results (left columns, then right ones) in pieces, updates state.

        `output` speaks of this batch once the iterator is exhausted.
        """
        self._output = BatchOutput()
        with self._profile.phase("purge"):
            for piece in self._process(left, right):
                self._output.counts["join_results_total", ""] += piece.num_rows
                yield piece

    def _process(self, left: SideInput, right: SideInput) -> Iterator[pa.RecordBatch]:
        arrived = self._admit(self.left, left), self._admit(self.right, right)
        with self._profile.phase("probe"):
            yield from self._probe.results(*arrived)
        closing = newly_closed(self.left, left.punctuations), newly_closed(self.right, right.punctuations)
        self.left.promises.add(left.promises)
        self.right.promises.add(right.promises)
        yield from self._purge(self.right, closing[0])
        yield from self._purge(self.left, closing[1])
        if left.promises:
            yield from self._purge_promised(self.right, self.left)
        if right.promises:
            yield from self._purge_promised(self.left, self.right)
        yield from self._insert(self.left, arrived[0], self.right, closing[1])
        yield from self._insert(self.right, arrived[1], self.left, closing[0])
        self._spend(closing[1])
        self.left.advance(left.newest)
        self.right.advance(right.newest)
        horizons = self.left.horizon(self.right.progress), self.right.horizon(self.left.progress)
        for side, horizon in zip(self._sides, horizons, strict=True):
            yield from self._invalidate(side, horizon)
        self._announce(closing, horizons)
        if left.promises:
            hold_back(self.left, self.right)
        if right.promises:
            hold_back(self.right, self.left)
        self._output.widened = bool(left.promises or right.promises)
        for side in self._sides:
            side.maintain()

    def _admit(self, side: SideState, given: SideInput) -> Segment | None:
        """Set violations aside; returns the rows to join."""
        if given.bystanders is not None:
            self._reject(side, given.bystanders, given)
        if given.rows is None:
            return None
        bad = self._reject(side, given.rows, given)
        rows = given.rows.filter(pa.array(~bad)) if bad.any() else given.rows
        return Segment.arrived(rows, side.spec.key, side.spec.time) if rows.num_rows else None

    def _reject(self, side: SideState, rows: pa.RecordBatch, given: SideInput) -> Bools:
        late, closed = side.violations(rows, given)
        for reason, bad in (("late", late), ("closed", closed)):
            if bad.any():
                broken = rows.filter(pa.array(bad))
                self._output.violations.append(Violation(side.spec.name, reason, broken))
        return late | closed

    def _purge(self, side: SideState, closing: pa.RecordBatch | None) -> Iterator[pa.RecordBatch]:
        """Drop the rows of keys that the other side closes."""
        if closing is None:
            return
        keys = side.key.keys(closing)
        gone = side.rows.remove(keys)
        side.spent.remove(keys)
        self._count("join_purged_rows_total", side, sum(map(len, gone)))
        yield from self._retire(side, gone)

    def _purge_promised(self, side: SideState, opposite: SideState) -> Iterator[pa.RecordBatch]:
        """Drop the rows of keys that patterns of the other side close."""
        gone = side.rows.remove_where(opposite.promises.positions)
        side.spent.remove_where(opposite.promises.positions)
        self._count("join_purged_rows_total", side, sum(map(len, gone)))
        yield from self._retire(side, gone)

    def _insert(
        self, side: SideState, arrived: Segment | None, opposite: SideState, closing: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        """Keep the rows that a partner may still come for."""
        if arrived is None:
            return
        useless = is_closed(opposite, closing, arrived.keys)
        if arrived.dead is not None:
            useless &= ~arrived.dead
        if useless.any():
            dropped = Gone(arrived, np.flatnonzero(useless))
            arrived.kill(dropped.positions)
            self._count("join_dropped_rows_total", side, len(dropped))
            yield from self._retire(side, [dropped])
        matched = None if arrived.matched is None else arrived.live_matched()
        side.rows.append(arrived.live_batch(), matched)
        self._count("join_inserted_rows_total", side, arrived.live)

    def _spend(self, closing: pa.RecordBatch | None) -> None:
        """Remember when the left rows were that a semi join has put out, while that can hold back a key."""
        if not self._probe.spent:
            return
        traces = self.left.traces(self._probe.spent)
        self._count("join_spent_rows_total", self.left, traces.num_rows)
        over = is_closed(self.right, closing, self.left.key.keys(traces))
        self.left.spent.append(traces.filter(pa.array(~over)))

    def _invalidate(self, side: SideState, horizon: int) -> Iterator[pa.RecordBatch]:
        """Drop rows that left the window."""
        if horizon == NEVER:
            return
        gone = side.rows.expire(horizon)
        side.spent.expire(horizon)
        self._count("join_invalidated_rows_total", side, sum(map(len, gone)))
        yield from self._retire(side, gone)

    def _retire(self, side: SideState, gone: list[Gone]) -> Iterator[pa.RecordBatch]:
        """Put out the rows that no partner came for, if the side is preserved."""
        if not side.preserved:
            return
        alone = self._results.left_alone if side is self.left else self._results.right_alone
        for rows in gone:
            unmatched = rows.unmatched
            if unmatched.num_rows:
                self._count("join_unmatched_rows_total", side, unmatched.num_rows)
                yield alone(unmatched)

    def _announce(self, closing: Closing, horizons: tuple[int, int]) -> None:
        found = {
            "expired": [*expired(self.left, horizons[0]), *expired(self.right, horizons[1])],
            "closed": [],
        }
        if closing[0] is not None:
            found["closed"] += propagate(self.left, self.right, closing[0])
        if closing[1] is not None:
            found["closed"] += propagate(self.right, self.left, closing[1])
        for reason, pieces in found.items():
            count = sum(piece.num_rows for piece in pieces)
            self._output.counts["propagated_punctuations_total", reason] += count
        announced = [piece for pieces in found.values() for piece in pieces if piece.num_rows]
        if announced:
            self._output.announced = self.left.key.sorted(codec.concat(announced))

    def _count(self, name: str, side: SideState, rows: int) -> None:
        self._output.counts[name, side.spec.name] += rows

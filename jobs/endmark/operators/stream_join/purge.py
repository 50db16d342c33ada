"""Rows leave state: purged, invalidated or not let in. An outer join puts out those without a partner."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.results import Results
from endmark.operators.stream_join.side import NEVER
from endmark.state.segment_list import Gone, kill

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.operators.stream_join.presets import Policy
    from endmark.operators.stream_join.side import SideState
    from endmark.operators.stream_join.spill import Deferral
    from endmark.state.segment import Segment


class Retirement:
    """Frees the state of both sides by one policy; `counts` is (metric, side) to rows.

    Outer rows come out when their key is closed, whether or not that frees them: results do not depend on
    the policy.
    """

    def __init__(self, left: SideState, right: SideState, policy: Policy, deferral: Deferral) -> None:
        self._policy = policy
        self._deferral = deferral
        results = Results(left.spec.schema, right.spec.schema)
        self._alone = {left.spec.name: results.left_alone, right.spec.name: results.right_alone}
        self.counts: Counter[tuple[str, str]] = Counter()

    def close(
        self,
        side: SideState,
        opposite: SideState,
        closing: pa.RecordBatch | None,
        promises: int,
        *,
        pause: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Purge the rows of keys that the other side closes, now or with the keys closed later.

        Args:
            closing: keys it names.
            promises: how many patterns it has promised, already in `opposite.promises`.
            pause: there is time to purge what waits, or need.
        """
        if self._policy.purge_every is None:
            return
        named = 0 if closing is None else closing.num_rows
        waiting = opposite.unpurged.rows + opposite.unpurged_promises + named + promises
        # Outer rows must be looked for at once, which is all the work of purging them. And a key must not be
        # announced while spilled rows of it are owed results.
        pause |= side.preserved or bool(self._deferral.spilled)
        if waiting < self._policy.purge_every and not pause:
            if closing is not None:
                opposite.unpurged.append(closing)
            opposite.unpurged_promises += promises
        elif waiting:
            yield from self._purge(
                side, opposite, closing, patterns=opposite.unpurged_promises + promises > 0
            )

    def _purge(
        self, side: SideState, opposite: SideState, closing: pa.RecordBatch | None, *, patterns: bool
    ) -> Iterator[pa.RecordBatch]:
        closings = [segment.batch for segment in opposite.unpurged.segments]
        for keys in map(side.key.keys, closings if closing is None else [*closings, closing]):
            side.spent.remove(keys)
            yield from self._retire(side, side.rows.having(keys), "join_purged_rows_total")
        if patterns:
            side.spent.remove_where(opposite.promises.positions)
            found = side.rows.where(opposite.promises.positions)
            yield from self._retire(side, found, "join_purged_rows_total")
        opposite.unpurged.clear()
        opposite.unpurged_promises = 0

    def insert(
        self, side: SideState, arrived: Segment, opposite: SideState, closing: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        """Keep the rows that a partner may still come for; all of them, if nothing is ever purged."""
        if self._policy.purge_every is not None:
            closed = Gone(arrived, np.flatnonzero(opposite.has_closed(arrived.keys, closing)))
            yield from self._retire(side, [closed], "join_dropped_rows_total")
        matched = None if arrived.matched is None else arrived.live_matched()
        side.rows.append(arrived.live_batch(), matched, arrived.batch_number)
        self.count("join_inserted_rows_total", side, arrived.live)

    def release(
        self,
        side: SideState,
        opposite: SideState,
        closing: pa.RecordBatch | None,
        *,
        arrived: bool,
        promised: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Put out the rows of closed keys that have no partner and stay in state, as if they had met one.

        Args:
            closing: keys the other side names in this batch.
            arrived: rows have come, whose keys it may have closed before.
            promised: so may patterns of this batch.
        """
        if self._policy.purge_every is not None or not side.preserved:
            return
        found = [] if closing is None else side.rows.having(side.key.keys(closing))
        if promised:
            found += side.rows.where(opposite.promises.positions)
        if arrived:
            newest = side.rows.segments[-1]
            found.append(Gone(newest, np.flatnonzero(opposite.has_closed(newest.keys, closing))))
        found = [rows for rows in found if len(rows)]
        if found:
            yield from self._deferral.catch_up()
        for rows in found:
            yield from self._put_out(side, rows)
            rows.segment.match(rows.positions)

    def expire(self, side: SideState, horizon: int) -> Iterator[pa.RecordBatch]:
        """Drop rows that left the window."""
        if horizon == NEVER:
            return
        yield from self._retire(side, side.rows.older(horizon), "join_invalidated_rows_total")
        side.rows.rise(horizon)

    def _retire(self, side: SideState, rows: list[Gone], metric: str) -> Iterator[pa.RecordBatch]:
        for one in rows:
            yield from self._deferral.settle(side, one)
        gone = kill(rows)
        self.count(metric, side, sum(map(len, gone)))
        if side.preserved:
            for one in gone:
                yield from self._put_out(side, one)

    def _put_out(self, side: SideState, rows: Gone) -> Iterator[pa.RecordBatch]:
        unmatched = rows.unmatched
        if unmatched.num_rows:
            self.count("join_unmatched_rows_total", side, unmatched.num_rows)
            yield self._alone[side.spec.name](unmatched)

    def count(self, name: str, side: SideState, rows: int) -> None:
        self.counts[name, side.spec.name] += rows

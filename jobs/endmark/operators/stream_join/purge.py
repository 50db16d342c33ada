"""Purging: rows leave state once no partner can come for them. An outer join then puts out unmatched rows.

A row is *purged* when the other side closes its key, *dropped* at arrival if the key is closed already, and
*invalidated* when it leaves the window.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.event_times import NEVER
from endmark.operators.stream_join.results import Results
from endmark.state.segment_list import SegmentRows, kill

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.operators.stream_join.presets import Policy
    from endmark.operators.stream_join.side import SideState
    from endmark.operators.stream_join.spill import Spiller
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.segment import Segment


class Purger:
    """Frees the state of both sides by one policy.

    Unmatched rows of an outer join come out when their key is closed, even if the policy does not purge them.
    So results do not depend on the policy.

    Attributes:
        counts: rows by (metric, side).

    Args:
        left, right: the state of both sides.
        policy: decides how many punctuations wait until rows are purged.
        spiller: yields the results that spilled rows are owed before they die.
    """

    def __init__(self, left: SideState, right: SideState, policy: Policy, spiller: Spiller) -> None:
        self._policy = policy
        self._spiller = spiller
        results = Results(left.spec.shown, right.spec.shown)
        self._measured = not (left.spec.ended or right.spec.ended)
        self._alone = {left.spec.name: results.left_alone, right.spec.name: results.right_alone}
        self.counts: Counter[tuple[str, str]] = Counter()

    def close(
        self,
        side: SideState,
        opposite: SideState,
        closed_keys: pa.RecordBatch | None,
        key_promises: Sequence[Punctuation],
        *,
        pause: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Purge the rows of keys that the other side closes. The policy may put it off until more are closed.

        Args:
            side: the state of the side whose rows are purged.
            opposite: the state of the side that closes keys.
            closed_keys: the newly closed keys of `opposite`; `None` without any.
            key_promises: its key promises in this batch. `opposite.key_promises` already has them.
            pause: whether to purge all that waits now, since there is time or need.
        """
        if self._policy.purge_every is None:
            return
        promise_count = opposite.unpurged_promise_count + len(key_promises)
        key_count = opposite.unpurged_keys.rows + (0 if closed_keys is None else closed_keys.num_rows)
        waiting = key_count + promise_count
        # Outer rows must be found at once, and finding them is all the work of purging. Also, a key must not
        # be announced while its spilled rows are owed results.
        pause |= side.preserved or bool(self._spiller.spilled)
        if waiting < self._policy.purge_every and not pause:
            if closed_keys is not None:
                opposite.unpurged_keys.append(closed_keys)
            opposite.unpurged_promise_count = promise_count
        elif waiting:
            yield from self._purge(side, opposite, closed_keys, promised=promise_count > 0)

    def _purge(
        self, side: SideState, opposite: SideState, closed_keys: pa.RecordBatch | None, *, promised: bool
    ) -> Iterator[pa.RecordBatch]:
        """Purge the rows of a side whose keys the other side has closed since it was last purged."""
        batches = [segment.batch for segment in opposite.unpurged_keys.segments]
        batches += [] if closed_keys is None else [closed_keys]
        for keys in map(side.key.keys, batches):
            side.spent.remove(keys)
            yield from self._retire(side, side.rows.having(keys), "join_purged_rows_total")
        if promised:
            side.spent.remove_where(opposite.key_promises.positions)
            found = side.rows.where(opposite.key_promises.positions)
            yield from self._retire(side, found, "join_purged_rows_total")
        opposite.unpurged_keys.clear()
        opposite.unpurged_promise_count = 0

    def insert(
        self, side: SideState, arrived: Segment, opposite: SideState, closed_keys: pa.RecordBatch | None
    ) -> Iterator[pa.RecordBatch]:
        """Put the rows of a batch into state, except rows whose key the other side has closed.

        Args:
            side: the state of the rows' side.
            arrived: the rows.
            opposite: the state of the other side.
            closed_keys: the newly closed keys of the other side; `None` without any.
        """
        if self._policy.purge_every is not None:
            closed = SegmentRows(arrived, np.flatnonzero(opposite.has_closed(arrived.keys, closed_keys)))
            yield from self._retire(side, [closed], "join_dropped_rows_total")
        matched = None if arrived.matched is None else arrived.live_matched()
        side.rows.append(arrived.live_batch(), matched, arrived.batch_number)
        self.count("join_inserted_rows_total", side, arrived.live)

    def put_out_unmatched(
        self,
        side: SideState,
        opposite: SideState,
        closed_keys: pa.RecordBatch | None,
        key_promises: Sequence[Punctuation],
        *,
        arrived: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Put out unmatched rows of closed keys that stay in state, since the policy never purges.

        Such rows are marked as matched, so that they come out only once.

        Args:
            side: the state of the rows' side.
            opposite: the state of the side that closes keys.
            closed_keys: the newly closed keys of `opposite`; `None` without any.
            key_promises: its key promises in this batch.
            arrived: whether rows have come in this batch. `opposite` may have closed their keys before.
        """
        if self._policy.purge_every is not None or not side.preserved:
            return
        found = [] if closed_keys is None else side.rows.having(side.key.keys(closed_keys))
        if key_promises:
            found += side.rows.where(opposite.key_promises.positions)
        if arrived:
            newest = side.rows.segments[-1]
            found.append(SegmentRows(newest, np.flatnonzero(opposite.has_closed(newest.keys, closed_keys))))
        found = [rows for rows in found if len(rows)]
        if found:
            yield from self._spiller.catch_up()
        for rows in found:
            yield from self._put_out(side, rows)
            rows.segment.match(rows.positions)

    def expire(self, side: SideState, horizon: int) -> Iterator[pa.RecordBatch]:
        """Drop the rows that left the window: those older than `horizon` (µs of event time)."""
        if horizon == NEVER:
            return
        yield from self._retire(side, side.rows.older(horizon), "join_invalidated_rows_total")
        side.rows.rise(horizon)

    def _retire(self, side: SideState, rows: list[SegmentRows], metric: str) -> Iterator[pa.RecordBatch]:
        """Kill rows after the results that they are owed; put out outer rows that never had a partner."""
        for one in rows:
            yield from self._spiller.settle(side, one)
        gone = kill(rows)
        self.count(metric, side, sum(map(len, gone)))
        if side.preserved:
            for one in gone:
                yield from self._put_out(side, one)

    def _put_out(self, side: SideState, rows: SegmentRows) -> Iterator[pa.RecordBatch]:
        unmatched = rows.unmatched
        if unmatched.num_rows:
            self.count("join_unmatched_rows_total", side, unmatched.num_rows)
            yield self._alone[side.spec.name](unmatched)

    def count(self, name: str, side: SideState, rows: int) -> None:
        """Add to a metric of a side, unless the other side has ended: then there is no join to measure.

        Args:
            name: the metric.
            side: the state of the side.
            rows: the number of rows to add.
        """
        if self._measured:
            self.counts[name, side.spec.name] += rows

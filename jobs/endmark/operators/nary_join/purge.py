"""Purging: rows leave state once no later row can give a result with them.

A side is *shut* for a row of another side once it has closed the row's key, or its progress has left the
row's window. A row leaves when all other sides are shut for it. All rows of a key leave when a side that has
closed it holds no row of it. That may free rows of further sides, until nothing changes.

The row that waits for the slowest of several sides stays, even if a faster side has no partner for it.

A row is *purged* because of its key, *invalidated* when all other sides have left its window, and *dropped*
if it leaves in the batch in which it came.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.nary_join.ended_keys import without_rows
from endmark.operators.stream_join.event_times import NEVER
from endmark.operators.stream_join.presets import Propagation
from endmark.state import codec
from endmark.state.segment_list import SegmentRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.operators.stream_join.presets import Policy
    from endmark.operators.stream_join.side import SideState
    from endmark.operators.stream_join.spill import Spiller
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment
    from endmark.state.segment_list import SegmentList

    # Rows by the number of their side.
    Found = list[tuple[int, SegmentRows]]

PURGED = "join_purged_rows_total"
DROPPED = "join_dropped_rows_total"
INVALIDATED = "join_invalidated_rows_total"


class NaryPurger:
    """Frees the state of all sides by one policy.

    Attributes:
        counts: rows by (metric, side).
        gone: the rows that left state since the list was last emptied.

    Args:
        sides: the state of all sides.
        policy: decides how many punctuations wait until rows are purged. None waits if keys are announced as
            soon as possible: the search for the last row of a key is already all the work of purging.
        spiller: yields the results that spilled rows are owed before they die.
    """

    def __init__(self, sides: Sequence[SideState], policy: Policy, spiller: Spiller) -> None:
        self._sides = sides
        self._purges = policy.purge_every is not None
        self._purge_every = 1 if policy.propagate is Propagation.EARLY else policy.purge_every or 1
        self._spiller = spiller
        self._arrived: Sequence[Segment | None] = [None] * len(sides)
        self._held: list[SegmentList] = [side.rows for side in sides]
        self.counts: Counter[tuple[str, str]] = Counter()
        self.gone: Found = []

    def horizons(self) -> list[list[int]]:
        """Return, for rows of each side, the time before which each other side has left their window.

        Times are in microseconds. `NEVER` stands for no row, and for a side itself.
        """
        return [
            [NEVER if other is side else side.horizon(other.progress) for other in self._sides]
            for side in self._sides
        ]

    def close(
        self,
        arrived: Sequence[Segment | None],
        closed_keys: Sequence[pa.RecordBatch | None],
        key_promises: Sequence[Sequence[Punctuation]],
        *,
        pause: bool,
    ) -> Iterator[pa.RecordBatch]:
        """Purge the rows of closed keys, and put the other rows of a batch into state.

        Args:
            arrived: the rows of each side in a batch; `None` without any.
            closed_keys: the newly closed keys of each side, which count as closed; `None` without any.
            key_promises: the key promises of each side in the batch, which count.
            pause: whether to purge all that waits now, since there is time or need.
        """
        self._arrived = arrived
        pairs = zip(self._sides, arrived, strict=True)
        self._held = [side.rows if rows is None else side.rows.beside(rows) for side, rows in pairs]
        found: Found = []
        for number, rows in enumerate(arrived):
            if rows is not None and self._purges:
                found.append((number, SegmentRows(rows, np.arange(rows.rows))))
        # A key must not be announced while its spilled rows are owed results.
        pause |= bool(self._spiller.spilled)
        for number, closed in enumerate(zip(closed_keys, key_promises, strict=True)):
            found += self._closed(number, *closed, pause=pause)
        yield from self._free(found, self.horizons())
        for side, rows in zip(self._sides, arrived, strict=True):
            if rows is not None:
                side.rows.append(rows.live_batch(), None, rows.batch_number)
                self._count("join_inserted_rows_total", side, rows.live)
        self._spiller.inserted()
        self._arrived = [None] * len(self._sides)
        self._held = [side.rows for side in self._sides]

    def _closed(
        self, number: int, closed_keys: pa.RecordBatch | None, promises: Sequence[Punctuation], *, pause: bool
    ) -> Found:
        """Return the rows of other sides whose keys a side closes, unless the policy puts it off."""
        if not self._purges:
            return []
        side = self._sides[number]
        side.unpurged_promise_count += len(promises)
        waiting = side.unpurged_keys.rows + side.unpurged_promise_count
        waiting += 0 if closed_keys is None else closed_keys.num_rows
        if waiting < self._purge_every and not pause:
            if closed_keys is not None:
                side.unpurged_keys.append(closed_keys)
            return []
        keys = [segment.keys for segment in side.unpurged_keys.segments]
        keys += [] if closed_keys is None else [side.key.keys(closed_keys)]
        found: Found = []
        for other, held in enumerate(self._held):
            if other != number:
                found += [(other, rows) for some in keys for rows in held.having(some)]
                if side.unpurged_promise_count:
                    found += [(other, rows) for rows in held.where(side.key_promises.positions)]
        side.unpurged_keys.clear()
        side.unpurged_promise_count = 0
        return found

    def expire(
        self, before: Sequence[Sequence[int]], now: Sequence[Sequence[int]]
    ) -> Iterator[pa.RecordBatch]:
        """Drop the rows that progress frees.

        Args:
            before, now: the `horizons` before and after the progress of a batch.
        """
        left = [
            min(horizon for other, horizon in enumerate(own) if other != number)
            for number, own in enumerate(now)
        ]
        found: Found = []
        for number, horizon in enumerate(left):
            if horizon != NEVER:
                rows = [(number, one) for one in self._sides[number].rows.older(horizon)]
                yield from self._retire(rows, INVALIDATED)
                self._sides[number].rows.rise(horizon)
                found += self._of_closed_keys_without_rows(rows)
        if self._purges:
            # Some of the other sides have left the window of these rows, and all others may have closed
            # their key.
            for number, horizon in enumerate(left):
                for since, until in zip(before[number], now[number], strict=True):
                    found += self._between(number, max(since, horizon), until)
        yield from self._free(found, now)

    def _between(self, number: int, since: int, until: int) -> Found:
        if until <= since:
            return []

        def positions(segment: Segment) -> Ints:
            if segment.low >= until or segment.high < since:
                return np.empty(0, np.int64)
            return np.flatnonzero((segment.times >= since) & (segment.times < until))

        return [(number, rows) for rows in self._sides[number].rows.where(positions)]

    def _free(self, found: Found, horizons: Sequence[Sequence[int]]) -> Iterator[pa.RecordBatch]:
        """Retire those of some rows that nothing can join, and all rows that this frees."""
        while found:
            gone: Found = []
            for number, rows in found:
                if len(alive := rows.alive):
                    useless = self._useless(number, alive, horizons[number])
                    if useless.any():
                        gone.append((number, SegmentRows(alive.segment, alive.positions[useless])))
                        yield from self._retire(gone[-1:], PURGED)
            found = self._of_closed_keys_without_rows(gone)

    def _useless(self, number: int, rows: SegmentRows, horizons: Sequence[int]) -> Bools:
        """Return a mask of the live rows of one side that no later row can join."""
        keys, group = rows.distinct_keys()
        times = rows.segment.times[rows.positions]
        others = [other for other in range(len(self._sides)) if other != number]
        closed = [self._has_closed(other, keys) for other in others]
        shut = [mask[group] | (times < horizons[other]) for other, mask in zip(others, closed, strict=True)]
        useless: Bools = np.logical_and.reduce(shut)
        asked = np.zeros(len(keys), bool)
        asked[group[~useless]] = True
        ended = without_rows(keys, closed, [self._held[other] for other in others], asked)
        return useless | ended[group]

    def _has_closed(self, number: int, keys: Keys) -> Bools:
        return self._sides[number].has_closed(keys) if self._purges else np.zeros(len(keys), bool)

    def _of_closed_keys_without_rows(self, gone: Found) -> Found:
        """Return the rows of other sides that end since a side's last row of a closed key is gone.

        Rows of a key that all sides have closed are not among them, since its closings have found them.
        """
        found: Found = []
        sides = range(len(self._sides))
        # With two sides, the other side's rows of closed keys are gone already.
        for number in sides if self._purges and len(sides) > 2 else ():
            own = [rows for of, rows in gone if of == number]
            if own:
                keys = self._keys(number, own)
                closed = [self._has_closed(each, keys) for each in sides]
                some_open = ~np.logical_and.reduce(closed)
                ended = without_rows(keys, [closed[number]], [self._held[number]], some_open)
                keys = keys.take(np.flatnonzero(ended))
                others = (other for other in sides if other != number and len(keys))
                found += [(other, rows) for other in others for rows in self._held[other].having(keys)]
        return found

    def _keys(self, number: int, rows: list[SegmentRows]) -> Keys:
        """Return the keys of some rows of one side, each once, in order of code."""
        key = self._sides[number].spec.key
        stored = [one.segment.batch.select(key.stored).take(pa.array(one.positions)) for one in rows]
        return key.keys(key.distinct(codec.concat(stored)))

    def _retire(self, rows: Found, metric: str) -> Iterator[pa.RecordBatch]:
        """Take live rows out of state. They get the results that they are owed before."""
        for number, one in rows:
            side = self._sides[number]
            yield from self._spiller.settle(side, one)
            one.segment.kill(one.positions)
            new = one.segment is self._arrived[number]
            self._count(DROPPED if new else metric, side, len(one))
            self.gone.append((number, one))

    def _count(self, name: str, side: SideState, rows: int) -> None:
        self.counts[name, side.spec.name] += rows

"""Propagation: closed keys are announced once no further result can have them.

A side announces a key it has closed once no live row of the side has it. When the other side is preserved,
its rows are results even without a partner, so that side must have closed the key as well.
This is the rule `early`. By the rule `closed`, both sides must have closed the key in any case.
Keys that a side names are announced one by one. A pattern is announced as a whole, less the keys that still
wait; `final` tells which those are. They follow one by one when they are complete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.announce import CLOSED, EXPIRED
from endmark.operators.stream_join.presets import Propagation
from endmark.operators.stream_join.side import NEVER

if TYPE_CHECKING:
    from endmark.operators.stream_join.announce import ClosedKeysBySide
    from endmark.operators.stream_join.side import SideState
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools
    from endmark.state.segment import Segment

# After any event time. A key with this time waits for the other side's punctuation.
_FOR_EVER = 1 << 62


def announceable(
    left: SideState,
    right: SideState,
    closed_keys: ClosedKeysBySide,
    horizons: tuple[int, int],
    rule: Propagation,
) -> dict[str, list[pa.RecordBatch]]:
    """Return the keys that are announced in a batch, by what completed them: `closed` or `expired`.

    Args:
        left, right: the state of both sides.
        closed_keys: the newly closed keys of the left and of the right side.
        horizons: event times (µs) before which rows of the left and the right side have left the window.
        rule: the rule of propagation.
    """
    found = {EXPIRED: [*expired(left, horizons[0]), *expired(right, horizons[1])], CLOSED: []}
    for side, opposite, keys in ((left, right, closed_keys[0]), (right, left, closed_keys[1])):
        if keys is not None:
            found[CLOSED] += propagate(side, opposite, keys, rule)
    return found


def expired(side: SideState, horizon: int) -> list[pa.RecordBatch]:
    """Return the pending keys whose last row has left the window; they are pending no longer."""
    return [gone.batch.select(side.key.stored) for gone in side.pending_keys.expire(horizon)]


def propagate(
    side: SideState, opposite: SideState, closed_keys: pa.RecordBatch, rule: Propagation
) -> list[pa.RecordBatch]:
    """Announce the keys that a side closes in this batch, or keep them pending; return those announced.

    Args:
        side, opposite: the state of the side and of the other one.
        closed_keys: the newly closed keys of `side`.
        rule: the rule of propagation.
    """
    side.closed_keys.close()
    if rule is Propagation.NEVER:
        return []
    keys = side.key.keys(closed_keys)
    both = opposite.has_closed(keys)
    if rule is Propagation.CLOSED:
        return [closed_keys.filter(pa.array(both))]
    # What the other side had announced stays announced; what it held back is complete now, since
    # this side's punctuation has just purged the rows it was waiting for. It cannot have announced what
    # this side's rows could still be a result of.
    held = np.ones(len(keys), bool) if side.preserved else opposite.pending_keys.contains(keys)
    completed = closed_keys.filter(pa.array(both & held))
    opposite.pending_keys.remove(side.key.keys(completed))
    last = np.full(len(keys), _FOR_EVER) if opposite.preserved else side.last_times(keys)
    waiting = ~both & (last != NEVER)
    side.hold(closed_keys.filter(pa.array(waiting)), last[waiting])
    return [completed, closed_keys.filter(pa.array(~both & ~waiting))]


def hold_back(side: SideState, opposite: SideState, rule: Propagation) -> None:
    """Drop the closed keys that the patterns of a side match; keep pending those with a live row.

    If the other side is preserved, no key is final before that side has closed it, too, so none is kept.

    Args:
        side, opposite: the state of the side and of the other one.
        rule: the rule of propagation.
    """
    side.closed_keys.forget()
    opposite.pending_keys.remove_where(side.key_promises.positions)  # final now: closed by both
    if opposite.preserved or rule is not Propagation.EARLY:
        return
    for segments in (side.rows, side.spent):
        for segment in segments.segments:
            _hold_live(side, opposite, segment, segments.key)


def _hold_live(side: SideState, opposite: SideState, segment: Segment, key: KeySpec) -> None:
    at = side.key_promises.positions(segment)
    if segment.dead is not None:
        at = at[~segment.dead[at]]
    rows = segment.batch.select(key.stored).take(pa.array(at)).rename_columns(side.key.stored)
    if rows.num_rows == 0:
        return
    found = side.key.distinct(rows)
    keys = side.key.keys(found)
    fresh = ~side.pending_keys.contains(keys) & ~opposite.has_closed(keys)
    held = found.filter(pa.array(fresh))
    side.hold(held, side.last_times(side.key.keys(held)))


def final(left: SideState, right: SideState, keys: Keys, rule: Propagation) -> Bools:
    """Return a mask of the keys that are announced; call it between two batches.

    Args:
        left, right: the state of both sides.
        keys: any keys.
        rule: the rule of propagation.
    """
    if rule is Propagation.NEVER:
        return np.zeros(len(keys), bool)
    closed = left.has_closed(keys), right.has_closed(keys)
    over = closed[0] & closed[1]
    if rule is Propagation.CLOSED:
        return over
    if not right.preserved:
        over |= closed[0] & ~left.pending_keys.contains(keys)
    if not left.preserved:
        over |= closed[1] & ~right.pending_keys.contains(keys)
    return over

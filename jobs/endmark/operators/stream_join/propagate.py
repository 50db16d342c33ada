"""Propagation: which closed keys are announced, because no further result can have them.

A side announces a key it has closed once no live row of the side has it. When the other side is preserved,
its rows are results even without a partner, so that side must have closed the key as well.
This is the rule `early`; by the rule `closed` both sides must have closed the key in any case.
Keys that a side names are announced one by one. A pattern is announced as a whole, less the keys that still
wait: which keys those are is for `final` to say. What waited then follows one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.announce import CLOSED, EXPIRED
from endmark.operators.stream_join.presets import Propagation
from endmark.operators.stream_join.side import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.operators.stream_join.side import SideInput, SideState
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools
    from endmark.state.segment import Segment

# After any event time: what waits for this waits for the other side's punctuation.
_FOR_EVER = 1 << 62


def newly_closed(side: SideState, given: SideInput) -> tuple[pa.RecordBatch | None, Sequence[Punctuation]]:
    """Keys that this batch closes for the first time by naming them, in order of code, and what else it
    promises of keys."""
    promised = side.promise(given)
    return side.named.take(given.punctuations, widened=bool(promised)), promised


def announceable(
    left: SideState,
    right: SideState,
    closing: tuple[pa.RecordBatch | None, pa.RecordBatch | None],
    horizons: tuple[int, int],
    rule: Propagation,
) -> dict[str, list[pa.RecordBatch]]:
    """The keys that are announced in this batch, by what completed them: `closed` or `expired`."""
    found = {EXPIRED: [*expired(left, horizons[0]), *expired(right, horizons[1])], CLOSED: []}
    for side, opposite, keys in ((left, right, closing[0]), (right, left, closing[1])):
        if keys is not None:
            found[CLOSED] += propagate(side, opposite, keys, rule)
    return found


def expired(side: SideState, horizon: int) -> list[pa.RecordBatch]:
    """Held keys whose last row has left the window."""
    return [gone.batch.select(side.key.stored) for gone in side.pending.expire(horizon)]


def propagate(
    side: SideState, opposite: SideState, closing: pa.RecordBatch, rule: Propagation
) -> list[pa.RecordBatch]:
    """Announce or hold the keys that `side` closes in this batch; returns those announced."""
    side.named.close()
    if rule is Propagation.NEVER:
        return []
    keys = side.key.keys(closing)
    both = opposite.has_closed(keys)
    if rule is Propagation.CLOSED:
        return [closing.filter(pa.array(both))]
    # What the other side had announced stays announced; what it held back is complete now, since
    # this side's punctuation has just purged the rows it was waiting for. It cannot have announced what
    # this side's rows could still be a result of.
    held = np.ones(len(keys), bool) if side.preserved else opposite.pending.contains(keys)
    completed = closing.filter(pa.array(both & held))
    opposite.pending.remove(side.key.keys(completed))
    last = np.full(len(keys), _FOR_EVER) if opposite.preserved else side.last_times(keys)
    waiting = ~both & (last != NEVER)
    side.hold(closing.filter(pa.array(waiting)), last[waiting])
    return [completed, closing.filter(pa.array(~both & ~waiting))]


def hold_back(side: SideState, opposite: SideState, rule: Propagation) -> None:
    """Forget the closed keys that the patterns of `side` match; keep those that must not be announced yet.

    Nothing is final before the other side has closed it too, if that is preserved, so then none are kept.
    """
    side.named.forget()
    opposite.pending.remove_where(side.promises.positions)  # final now: closed by both
    if opposite.preserved or rule is not Propagation.EARLY:
        return
    for segments in (side.rows, side.spent):
        for segment in segments.segments:
            _hold_live(side, opposite, segment, segments.key)


def _hold_live(side: SideState, opposite: SideState, segment: Segment, key: KeySpec) -> None:
    at = side.promises.positions(segment)
    if segment.dead is not None:
        at = at[~segment.dead[at]]
    rows = segment.batch.select(key.stored).take(pa.array(at)).rename_columns(side.key.stored)
    if rows.num_rows == 0:
        return
    found = side.key.distinct(rows)
    keys = side.key.keys(found)
    fresh = ~side.pending.contains(keys) & ~opposite.has_closed(keys)
    held = found.filter(pa.array(fresh))
    side.hold(held, side.last_times(side.key.keys(held)))


def final(left: SideState, right: SideState, keys: Keys, rule: Propagation) -> Bools:
    """Which keys are announced, between two batches."""
    if rule is Propagation.NEVER:
        return np.zeros(len(keys), bool)
    closed = left.has_closed(keys), right.has_closed(keys)
    over = closed[0] & closed[1]
    if rule is Propagation.CLOSED:
        return over
    if not right.preserved:
        over |= closed[0] & ~left.pending.contains(keys)
    if not left.preserved:
        over |= closed[1] & ~right.pending.contains(keys)
    return over

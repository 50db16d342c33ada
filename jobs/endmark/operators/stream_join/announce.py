"""Announcements of the keys that a side of the stream join closes by name: no later result has them.

By the rule `early`, a key is announced once no live row of the side has it. If the other side is preserved,
its rows are results even without a partner, so that side must have closed the key, too. By the rule `closed`,
both sides must have closed the key in any case.

Patterns are announced as a whole (`announce_patterns`). A closed key that a pattern matches may still wait
for a live row. It is announced later, by its name. `final` returns which keys are announced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.event_times import FOR_EVER, NEVER
from endmark.operators.stream_join.pattern_reports import CLOSED, EXPIRED
from endmark.operators.stream_join.presets import Propagation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.operators.stream_batch import StreamBatch
    from endmark.operators.stream_join.side import SideState
    from endmark.state.keys import Keys
    from endmark.state.search import Bools

    # The newly closed keys of each side in a batch, in the order of sides.
    ClosedKeysBySide = Sequence[pa.RecordBatch | None]


def announceable(
    left: SideState,
    right: SideState,
    closed_keys: ClosedKeysBySide,
    closed_before: Sequence[Keys | None],
    widened: tuple[bool, bool],
    horizons: tuple[int, int],
    rule: Propagation,
) -> dict[str, list[pa.RecordBatch]]:
    """Return the keys that are announced in a batch, by what completed them: `closed` or `expired`.

    Args:
        left, right: the state of both sides.
        closed_keys: the newly closed keys of the left and of the right side.
        closed_before: for each side, those of its newly closed keys that the other side had closed before the
            batch; `None` if no pattern of the other side came in the batch.
        widened: whether patterns of the left and of the right side came in the batch.
        horizons: event times (µs) before which rows of the left and the right side have left the window.
        rule: the rule of propagation.
    """
    found = {EXPIRED: [*expired(left, horizons[0]), *expired(right, horizons[1])], CLOSED: []}
    for at, side, opposite in ((0, left, right), (1, right, left)):
        if (keys := closed_keys[at]) is not None:
            found[CLOSED] += announce_or_hold(side, opposite, keys, rule, closed_before[at])
    for side, opposite, came in ((left, right, widened[1]), (right, left, widened[0])):
        if came:
            found[CLOSED] += completed(side, opposite)
    return found


def closed_before(
    side: SideState, others: Sequence[SideState], batch: StreamBatch, news: Sequence[StreamBatch]
) -> Keys | None:
    """Return the keys that a side may close by name in a batch, and that another side has closed before it.

    Call it before the sides take the batch. Without it, a key that one side names and the other one closes by
    a pattern, both in one batch, would look as if it had been announced before.

    Args:
        side: the state of the side.
        others: the state of the other sides.
        batch: the batch of the side.
        news: the batches of the other sides.

    Returns:
        The keys, or `None` if the batch names none, or if no pattern of another side comes in it.
    """
    if not any(each.key_promises or each.marks is not None for each in news):
        return None
    widened = bool(batch.key_promises) or batch.marks is not None
    named = side.closed_keys.candidates(batch.closed_keys, widened=widened)
    if named is None:
        return None
    keys = side.key.keys(named)
    closed = np.logical_or.reduce([other.has_closed(keys) for other in others])
    return side.key.keys(named.filter(pa.array(closed)))


def completed(side: SideState, opposite: SideState) -> list[pa.RecordBatch]:
    """End the waiting of the pending keys that patterns of the other side close; return those to announce.

    These are the keys that the side has named. The others were closed by patterns alone.

    Args:
        side, opposite: the state of the side and of the other one.
    """
    gone = side.pending_keys.remove_where(opposite.key_promises.positions)
    found = [rows.batch.select(side.key.stored) for rows in gone]
    return [keys.filter(pa.array(side.closed_keys.contain(side.key.keys(keys)))) for keys in found]


def expired(side: SideState, horizon: int) -> list[pa.RecordBatch]:
    """Return the pending keys whose last row has left the window, and end their waiting.

    `horizon` is the event time (µs) before which rows of the side have left the window.
    """
    return [gone.batch.select(side.key.stored) for gone in side.pending_keys.expire(horizon)]


def announce_or_hold(
    side: SideState,
    opposite: SideState,
    closed_keys: pa.RecordBatch,
    rule: Propagation,
    closed_before: Keys | None,
) -> list[pa.RecordBatch]:
    """Announce the keys that a side closes in this batch, or keep them pending; return those announced.

    Args:
        side, opposite: the state of the side and of the other one.
        closed_keys: the newly closed keys of `side`.
        rule: the rule of propagation.
        closed_before: those that `opposite` had closed before the batch; `None`: no pattern of it came.
    """
    side.closed_keys.close()
    if rule is Propagation.NEVER:
        return []
    keys = side.key.keys(closed_keys)
    both = opposite.has_closed(keys)
    if rule is Propagation.CLOSED:
        return [closed_keys.filter(pa.array(both))]
    # Some keys were closed by the other side before. It has announced those that did not wait, so they are
    # not announced again. Those that it held back are complete now, since this side's punctuation has just
    # purged the rows that they waited for. If this side is preserved, the other side has announced none of
    # them.
    held = np.ones(len(keys), bool) if side.preserved else opposite.pending_keys.contains(keys)
    if closed_before is not None:
        # The other side has closed the rest by patterns of this batch, so it has announced none of them.
        held |= ~keys.among(closed_before) & ~opposite.closed_keys.contain(keys)
    over = closed_keys.filter(pa.array(both & held))
    opposite.pending_keys.remove(side.key.keys(over))
    last = np.full(len(keys), FOR_EVER) if opposite.preserved else side.last_times(keys)
    waiting = ~both & (last != NEVER)
    side.hold(closed_keys.filter(pa.array(waiting)), last[waiting])
    return [over, closed_keys.filter(pa.array(~both & ~waiting))]


def hold_back(side: SideState, opposite: SideState, rule: Propagation) -> None:
    """Drop closed keys that the patterns of a side match, and keep those with a live row pending.

    If the other side is preserved, no key is final before that side has closed it, too. So no key is kept
    then.

    Args:
        side, opposite: the state of the side and of the other one.
        rule: the rule of propagation.
    """
    side.closed_keys.forget()
    if opposite.preserved or rule is not Propagation.EARLY:
        return
    for found in newly_closed_keys(side):
        keys = side.key.keys(found)
        fresh = ~side.pending_keys.contains(keys) & ~opposite.has_closed(keys)
        held = found.filter(pa.array(fresh))
        side.hold(held, side.last_times(side.key.keys(held)))


def newly_closed_keys(side: SideState) -> Iterator[pa.RecordBatch]:
    """Yield the keys of a side's live rows that its patterns of this batch have closed.

    A batch has the keys of one segment, each once. Another segment may have some of them, too.
    """
    for segments in (side.rows, side.spent):
        for rows in segments.where(side.key_promises.added_positions):
            stored = rows.segment.batch.select(segments.key.stored).take(pa.array(rows.positions))
            yield side.key.distinct(stored.rename_columns(side.key.stored))


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

"""Propagation: which closed keys are announced, because no further result can have them.

A side announces a key it has closed once no live row of the side has it. When the other side is preserved,
its rows are results even without a partner, so that side must have closed the key as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.joins.side import NEVER

if TYPE_CHECKING:
    from endmark.joins.side import SideState
    from endmark.state.keys import Keys
    from endmark.state.search import Bools

# After any event time: what waits for this waits for the other side's punctuation.
_FOR_EVER = 1 << 62


def newly_closed(side: SideState, punctuations: pa.RecordBatch | None) -> pa.RecordBatch | None:
    """Keys that this batch closes for the first time, in order of code."""
    if punctuations is None:
        return None
    keys = side.key.distinct(punctuations)
    known = side.closed.contains(side.key.keys(keys))
    fresh = keys.filter(pa.array(~known)) if known.any() else keys
    return fresh if fresh.num_rows else None


def is_closed(side: SideState, closing: pa.RecordBatch | None, keys: Keys) -> Bools:
    """Which keys `side` has closed, by now or with `closing`."""
    closed = side.closed.contains(keys)
    return closed if closing is None else closed | keys.among(side.key.keys(closing))


def expired(side: SideState, horizon: int) -> list[pa.RecordBatch]:
    """Held keys whose last row has left the window."""
    return [gone.batch.select(side.key.stored) for gone in side.pending.expire(horizon)]


def propagate(side: SideState, opposite: SideState, closing: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Announce or hold the keys that `side` closes in this batch; returns those announced."""
    side.closed.append(closing)
    keys = side.key.keys(closing)
    both = opposite.closed.contains(keys)
    # What the other side had announced stays announced; what it held back is complete now, since
    # this side's punctuation has just purged the rows it was waiting for.
    completed = closing.filter(pa.array(both & opposite.pending.contains(keys)))
    opposite.pending.remove(side.key.keys(completed))
    last = np.full(len(keys), _FOR_EVER) if opposite.preserved else side.last_times(keys)
    waiting = ~both & (last != NEVER)
    side.hold(closing.filter(pa.array(waiting)), last[waiting])
    return [completed, closing.filter(pa.array(~both & ~waiting))]

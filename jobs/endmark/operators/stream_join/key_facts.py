"""Facts about one key in the state of a join: the rows that each side holds, who has closed it, and progress.

They say why the key is open. A row *waits* for another side until that side has closed its key or has left
the row's window, as in `purge`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.operators.stream_join.event_times import NEVER
from endmark.operators.stream_join.key_sets import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.operators.stream_join.side import SideState
    from endmark.state.keys import Keys
    from endmark.state.segment_list import SegmentRows

Facts = dict[str, Any]


def key_facts(sides: Sequence[SideState], keys: Keys, *, purges: bool) -> list[Facts]:
    """Return the facts about a key for each side that has not ended, ready for JSON. Times are in µs.

    The side of a union has several members, and numbers their partitions in turn.

    Args:
        sides: all sides of the join.
        keys: the one key.
        purges: whether closed keys free rows.
    """
    return [_facts(side, sides, keys, purges=purges) for side in sides if not side.spec.ended]


def _facts(side: SideState, sides: Sequence[SideState], keys: Keys, *, purges: bool) -> Facts:
    """Return the facts about a key in the state of one side."""
    rows = [one for one in side.rows.having(keys) if len(one)]
    times = np.concatenate([one.segment.times[one.positions] for one in rows]) if rows else np.empty(0)
    newest = int(times.max()) if len(times) else None
    spec = side.spec
    named = side.closed_keys.promises_of(keys)
    matched = side.key_promises.coordinates(keys)
    return {
        "stream": spec.name,
        "rows": len(times),
        "oldest": int(times.min()) if len(times) else None,
        "newest": newest,
        "coordinates": _coordinates(side, rows),
        "preserved": side.preserved,
        "members": [
            {"stream": member.stream, "keyed": member.keyed, "numbers": list(member.numbers)}
            for member in spec.streams
        ],
        "closes": bool(spec.punctuated_on or spec.ordered or spec.unique or spec.clustered),
        "closed": bool(side.has_closed(keys)[0]),
        "named": sorted([partition, offset] for _, partition, offset in named),
        "matched": [[at, None if offset == UNKNOWN else offset] for at, offset in sorted(matched.items())],
        "waits_for": [] if newest is None else _waits_for(side, sides, keys, newest, purges=purges),
        **_progress(side),
    }


def _coordinates(side: SideState, rows: Sequence[SegmentRows]) -> list[list[int]]:
    """Return partition and offset of the first row; none if rows are not of Kafka."""
    if not rows or side.spec.partition is None:
        return []
    first, partition, offset = rows[0].batch.slice(0, 1), side.spec.partition, str(side.spec.offset)
    return [[first.column(partition)[0].as_py(), first.column(offset)[0].as_py()]]


def _waits_for(
    side: SideState, sides: Sequence[SideState], keys: Keys, newest: int, *, purges: bool
) -> list[Facts]:
    """Return the sides that the newest row of the key waits for, each with the end of the row's window."""
    until = None if side.spec.window is None else newest + side.spec.window
    return [
        {"stream": other.spec.name, "until": until}
        for other in sides
        if other is not side
        and not (purges and bool(other.has_closed(keys)[0]))
        and not newest < side.horizon(other.progress)
    ]


def _progress(side: SideState) -> Facts:
    """Return the progress of a side, and the partitions that hold it back."""
    partitions = sorted(side.spec.numbers)
    idle = [at for at in partitions if side.is_idle(at)]
    silent = [at for at in partitions if at not in side.newest and at not in idle]
    waited_for = {at: time for at, time in side.newest.items() if at not in idle}
    slowest = min(waited_for, key=lambda at: (waited_for[at], at), default=None)
    newest = max(side.newest.values(), default=None)
    return {
        "progress": None if side.progress == NEVER else side.progress,
        "idle": idle,
        "silent": silent,
        "slowest": slowest,
        "behind": None if slowest is None or newest is None else newest - waited_for[slowest],
    }

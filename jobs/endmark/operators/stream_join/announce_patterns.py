"""Announcements of the patterns that a stream promises: no later result matches them.

A pattern is announced as a whole, over the own columns of its stream. Every partition of the stream must have
promised the pattern, and no live row of the stream may match it, since such a row could still be in a result.
This holds for outer joins, too: results without the stream have nulls in its columns, and a null is no value.

A pattern on the key alone also rules out results by the key columns of any other stream. It is announced over
those columns, too, with two exceptions: rows of the other stream are results by themselves, or the other
stream punctuates its key, so its own promises say it. The second exception is none on the right of a semi
join, since results have no column of the promising stream.

If a bucket holds promises back because rows wait for a lookup, it also keeps the patterns waiting that these
promises complete (`to_come`).
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.event_times import FOR_EVER
from endmark.operators.stream_join.pattern_reports import ALL_VALUES, Report, text_of
from endmark.operators.stream_join.promises import match
from endmark.punctuation.columns import matched
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from endmark.operators.stream_join.announce import ClosedKeysBySide
    from endmark.operators.stream_join.side import SideState
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.search import Bools


def oldest_live(side: SideState, others: Iterable[SideState]) -> int:
    """Return the least event time (µs) of a side's row in any later result; `NEVER` without a bound.

    Call it between two batches.

    Args:
        side: the side.
        others: the other sides. Rows that all of them have closed may still wait to be purged, but do not
            count.
    """
    closing = list(others)
    if not _keep_rows_to_purge(closing):
        return side.rows.oldest(side.progress)
    return min(side.progress, _Live(side, [(other, None) for other in closing]).oldest)


class PatternAnnouncer:
    """Releases the patterns of all sides of one bucket. Call `begin` before a batch, and `report` after it.

    Args:
        sides: the sides of the bucket.
        shown: the sides whose columns results have.
        early: whether the rule is `early`. By the other rules, no pattern is announced.
    """

    def __init__(self, sides: Sequence[SideState], shown: Sequence[SideState], *, early: bool = True) -> None:
        self._early = early
        self._sides = sides
        self._shown = shown
        self._report = Report()
        self._rows_before: dict[str, int] = {}  # of each side when its patterns were last compared with them

    def begin(self, promises: Sequence[Sequence[Punctuation]]) -> None:
        """Take the promises of a batch, in the order of sides."""
        self._report = Report()
        self._rows_before = {}
        for side, own in zip(self._sides, promises, strict=True):
            side.promises.add(own)
            if not self._early:
                side.promises.announce_nothing()

    def release(self, by: str, closed_keys: ClosedKeysBySide | None = None) -> None:
        """Announce the complete patterns that no live row matches.

        Args:
            by: the reason why the last of their rows left, `closed` or `expired`.
            closed_keys: the newly closed keys of each side; `None` without any. Rows that all other sides
                have closed may still wait to be purged, but do not count as live.
        """
        keys = closed_keys or [None] * len(self._sides)
        for side in self._sides:
            complete = side.promises.complete()
            # Between two calls in a batch, rows only leave. If none has, the same patterns wait.
            if not complete or side.rows.rows == self._rows_before.get(side.spec.name):
                continue
            self._rows_before[side.spec.name] = side.rows.rows
            others = [each for each in zip(self._sides, keys, strict=True) if each[0] is not side]
            live = _Live(side, others).matched(complete)
            for promise, waits in zip(complete, live.tolist(), strict=True):
                if not waits:
                    side.promises.announce(promise)
                    self._report.released |= dict.fromkeys(self._texts(promise, side), by)

    def report(self) -> Report:
        """Return the statements of this batch about patterns. Call it when the batch is over."""
        waiting = []
        for side in self._sides:
            for promise in side.promises.complete():
                waiting += self._texts(promise, side)
        self._report.waiting = waiting
        return self._report

    def to_come(self, side: SideState, promises: Sequence[Punctuation]) -> list[str]:
        """Return the patterns that given promises, which have not entered yet, will complete, in their order.

        Args:
            side: the side of the promises.
            promises: the promises.
        """
        if not (self._early and promises):
            return []
        promised = deepcopy(side.promises)
        promised.add(promises)
        return [text for promise in promised.complete() for text in self._texts(promise, side)]

    def _texts(self, promise: Punctuation, side: SideState) -> list[str]:
        own = side.spec.key.columns
        # A promise without patterns ends its stream. It is announced as all values of the key: a pattern that
        # matches anything would also match the nulls of an outer join.
        patterns = side.spec.codec.write_patterns(promise) or {own[0]: ALL_VALUES}
        shown = side in self._shown
        texts = [text_of(patterns)] if shown else []
        for other in self._shown:
            if other is side or not set(patterns) <= set(own):
                continue
            others = other.spec.key.columns
            promises_itself = shown and set(others) <= set(other.spec.punctuated_on)
            if not (other.preserved or promises_itself):
                named = dict(zip(own, others, strict=True))
                texts.append(text_of({named[name]: each for name, each in patterns.items()}))
        return texts


class _Live:
    """The live rows of a side, without those that wait to be purged.

    Args:
        side: the side of the rows.
        others: the other sides, which close their keys, each with its newly closed keys; `None` without any.
    """

    def __init__(self, side: SideState, others: Sequence[tuple[SideState, pa.RecordBatch | None]]) -> None:
        self._rows = [segment.live_batch() for segment in side.rows.segments if segment.live]
        if _keep_rows_to_purge(other for other, _ in others):
            keys = [side.spec.key.keys(rows) for rows in self._rows]
            over = [
                np.logical_and.reduce([other.has_closed(one, closed_keys) for other, closed_keys in others])
                for one in keys
            ]
            self._rows = [rows.filter(pa.array(~mask)) for rows, mask in zip(self._rows, over, strict=True)]
        self._time = side.spec.time

    @property
    def oldest(self) -> int:
        """The event time (µs) of the oldest row; `FOR_EVER` without rows."""
        times = [int64(rows.column(self._time)) for rows in self._rows]
        return min((int(each.min()) for each in times if len(each)), default=FOR_EVER)

    def matched(self, promises: Sequence[Punctuation]) -> Bools:
        """Return a mask of the promises that match one of the rows."""
        found = np.zeros(len(promises), bool)
        by_column: dict[str, list[int]] = {}
        for at, promise in enumerate(promises):
            if len(promise.patterns) == 1:
                by_column.setdefault(promise.names()[0], []).append(at)
            else:
                found[at] = self._has(promise)
        for name, numbers in by_column.items():
            patterns = [promises[at].patterns[0][1] for at in numbers]
            found[numbers] = matched(patterns, [rows.column(name) for rows in self._rows])
        return found

    def _has(self, promise: Punctuation) -> bool:
        names = list(promise.names())
        return any(
            match(promise, rows.select(names)).any() if names else rows.num_rows > 0
            for rows in reversed(self._rows)
        )


def _keep_rows_to_purge(sides: Iterable[SideState]) -> bool:
    """Return whether some of the sides have closed keys whose rows on the other side wait to be purged."""
    return any(side.unpurged_keys.rows or side.unpurged_promise_count for side in sides)

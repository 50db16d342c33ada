"""Announcements of the stream join: the keys and the patterns that no later result has.

**Keys** that a side closes by name are announced one by one. By the rule `early`, a key is announced once no
live row of the side has it. If the other side is preserved, its rows are results even without a partner, so
that side must have closed the key, too. By the rule `closed`, both sides must have closed the key in any
case.

**Patterns** are announced as a whole, over the own columns of their stream. Every partition of the stream
must have promised the pattern, and no live row of the stream may match it, since such a row could still be in
a result. This holds for outer joins, too: results without the stream have nulls in its columns, and a null is
no value.

A pattern on the key alone also rules out results by the key columns of any other stream. It is announced over
those columns, too, with two exceptions: rows of the other stream are results by themselves, or the other
stream punctuates its key, so its own promises say it. The second exception is none on the right of a semi
join, since results have no column of the promising stream. Closed keys that still wait for a live row are
announced later, one by one; `final` returns which keys are announced.

**Progress** is announced, too, over columns of the group key that are derived times. A row of a stream in a
later result is no older than the stream's progress, or it is live. So its derived time is not less than that
of a row at progress, or of the oldest live row. Each bucket reports this bound before and after a batch, and
the least one of all buckets counts (`aligned`).

A pattern goes to all buckets, and every batch runs in all of them. A pattern is announced if some bucket
releases it in a batch and none keeps it waiting (`aligned`). If a bucket holds promises back because rows
wait for a lookup, it also keeps the patterns waiting that these promises complete (`to_come`).
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.presets import Propagation
from endmark.operators.stream_join.promises import match
from endmark.operators.stream_join.side import FOR_EVER, NEVER
from endmark.punctuation.columns import matched
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from endmark.derived_times import TimeBound
    from endmark.operators.stream_batch import StreamBatch
    from endmark.operators.stream_join.side import SideState
    from endmark.punctuation.punctuation import Punctuation
    from endmark.punctuation.wire_json import PatternJson
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools
    from endmark.state.segment import Segment

    # The newly closed keys of each side in a batch, in the order of sides.
    ClosedKeysBySide = Sequence[pa.RecordBatch | None]

CLOSED = "closed"
EXPIRED = "expired"
ALL_VALUES: dict[str, Any] = {"between": {}}  # the pattern of all values, in JSON


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
            found[CLOSED] += propagate(side, opposite, keys, rule, closed_before[at])
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


def propagate(
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
    for segments in (side.rows, side.spent):
        for segment in segments.segments:
            _hold_live(side, opposite, segment, segments.key)


def _hold_live(side: SideState, opposite: SideState, segment: Segment, key: KeySpec) -> None:
    """Keep the keys of a segment's live rows pending that the patterns of this batch have closed."""
    at = side.key_promises.added_positions(segment)
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


@dataclass
class Report:
    """The statements of one bucket about patterns in one batch. A pattern is a JSON text over result columns.

    Args:
        released: the patterns that no live row of the bucket matches any more, each with the reason why the
            last such row left: `closed` or `expired`.
        waiting: the patterns that live rows of the bucket still match.
        times: for each derived time of the group key, the change of its bound in the batch.
    """

    released: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    times: dict[str, BoundChange] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.released or self.waiting or self.times)

    def then(self, later: Report) -> Report:
        """Combine this report with that of a later batch of the join, in the same batch of the job.

        Bounds are reported once, for all of these batches.
        """
        return Report(self.released | later.released, later.waiting)


class BoundChange(TypedDict):
    """The bound of a derived time in one bucket, before and after a batch.

    No later result has a value below `after`.

    Args:
        before: the cut of the bound before the batch.
        after: the cut of the bound after the batch.
        pattern: the values below `after`, as a pattern in JSON.
    """

    before: int
    after: int
    pattern: PatternJson


def bound_changes(before: Mapping[str, TimeBound], after: Mapping[str, TimeBound]) -> dict[str, BoundChange]:
    """Return the changes of a bucket's bounds in a batch, by column."""
    return {
        name: BoundChange(before=before[name].cut, after=bound.cut, pattern=bound.written)
        for name, bound in after.items()
    }


def aligned(reports: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Combine the reports of all buckets of one batch, given as JSON objects.

    Returns:
        The announced patterns in the order of their text, each with `closed` or `expired`.
    """
    released: dict[str, str] = {}
    waiting: set[str] = set()
    times: dict[str, list[BoundChange]] = {}
    for report in reports:
        waiting.update(report["waiting"])
        for text, by in report["released"].items():
            released[text] = EXPIRED if EXPIRED in (by, released.get(text)) else CLOSED
        for column, bounds in report["times"].items():
            times.setdefault(column, []).append(bounds)
    for column, reported in times.items():
        least = min(reported, key=lambda bounds: bounds["after"])
        if least["after"] > min(bounds["before"] for bounds in reported):
            released[_text({column: least["pattern"]})] = EXPIRED
    return {text: released[text] for text in sorted(released.keys() - waiting)}


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
        texts = [_text(patterns)] if shown else []
        for other in self._shown:
            if other is side or not set(patterns) <= set(own):
                continue
            others = other.spec.key.columns
            promises_itself = shown and set(others) <= set(other.spec.punctuated_on)
            if not (other.preserved or promises_itself):
                named = dict(zip(own, others, strict=True))
                texts.append(_text({named[name]: each for name, each in patterns.items()}))
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


def _text(patterns: Mapping[str, Any]) -> str:
    return json.dumps(dict(patterns), ensure_ascii=False, allow_nan=False)

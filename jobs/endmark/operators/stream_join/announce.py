"""Output punctuations of patterns: a promise of an input is announced over the columns of the results.

A pattern that every partition of a stream has promised is announced over that stream's own columns once no
live row of the stream matches it: such a row could still be in a result, one to come cannot. That holds for
outer joins too, as the columns of the stream are null in results without it, and a null is no value. A
pattern on the key alone rules out pairs by the other stream's key columns as well. It is announced over those
too, unless rows of the other stream are results by themselves, or that stream punctuates its key, so that its
own promises say it.

A pattern goes to every bucket, and each answers for the rows it has. Every batch runs in all buckets, so what
some bucket releases in a batch and none keeps waiting is announced then: `aligned`, which remembers nothing.
A bucket that holds promises back, since rows wait for the lookup, lets what they complete wait: `to_come`.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from endmark.operators.stream_join.promises import match
from endmark.punctuation.columns import matches
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from endmark.operators.stream_join.side import SideState
    from endmark.punctuation.pattern import Pattern
    from endmark.punctuation.punctuation import Punctuation

    # The newly closed keys of the left and of the right side in a batch.
    ClosedKeysBySide = tuple[pa.RecordBatch | None, pa.RecordBatch | None]

CLOSED = "closed"
EXPIRED = "expired"
_ALL_VALUES: dict[str, Any] = {"between": {}}  # a pattern in JSON


@dataclass
class Report:
    """The statements of one bucket about patterns in one batch, as JSON text over columns of the results.

    Args:
        released: no row here matches any longer, by what the last of them went: `closed` or `expired`.
        waiting: rows here do.
    """

    released: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.released or self.waiting)

    def then(self, later: Report) -> Report:
        """Combine the reports of several batches of the join that are one batch of the job."""
        return Report(self.released | later.released, later.waiting)


def aligned(reports: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Combine the reports of all buckets of one batch, given as JSON objects.

    Returns the announced patterns in the order of their text, each with `closed` or `expired`.
    """
    released: dict[str, str] = {}
    waiting: set[str] = set()
    for report in reports:
        waiting.update(report["waiting"])
        for text, by in report["released"].items():
            released[text] = EXPIRED if EXPIRED in (by, released.get(text)) else CLOSED
    return {text: released[text] for text in sorted(released.keys() - waiting)}


class PatternAnnouncer:
    """Releases the patterns of both sides of one bucket; `begin` each batch, and read its `report`.

    Args:
        left, right: the two sides of the bucket.
        kind: the join's type; a semi join's results have columns of the left side alone.
        early: whether anything is announced before both sides have closed it; if not, patterns are not.
    """

    def __init__(self, left: SideState, right: SideState, kind: JoinType, *, early: bool = True) -> None:
        self._early = early
        self._sides = ((left, right), (right, left))
        self._shown = (left,) if kind is JoinType.SEMI else (left, right)
        self._report = Report()

    def begin(self, left: Sequence[Punctuation], right: Sequence[Punctuation]) -> None:
        """Take the promises of a batch."""
        self._report = Report()
        for (side, _), promises in zip(self._sides, (left, right), strict=True):
            side.promises.add(promises)
            if not self._early:
                side.promises.announce_nothing()

    def release(self, by: str, closed_keys: ClosedKeysBySide = (None, None)) -> None:
        """Announce the complete patterns that no live row matches.

        Args:
            by: how the last of their rows went, `closed` or `expired`.
            closed_keys: the newly closed keys of the left and of the right side. Their rows may wait to be
                purged, and are live no more.
        """
        for (side, opposite), keys in zip(self._sides, reversed(closed_keys), strict=True):
            complete = side.promises.complete()
            live = _Live(side, opposite, keys) if complete else None
            for promise in complete:
                if live is not None and not live.matches(promise):
                    side.promises.announce(promise)
                    self._report.released |= dict.fromkeys(self._texts(promise, side, opposite), by)

    def report(self) -> Report:
        """Return what this batch says of patterns. Ask when the batch is over."""
        waiting = []
        for side, opposite in self._sides:
            for promise in side.promises.complete():
                waiting += self._texts(promise, side, opposite)
        self._report.waiting = waiting
        return self._report

    def to_come(self, side: SideState, promises: Sequence[Punctuation]) -> list[str]:
        """Return what promises that have not entered yet will complete, in the order in which they will."""
        if not (self._early and promises):
            return []
        opposite = next(other for one, other in self._sides if one is side)
        promised = deepcopy(side.promises)
        promised.add(promises)
        return [text for promise in promised.complete() for text in self._texts(promise, side, opposite)]

    def _texts(self, promise: Punctuation, side: SideState, opposite: SideState) -> list[str]:
        own, others = side.spec.key.columns, opposite.spec.key.columns
        # A promise without patterns ends its stream, and may be about columns beside the key. It is announced
        # as all values of the key: to match anything would be to match the nulls of an outer join as well.
        patterns = side.spec.codec.write_patterns(promise) or {own[0]: _ALL_VALUES}
        texts = [_text(patterns)] if side in self._shown else []
        speaks = set(others) <= set(opposite.spec.punctuated_on)
        if opposite in self._shown and set(patterns) <= set(own) and not (opposite.preserved or speaks):
            named = dict(zip(own, others, strict=True))
            texts.append(_text({named[name]: each for name, each in patterns.items()}))
        return texts


class _Live:
    """The live rows of a side, less those that wait to be purged, for several promises.

    Args:
        side: the side whose rows are meant.
        opposite: the other side, which closes their keys.
        closed_keys: the newly closed keys of `opposite`; `None` without any.
    """

    def __init__(self, side: SideState, opposite: SideState, closed_keys: pa.RecordBatch | None) -> None:
        self._rows = [segment.live_batch() for segment in side.rows.segments if segment.live]
        if opposite.unpurged_keys.rows or opposite.unpurged_promise_count:
            over = [opposite.has_closed(side.spec.key.keys(rows), closed_keys) for rows in self._rows]
            self._rows = [rows.filter(pa.array(~mask)) for rows, mask in zip(self._rows, over, strict=True)]
        self._values: dict[str, pa.Array] = {}

    def matches(self, promise: Punctuation) -> bool:
        """Return whether a promise matches one."""
        if len(promise.patterns) == 1:
            ((name, pattern),) = promise.patterns
            return self._has(name, pattern)
        names = list(promise.names())
        return any(
            match(promise, rows.select(names)).any() if names else rows.num_rows > 0
            for rows in reversed(self._rows)
        )

    def _has(self, name: str, pattern: Pattern) -> bool:
        if name not in self._values:
            pieces = [rows.column(name) for rows in self._rows]
            self._values[name] = pc.unique(pa.chunked_array(pieces)) if pieces else None
        values = self._values[name]
        return values is not None and bool(matches(pattern, values).any())


def _text(patterns: Mapping[str, Any]) -> str:
    return json.dumps(dict(patterns), ensure_ascii=False, allow_nan=False)

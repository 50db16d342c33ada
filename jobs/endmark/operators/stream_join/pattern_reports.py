"""The reports of buckets on patterns, and the patterns that all buckets announce together.

A pattern goes to all buckets, and every batch runs in all of them. A pattern is announced if some bucket
releases it in a batch and none keeps it waiting (`aligned`).

Progress is announced, too, over columns of the group key that are derived times. A row of a stream in a later
result is no older than the stream's progress, or it is live. So its derived time is not less than that of a
row at progress, or of the oldest live row. Each bucket reports this bound before and after a batch, and the
least one of all buckets counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.expressions.derived_times import TimeBound
    from endmark.punctuation.wire_json import PatternJson

CLOSED = "closed"
EXPIRED = "expired"
ALL_VALUES: dict[str, Any] = {"between": {}}  # the pattern of all values, in JSON


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
            released[text_of({column: least["pattern"]})] = EXPIRED
    return {text: released[text] for text in sorted(released.keys() - waiting)}


def text_of(patterns: Mapping[str, Any]) -> str:
    """Return patterns by column, which are ready for JSON, as the text of a report."""
    return json.dumps(dict(patterns), ensure_ascii=False, allow_nan=False)

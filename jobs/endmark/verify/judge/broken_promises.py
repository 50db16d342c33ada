"""Finds the promise that each violation broke.

It is the pattern that was in force in the row's partition at the row's offset, or else the first promise that
names the key. The offset of a promise that names the key is told if it is recent. The patterns on one column
are a union of intervals. The promise is then the interval that holds the row, with the offset of the pattern
that last widened it. A pattern on several columns adds nothing if such intervals include it. The newest of
all that match is the promise. If no promise of the row's partition names the key, it is the one of another
partition that the job has named. If only a wider promise matches, no promise is named. A row out of order
broke the promise of the farthest row before it.

Violations are few, so Python takes them one by one. Patterns are written in one normal form, since the same
set has many spellings.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.formats.patterns import Bound
from endmark.verify.join.sides import key_column, stream_names
from endmark.verify.promises.order import ordering
from endmark.verify.promises.spans import Span, cut_below, spans_of, written
from endmark.verify.session import Session, name

_CLOSED = """
SELECT $partition AS "partition", $offset AS "offset", $named_key, "#since", "#matched", violation,
    "#reached", "#first", "#elsewhere", "#partition", "#offset"
FROM $judged
LEFT JOIN (
    SELECT $partition AS part, $ordered AS key, min($offset) AS "#first" FROM $rows GROUP BY ALL
) ON part = $partition AND key = "#reached"
WHERE violation = 'unordered'
    OR violation NOT IN ('late', 'filtered')
        AND ("#since" IS NOT NULL OR "#matched" OR violation = "#elsewhere")
ORDER BY "partition", "offset"
"""

_SCHEMA = pa.schema(
    [
        ("partition", pa.int64()),
        ("offset", pa.int64()),
        ("promise", pa.string()),
        ("promise_partition", pa.int32()),
        ("promise_offset", pa.int64()),
    ]
)

MOST_SHOWN = 2_000  # characters of a promise
# The offset of a promise that names the key is null if it is more than so much less than that of the row.
RECENT = 1_000
_PARTS = ("among", "low", "high", "low_open", "high_open")
Row = dict[str, Any]


def name_promises(session: Session, pipeline: Pipeline, stream: str) -> None:
    """Make `broken_<stream>` from `judged_<stream>` and `patterns_<stream>`.

    The table has partition and offset of each row that broke a promise, and that promise.

    Args:
        session: the session.
        pipeline: the pipeline.
        stream: the stream's name.
    """
    known = stream_names(pipeline, stream)
    kinds = pipeline.stage_of(stream).key_types
    rows = session.run(_CLOSED, ordered=ordering(pipeline, stream)["ordered"], **known)
    descending = "descending" in pipeline.streams[stream].ordered.values()
    patterns = session.run('FROM $patterns ORDER BY "partition", "offset"', **known)
    found = [
        {"partition": row["partition"], "offset": row["offset"]}
        | _promise(row, kinds, in_force, descending=descending)
        for row, in_force in _in_force(rows, patterns, kinds)
    ]
    broken = name(f"broken_{stream}")
    session.run_on(
        pa.Table.from_pylist(found, _SCHEMA), "CREATE TABLE $broken AS FROM arriving", broken=broken
    )


def _in_force(
    rows: Iterable[Row], patterns: Iterable[Row], kinds: dict[str, ColumnType]
) -> Iterator[tuple[Row, _InForce]]:
    """Yield each row with the patterns before it in its partition; both are in the order of their places."""
    coming = deque(patterns)
    in_force, partition = _InForce(kinds), None
    for row in rows:
        if row["partition"] != partition:
            in_force, partition = _InForce(kinds), row["partition"]
        while coming and (coming[0]["partition"], coming[0]["offset"]) < (partition, row["offset"]):
            pattern = coming.popleft()
            if pattern["partition"] == partition:
                in_force.add(pattern)
        yield row, in_force


def _promise(row: Row, kinds: dict[str, ColumnType], in_force: _InForce, *, descending: bool) -> Row:
    text: Row
    partition = row["partition"]
    if row["violation"] == "unordered":
        ((column, kind),) = kinds.items()
        reached, offset = row["#reached"], row["#first"]
        ahead = Bound(low=reached, low_open=True) if descending else Bound(high=reached, high_open=True)
        text = {column: written(spans_of(ahead, kind), kind)}
    elif row["#matched"]:
        offset, text = in_force.broken_by(row)
    else:
        values = {column: Bound(among=frozenset([row[key_column(column)]])) for column in kinds}
        if row["#since"] is None:
            partition, offset = row["#partition"], row["#offset"]
        else:
            offset = row["#since"] if row["offset"] - row["#since"] <= RECENT else None
        text = {
            column: written(spans_of(bound, kinds[column]), kinds[column]) for column, bound in values.items()
        }
    shown = json.dumps(text, sort_keys=True)
    return {
        "promise": shown if len(shown) <= MOST_SHOWN else f"{shown[: MOST_SHOWN - 1]}…",
        "promise_partition": partition,
        "promise_offset": offset,
    }


class _InForce:
    """The patterns that a partition has promised so far. Add them in the order of their offsets.

    Args:
        kinds: the types of the key's columns.
    """

    def __init__(self, kinds: dict[str, ColumnType]) -> None:
        self._kinds = kinds
        self._unions: dict[str, list[tuple[Span, int]]] = {column: [] for column in kinds}
        self._several: list[tuple[int, dict[str, list[Span]]]] = []

    def add(self, pattern: Row) -> None:
        spans = _spans_by_column(pattern, self._kinds)
        if len(spans) == 1:
            ((column, own),) = spans.items()
            for span in own:
                self._unions[column] = _widened(self._unions[column], span, pattern["offset"])
        elif not any(_is_within(own, self._unions[column]) for column, own in spans.items()):
            self._several.append((pattern["offset"], spans))

    def broken_by(self, row: Row) -> tuple[int, Row]:
        """Return the offset and the text of the newest pattern that matches a row."""
        cuts = {column: cut_below(row[key_column(column)], kind) for column, kind in self._kinds.items()}
        unions = self._unions.items()
        intervals = [(offset, {column: [span]}) for column, union in unions for span, offset in union]
        matching = [
            each
            for each in [*self._several, *intervals]
            if all(any(low <= cuts[column] < high for low, high in own) for column, own in each[1].items())
        ]
        if not matching:
            raise AssertionError(f"SQL found a pattern that matches {row}, and this did not")
        offset, spans = max(matching, key=itemgetter(0))
        return offset, {column: written(own, self._kinds[column]) for column, own in spans.items()}


def _spans_by_column(pattern: Row, kinds: dict[str, ColumnType]) -> dict[str, list[Span]]:
    bounds = {column: bound_of(pattern, column) for column in kinds}
    if len(kinds) == 1:
        bounds = {column: bound or Bound() for column, bound in bounds.items()}
    return {column: spans_of(bound, kinds[column]) for column, bound in bounds.items() if bound is not None}


def _is_within(spans: Sequence[Span], union: Sequence[tuple[Span, int]]) -> bool:
    return all(any(known[0] <= low and high <= known[1] for known, _ in union) for low, high in spans)


def _widened(union: Iterable[tuple[Span, int]], span: Span, offset: int) -> list[tuple[Span, int]]:
    apart, low, high = [], *span
    for known, since in union:
        if known[0] <= span[0] and span[1] <= known[1]:
            return list(union)
        if known[1] < span[0] or span[1] < known[0]:
            apart.append((known, since))
        else:
            low, high = min(low, known[0]), max(high, known[1])
    return [*apart, ((low, high), offset)]


def bound_of(pattern: Row, column: str) -> Bound | None:
    """Return the bound that a pattern puts on a column; `None` if it does not restrict the column."""
    parts = {part: pattern[f"{key_column(column)}_{part}"] for part in _PARTS}
    if parts["low_open"] is None:
        return None
    among = parts.pop("among")
    return Bound(None if among is None else frozenset(among), **parts)

"""Finds the promise that each violation broke.

It is the pattern that was in force in the row's partition at the row's offset, or else the first promise that
names the key. The offset of a promise that names the key is told if it is recent. The patterns of a single
column are a union of intervals. The promise is then the interval that holds the row, with the offset of the
pattern that last widened it. If patterns have several columns, the promise is the newest that matches. If no
promise of the row's partition names the key, it is the one of another partition that the job has named. If
only a wider promise matches, no promise is named. A row out of order broke the promise of the farthest row
before it.

Violations are few, so Python takes them one by one. Patterns are written in one normal form, since the same
set has many spellings.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from endmark.pipeline import Pipeline
from endmark.types import ColumnType
from endmark.verify.join_sides import key_column, stream_names
from endmark.verify.order import ordering
from endmark.verify.patterns import Bound
from endmark.verify.session import Session, name
from endmark.verify.spans import Span, cut_below, spans_of, written

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
        | _promise(row, kinds, [one for one in patterns if _is_before(one, row)], descending=descending)
        for row in rows
    ]
    broken = name(f"broken_{stream}")
    session.run_on(
        pa.Table.from_pylist(found, _SCHEMA), "CREATE TABLE $broken AS FROM arriving", broken=broken
    )


def _is_before(pattern: Row, row: Row) -> bool:
    return bool(pattern["partition"] == row["partition"] and pattern["offset"] < row["offset"])


def _promise(row: Row, kinds: dict[str, ColumnType], patterns: Sequence[Row], *, descending: bool) -> Row:
    text: Row
    partition = row["partition"]
    if row["violation"] == "unordered":
        ((column, kind),) = kinds.items()
        reached, offset = row["#reached"], row["#first"]
        ahead = Bound(low=reached, low_open=True) if descending else Bound(high=reached, high_open=True)
        text = {column: written(spans_of(ahead, kind), kind)}
    elif row["#matched"]:
        offset, text = (_interval if len(kinds) == 1 else _newest)(row, kinds, patterns)
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


def _interval(row: Row, kinds: dict[str, ColumnType], patterns: Sequence[Row]) -> tuple[int, Row]:
    ((column, kind),) = kinds.items()
    union: list[tuple[Span, int]] = []
    for pattern in patterns:
        for span in spans_of(bound_of(pattern, column) or Bound(), kind):
            union = _widened(union, span, pattern["offset"])
    at = cut_below(row[key_column(column)], kind)
    ((span, offset),) = [(span, offset) for span, offset in union if span[0] <= at < span[1]]
    return offset, {column: written([span], kind)}


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


def _newest(row: Row, kinds: dict[str, ColumnType], patterns: Sequence[Row]) -> tuple[int, Row]:
    for pattern in reversed(patterns):
        bounds = {column: bound_of(pattern, column) for column in kinds}
        spans = {
            column: spans_of(bound, kinds[column]) for column, bound in bounds.items() if bound is not None
        }
        cuts = {column: cut_below(row[key_column(column)], kinds[column]) for column in spans}
        if all(any(low <= cuts[column] < high for low, high in spans[column]) for column in spans):
            return pattern["offset"], {column: written(spans[column], kinds[column]) for column in spans}
    raise AssertionError(f"SQL found a pattern that matches {row}, and this did not")


def bound_of(pattern: Row, column: str) -> Bound | None:
    """Return the bound that a pattern puts on a column; `None` if it does not restrict the column."""
    parts = {part: pattern[f"{key_column(column)}_{part}"] for part in _PARTS}
    if parts["low_open"] is None:
        return None
    among = parts.pop("among")
    return Bound(None if among is None else frozenset(among), **parts)

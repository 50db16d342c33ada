"""How many rows a join may hold, recomputed by DuckDB from its input and what `endmark validate` says."""

from __future__ import annotations

from typing import NamedTuple

import duckdb
import pyarrow as pa

from endmark.pipeline.boundedness import State


class Element(NamedTuple):
    """A row, or if `closes` the punctuation of its key."""

    microseconds: int
    side: int
    key: int
    closes: bool


_ALLOWED = """
WITH closings AS (SELECT side, key, min(batch) AS batch FROM elements WHERE closes GROUP BY ALL),
steps AS (
    SELECT side, batch, max(max(microseconds)) OVER (PARTITION BY side ORDER BY batch) AS microseconds
    FROM elements WHERE NOT closes GROUP BY side, batch
),
closed AS (
    SELECT elements.number, closings.batch FROM elements JOIN bounds USING (side) JOIN closings
    ON bounds.closed AND closings.side <> elements.side AND closings.key = elements.key
),
past AS (
    SELECT elements.number, min(steps.batch) AS batch FROM elements JOIN bounds USING (side) JOIN steps
    ON steps.side <> elements.side AND steps.microseconds > elements.microseconds + bounds.span
    GROUP BY elements.number
),
lives AS (
    SELECT elements.batch AS first, least(closed.batch, past.batch) AS gone FROM elements
    LEFT JOIN closed USING (number) LEFT JOIN past USING (number) WHERE NOT elements.closes
)
SELECT
    (SELECT count(*) FROM lives WHERE first <= batches.batch),
    (SELECT count(*) FROM lives WHERE first <= batches.batch AND (gone IS NULL OR gone > batches.batch))
FROM range(?) AS batches(batch) ORDER BY batches.batch
"""


def recomputed(batches: list[list[Element]], bounds: tuple[State, State]) -> tuple[list[int], list[int]]:
    """After each batch: rows that arrived, and those that no bound has ended."""
    numbered = [(number, each) for number, batch in enumerate(batches) for each in batch]
    elements = pa.table(
        {
            "number": range(len(numbered)),
            "batch": [number for number, _ in numbered],
            **{name: [getattr(each, name) for _, each in numbered] for name in Element._fields},
        }
    )
    windows = [
        [b.window_seconds for b in state.bounded_by if b.window_seconds is not None] for state in bounds
    ]
    with duckdb.connect() as connection:
        connection.register("elements", elements)
        connection.execute("CREATE TABLE bounds (side BIGINT, closed BOOLEAN, span BIGINT)")
        for side, state in enumerate(bounds):
            closed = any(bound.closed_by for bound in state.bounded_by)
            window = round(1_000_000 * min(windows[side])) if windows[side] else None
            connection.execute("INSERT INTO bounds VALUES (?, ?, ?)", [side, closed, window])
        found = connection.execute(_ALLOWED, [len(batches)]).fetchall()
    return [arrived for arrived, _ in found], [allowed for _, allowed in found]

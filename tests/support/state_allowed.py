"""How many rows a join may hold, recomputed by DuckDB from its input and what `endmark validate` says."""

from __future__ import annotations

from collections.abc import Sequence
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
events AS (
    SELECT elements.number, needs.bound, needs.other, closings.batch
    FROM elements JOIN needs USING (side) LEFT JOIN closings
    ON closings.side = needs.other AND closings.key = elements.key
    WHERE needs.span IS NULL
    UNION ALL
    SELECT elements.number, needs.bound, needs.other, min(steps.batch)
    FROM elements JOIN needs USING (side) LEFT JOIN steps
    ON steps.side = needs.other AND steps.microseconds > elements.microseconds + needs.span
    WHERE needs.span IS NOT NULL GROUP BY ALL
),
ended AS (
    SELECT number, max(batch) AS batch FROM events GROUP BY number, bound HAVING count(batch) = count(*)
),
lives AS (
    SELECT elements.batch AS first, min(ended.batch) AS gone
    FROM elements LEFT JOIN ended USING (number) WHERE NOT elements.closes
    GROUP BY elements.number, elements.batch
)
SELECT
    (SELECT count(*) FROM lives WHERE first <= batches.batch),
    (SELECT count(*) FROM lives WHERE first <= batches.batch AND (gone IS NULL OR gone > batches.batch))
FROM range(?) AS batches(batch) ORDER BY batches.batch
"""


def recomputed(
    batches: list[list[Element]], sides: Sequence[str], bounds: Sequence[State]
) -> tuple[list[int], list[int]]:
    """Return two counts after each batch: rows that arrived, and rows that none of their bounds has ended.

    Args:
        batches: the input.
        sides: the name of each side.
        bounds: the state of each side, with its bounds.
    """
    numbered = [(number, each) for number, batch in enumerate(batches) for each in batch]
    elements = pa.table(
        {
            "number": range(len(numbered)),
            "batch": [number for number, _ in numbered],
            **{name: [getattr(each, name) for _, each in numbered] for name in Element._fields},
        }
    )
    with duckdb.connect() as connection:
        connection.register("elements", elements)
        connection.execute("CREATE TABLE needs (side BIGINT, bound BIGINT, other BIGINT, span BIGINT)")
        for side, state in enumerate(bounds):
            for number, bound in enumerate(state.bounded_by):
                needs: list[tuple[int, int | None]] = [
                    (sides.index(other), None) for other in bound.closed_by
                ]
                if bound.window_seconds is not None:
                    span = round(1_000_000 * bound.window_seconds)
                    needs += [(sides.index(other), span) for other in bound.progress_of]
                for need in needs:
                    connection.execute("INSERT INTO needs VALUES (?, ?, ?, ?)", [side, number, *need])
        found = connection.execute(_ALLOWED, [len(batches)]).fetchall()
    return [arrived for arrived, _ in found], [allowed for _, allowed in found]

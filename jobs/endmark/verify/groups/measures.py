"""The measures of a group in SQL.

A sum of doubles is exact and rounded once. DuckDB's own sum is not, so `Session` has a function for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from endmark.domain import Domain
from endmark.pipeline import COORDINATES, Measure, Pipeline
from endmark.types import ColumnType
from endmark.verify.session import fill, name

_EXACT = "exact_sum(list($value) FILTER ($value IS NOT NULL))"


@dataclass(frozen=True)
class Function:
    """A function of measures in SQL. `$value` is its column, and `$place` lists the columns that order rows.

    Args:
        sql: the expression for columns of any type.
        own: the expressions for types that need another one.
        back: the operator that is true between a later and an earlier value if a running group went back;
            `None` if values may go up and down.
    """

    sql: str
    own: Mapping[Domain, str] = field(default_factory=dict)
    back: str | None = None


FUNCTIONS = {
    "count": Function("count(*)", back="<"),
    "sum": Function("sum($value)", {Domain.LONG: "try_cast(sum($value) AS BIGINT)", Domain.DOUBLE: _EXACT}),
    "min": Function("min($value)", back=">"),
    "max": Function("max($value)", back="<"),
    # The cast through text gives the nearest double; a direct cast may be one double off.
    "avg": Function(
        "sum($value)::VARCHAR::DOUBLE / count($value)", {Domain.DOUBLE: f"{_EXACT} / count($value)"}
    ),
    "first": Function("first($value ORDER BY $place, $value) FILTER ($value IS NOT NULL)"),
    "last": Function("last($value ORDER BY $place, $value) FILTER ($value IS NOT NULL)"),
    "count_distinct": Function("count(DISTINCT $value)", back="<"),
    "sorted": Function("coalesce(list($value ORDER BY $value) FILTER ($value IS NOT NULL), [])"),
}


def over(measure: Measure, types: Mapping[str, ColumnType]) -> str:
    """Return the SQL expression of a measure that goes by no place, over columns of some types."""
    function = FUNCTIONS[measure.function]
    if measure.column is None:
        return function.sql
    own = function.own.get(types[measure.column].domain, function.sql)
    return fill(own, value=name(measure.column))


def expression(pipeline: Pipeline, measure: Measure) -> str:
    """Return the SQL expression of a measure, over the columns of results."""
    function = FUNCTIONS[measure.function]
    if measure.column is None:
        return function.sql
    stream = pipeline.timed_by(pipeline.references.resolved(measure.column)[0])
    place = [pipeline.inputs[stream].event_time.column, *COORDINATES]
    return fill(
        function.own.get(pipeline.references.type_of(measure.column).domain, function.sql),
        value=name(pipeline.references.result_column(measure.column)),
        place=", ".join(name(f"{stream}_{each}") for each in place),
    )

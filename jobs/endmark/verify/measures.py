"""Measures in SQL, over all results of a group.

A sum of doubles is exact and rounded once, which DuckDB's own is not: `Session` has a function for it.
"""

from __future__ import annotations

from endmark.pipeline import COORDINATES, Measure, Pipeline
from endmark.types import Kind
from endmark.verify.session import fill, name

# Text is read as the nearest double; other casts may be one off.
_TEMPLATES = {
    "count_distinct": "count(DISTINCT $value)",
    "first": "first($value ORDER BY $place, $value) FILTER ($value IS NOT NULL)",
    "last": "last($value ORDER BY $place, $value) FILTER ($value IS NOT NULL)",
    "sorted": "coalesce(list($value ORDER BY $value) FILTER ($value IS NOT NULL), [])",
    "sum": "sum($value)",
    "avg": "sum($value)::VARCHAR::DOUBLE / count($value)",
}
_OF_LONGS = {"sum": "try_cast(sum($value) AS BIGINT)"}
_OF_DOUBLES = {
    "sum": "exact_sum(list($value) FILTER ($value IS NOT NULL))",
    "avg": "exact_sum(list($value) FILTER ($value IS NOT NULL)) / count($value)",
}


def expression(pipeline: Pipeline, measure: Measure) -> str:
    """Return the SQL of a measure over the columns of results."""
    if measure.column is None:
        return "count(*)"
    origin, _, column = measure.column.partition(".")
    stream = pipeline.stream_of(origin)
    place = [pipeline.streams[stream].event_time.column, *COORDINATES]
    if origin in pipeline.relations and column in (key := pipeline.relations[origin].key):
        # R's key is not repeated in the results: the stream's own key column equals it.
        origin, column = stream, pipeline.lookup_in(origin).key[key.index(column)]
    kind = pipeline.type_of(measure.column).kind
    own = {Kind.LONG: _OF_LONGS, Kind.DOUBLE: _OF_DOUBLES}.get(kind, {})
    return fill(
        {**_TEMPLATES, **own}.get(measure.function, f"{measure.function}($value)"),
        value=name(f"{origin}_{column}"),
        place=", ".join(name(f"{stream}_{each}") for each in place),
    )

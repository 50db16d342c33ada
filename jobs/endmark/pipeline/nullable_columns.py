"""The columns of results, rows and groups, each nullable if a value may be null there.

Tables have nulls in all columns. A stream of another pipeline says which of its columns may have some.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from endmark.pipeline.groups import ResultGroups
from endmark.pipeline.measures import FUNCTIONS
from endmark.pipeline.rollup import Rollup
from endmark.pipeline.sources import COORDINATES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from endmark.pipeline.groups import Groups
    from endmark.pipeline.stage import Stage
    from endmark.pipeline.steps.aggregate import Measure
    from endmark.types import ColumnType

_NEVER_NULL = ("count", "count_distinct", "sorted")


def columns_of_results(stage: Stage) -> Iterator[tuple[str, ColumnType]]:
    """Yield the columns of results, which are nullable if a result may have a null there."""
    joined = dict(_joined_columns(stage))
    for name, kind in stage.columns.of_results:
        before = joined.get(name)  # None: a row step behind the join has derived it
        present = before is not None and before.required == kind and not before.nullable
        yield name, replace(kind, nullable=not present)


def _joined_columns(stage: Stage) -> Iterator[tuple[str, ColumnType]]:
    """Yield the columns of results in front of the row steps of the join, as `columns_of_results` does."""
    for given in stage.shown_inputs:
        columns = stage.columns.of(given)
        absent = given not in stage.present_inputs
        if stage.earlier is not None and given == stage.derived:
            known = dict(columns_of_results(stage.earlier))
            found = [(name, known.get(name, replace(kind, nullable=True))) for name, kind in columns]
        else:
            own = stage.pipeline.stream_columns(given)
            found = list(columns_of_rows(stage, given, own, columns))
        for name, kind in found:
            yield name, replace(kind, nullable=True) if absent else kind


def columns_of_rows(
    stage: Stage, stream: str, own: Mapping[str, ColumnType], columns: Sequence[tuple[str, ColumnType]]
) -> Iterator[tuple[str, ColumnType]]:
    """Yield columns of rows of a stream, which are nullable if a row may have a null there.

    Args:
        stage: the stage of the stream.
        stream: the stream.
        own: the stream's own columns.
        columns: all columns by their names in results, with those of relations.
    """
    present = {f"{stream}_{name}" for name, kind in own.items() if not kind.nullable}
    present |= {*stage.key_columns(stream), *(f"{stream}_{name}" for name in COORDINATES)}
    for name, kind in columns:
        yield name, replace(kind, nullable=name not in present)


def columns_of_groups(groups: Groups) -> dict[str, ColumnType]:
    """Return the columns of groups, which are nullable if a group may have a null there."""
    given = _grouped(groups)
    found = {}
    for name, kind in groups.columns().items():
        measure = groups.aggregate.measures.get(name)
        nullable = _may_be_null(measure, given) if measure else name not in given
        found[name] = replace(kind, nullable=nullable)
    return found


def _grouped(groups: Groups) -> set[str]:
    """Return the columns that an aggregate takes and no row has a null in, as the aggregate names them."""
    pipeline = groups.pipeline
    if isinstance(groups, Rollup):
        return {name for name, kind in columns_of_groups(groups.of).items() if not kind.nullable}
    present = {name for name, kind in columns_of_results(pipeline.last_stage) if not kind.nullable}
    measured = {measure.column for measure in groups.aggregate.measures.values() if measure.column}
    found = {column for column in measured if pipeline.references.result_column(column) in present}
    if isinstance(groups, ResultGroups):
        found |= {name for name, sources in groups.sources.items() if present.issuperset(sources)}
    return found


def _may_be_null(measure: Measure, given: Collection[str]) -> bool:
    """Return whether a measure may be null: without values, or because its type has no such number."""
    if measure.function in _NEVER_NULL:
        return False
    return FUNCTIONS[measure.function].adds or measure.column not in given

"""The plans of aggregates: plain values of a pipeline that are sent to each task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from endmark.operators.group_by.group_by import KeyColumn
from endmark.operators.group_by.measures import coordinates
from endmark.pipeline import COORDINATES
from endmark.pipeline.measures import FUNCTIONS
from endmark.pipeline.tables import final_role, running_role

if TYPE_CHECKING:
    from endmark.operators.group_by.measures import MeasureSpec
    from endmark.pipeline import Measure, Pipeline
    from endmark.pipeline.groups import Groups, ResultGroups
    from endmark.pipeline.rollup import Rollup


@dataclass(frozen=True)
class GroupPlan:
    """The plan of one aggregate: groups of a join's results, or groups of final groups.

    Args:
        step: the name of the aggregate.
        keys: the columns of the group key.
        measures: the measures.
        columns: the columns of the groups table, in order.
        running: whether each batch puts out the groups that it has changed.
        final: whether groups are put out when they are closed.
        by_time: whether progress makes groups by derived times final.
    """

    step: str
    keys: list[KeyColumn]
    measures: list[MeasureSpec]
    columns: list[str]
    running: bool = False
    final: bool = True
    by_time: bool = False

    @property
    def final_channel(self) -> str:
        """The channel of final groups."""
        return final_role(self.step)

    @property
    def running_channel(self) -> str:
        """The channel of groups that a batch has changed."""
        return running_role(self.step)


def group_plans(pipeline: Pipeline) -> tuple[GroupPlan, ...]:
    """Make the plans of a pipeline's aggregates by the join key."""
    stage = pipeline.last_stage
    # Results of a semi join have no right columns. They always have the key on the left.
    sources = zip(*(stage.key_columns(given) for given in stage.shown_inputs), strict=True)
    keys = [
        KeyColumn(name, kind.arrow, tuple(columns))
        for (name, kind), columns in zip(stage.key_types.items(), sources, strict=True)
    ]
    return tuple(grouped_by(groups, keys) for groups in pipeline.groups if not groups.regroups)


def grouped_by(groups: ResultGroups, keys: list[KeyColumn]) -> GroupPlan:
    """Make the plan of an aggregate of results, given the columns of its key."""
    columns = groups.columns()
    measures = [
        FUNCTIONS[measure.function].implementation()(
            name, kind=columns[name].arrow, **_source(groups.pipeline, measure)
        )
        for name, measure in groups.aggregate.measures.items()
    ]
    return _group_plan(groups, keys, measures)


def rolled_up(rollup: Rollup) -> GroupPlan:
    """Make the plan of an aggregate of final groups."""
    given, columns = rollup.of.columns(), rollup.columns()
    keys = [KeyColumn(name, columns[name].arrow, (name,), nullable=True) for name in rollup.key]
    measures = [
        FUNCTIONS[measure.function].implementation()(
            name,
            kind=columns[name].arrow,
            column=measure.column,
            **({} if measure.column is None else {"of": given[measure.column].arrow, "order": ()}),
        )
        for name, measure in rollup.aggregate.measures.items()
    ]
    return _group_plan(rollup, keys, measures)


def _group_plan(groups: Groups, keys: list[KeyColumn], measures: list[MeasureSpec]) -> GroupPlan:
    return GroupPlan(
        groups.step,
        keys,
        measures,
        list(groups.columns()),
        running=groups.is_running,
        final=groups.is_final,
        by_time=groups.end_by_time,
    )


def _source(pipeline: Pipeline, measure: Measure) -> dict[str, Any]:
    """Return the arguments of a measure that describe its input column."""
    if measure.column is None:
        return {"column": None}
    stream = pipeline.timed_by(pipeline.references.resolved(measure.column)[0])
    columns = (f"{stream}_{name}" for name in (pipeline.inputs[stream].event_time.column, *COORDINATES))
    return {
        "column": pipeline.references.result_column(measure.column),
        "of": pipeline.references.type_of(measure.column).arrow,
        "order": coordinates(*columns) if FUNCTIONS[measure.function].by_order else (),
    }

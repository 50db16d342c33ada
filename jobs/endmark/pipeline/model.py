"""The model of a whole pipeline: its parts, and what follows from them, such as the columns of its tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from endmark.pipeline.batch import Batch
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Pinned
from endmark.pipeline.checks.sound import require_sound
from endmark.pipeline.control import Control
from endmark.pipeline.fields import Model, Name, PipelineName
from endmark.pipeline.flow import Flow, flow_of
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.groups import Groups, ResultGroups
from endmark.pipeline.kafka import Kafka
from endmark.pipeline.lookup_columns import LookupColumns, lookup_columns
from endmark.pipeline.outputs import Outputs
from endmark.pipeline.publish import PUBLISHING, Publish
from endmark.pipeline.references import References
from endmark.pipeline.registry import Registry
from endmark.pipeline.rollup import Rollup
from endmark.pipeline.row_steps import checked
from endmark.pipeline.sources import Relation, Stream
from endmark.pipeline.stage import Stage
from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.steps.join import JoinStep
from endmark.pipeline.steps.lookup import Lookup, LookupStep
from endmark.pipeline.steps.rows import Deduplicate, RowStep
from endmark.pipeline.steps.step import Step
from endmark.pipeline.tables import (
    TABLES,
    AnyTable,
    is_latest_role,
    step_of,
)
from endmark.pipeline.unions import united
from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

    from endmark.expressions.derived_times import DerivedTimes
    from endmark.expressions.row_steps import RowStep as CheckedRowStep


class Pipeline(Model):
    """A whole pipeline: streams, relations, the steps that rows go through, and where rows are written.

    Each step takes rows of streams or of earlier steps. Each of these feeds one step, or any number of
    aggregates. A stream goes through row steps and lookups. Several streams have a join. A stream alone has
    none: each of its rows is a result once its lookups have answered. The rows of a join may go through
    lookups and into one more join, which may have another key. Aggregates are the last steps.

    The key of a stream alone is the `by` of its first aggregate that names columns of the stream alone.
    Without one, the key is the columns of the first of these that it has: `unique`, `clustered`, `ordered`,
    `closes.on`, `punctuated_on` and the `by` of its `deduplicate`. The event time and doubles are no columns
    of a key.

    Columns keep the name of the stream or relation that they come from: a table has `<name>_<column>`. Each
    lookup has a relation of its own, so a table that is looked up twice is declared under two names. Lookups
    of a stream run side by side. A lookup by a column that an earlier one has found runs after that one. A
    row goes on when all its lookups have answered. If lookups have no match for a row, the first of them
    whose `miss` is not `nulls` decides the row's fate. State that nothing ever frees is refused, unless
    `unbounded_state` is `allow`.

    `name` may have hyphens. Names of streams, steps, relations and columns may not, since they are parts of
    names in SQL.

    `tables` has the Delta tables, each under its name. A table may be added at any start of the job, and gets
    rows from then on. The tables `dead_letters`, `violations` and `punctuations` are always written.
    `publish` has the Kafka topics that get the rows of streams and steps.
    """

    name: Annotated[
        PipelineName,
        ChangeRule(change=Change.RESTART, remark="names the control topic, unless control.topic does"),
    ]
    streams: Pinned[Annotated[dict[Name, Stream], Field(min_length=1)]]
    relations: Pinned[Annotated[dict[Name, Relation], Field(default_factory=dict)]]
    steps: Pinned[Annotated[dict[Name, Step], Field(default_factory=dict)]]
    tables: Annotated[dict[Name, AnyTable], Field(default_factory=dict), TABLES]
    publish: Annotated[dict[Name, Publish], Field(default_factory=dict), PUBLISHING]
    control: Pinned[Control] = Control()
    kafka: AtRestart[Kafka | None] = None
    registry: AtRestart[Registry | None] = None
    batch: Batch = Batch()
    unbounded_state: AtRestart[Literal["refuse", "allow"]] = "refuse"

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        require_sound(self)
        return self

    def __copy__(self) -> Self:
        """Return a copy whose fields may differ, so it has nothing that was computed from them."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    @cached_property
    def outputs(self) -> Outputs:
        """The rows that tables and topics get."""
        return Outputs(self)

    @cached_property
    def references(self) -> References:
        """The columns that fields of the file may name."""
        return References(self)

    @cached_property
    def flow(self) -> Flow:
        """The order of the steps."""
        return flow_of(self.streams, self.steps)

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages with a join or lookups, in order. The last one makes the results."""
        found: list[Stage] = []
        for steps in self.flow.stages:
            found.append(Stage(self, steps, found[-1] if found else None))
        return tuple(found)

    @property
    def last_stage(self) -> Stage:
        """The stage that makes the results."""
        return self.stages[-1]

    @cached_property
    def inputs(self) -> dict[str, Stream]:
        """The streams by name, and each union as the stream that its members make."""
        return self.streams | {
            union: united(
                {name: self.streams[name] for name in members},
                {name: self.stream_columns(name) for name in members},
            )
            for union, members in self.flow.unions.items()
        }

    @property
    def read_streams(self) -> dict[str, Stream]:
        """The streams that are read, in the order of the columns of results; members stand together."""
        flow = self.flow
        return {name: self.streams[name] for side in self.sides for name in flow.members_of(side)}

    def stage_of(self, given: str) -> Stage:
        """Return the stage that takes the rows of a stream, of a union or of an earlier join."""
        taken = self.flow.taker_of(given)
        return next(stage for stage in self.stages if taken in stage.inputs)

    def stage_with(self, step: str) -> Stage:
        """Return the stage whose rows a step makes, or has on their way to the join."""
        if step in self.flow.ends:
            return next(stage for stage in self.stages if stage.steps.end == step)
        stream, _ = self.flow.path_to(step)
        return self.stage_of(stream)

    @property
    def whole_topics(self) -> list[str]:
        """The topics whose streams take columns from keys, headers or timestamps of records."""
        return [
            stream.topic for stream in self.streams.values() if len(stream.value_paths) < len(stream.columns)
        ]

    @property
    def binary_topics(self) -> list[str]:
        """The topics of streams whose records are no text, such as those in Avro."""
        streams = self.streams.values()
        return [stream.topic for stream in streams if FORMATS[stream.format].schemas is not None]

    def deleted_on(self, stream: str) -> tuple[str, ...]:
        """Return the columns that a deletion in a change stream names; none if it has no effect.

        Under `punctuated_on` it closes the key that these columns have. Otherwise it can only remove a row
        from a table of the newest rows.
        """
        declared = self.inputs[stream]
        if not FORMATS[declared.format].deletions:
            return ()
        return declared.punctuated_on or (self.stage_of(stream).key if self.removes_rows(stream) else ())

    def removes_rows(self, stream: str) -> bool:
        """Return whether a deletion in a change stream removes a row from a table of the newest rows."""
        roles = filter(is_latest_role, self.outputs.tables_by_role)
        return FORMATS[self.inputs[stream].format].deletions and any(
            self.flow.path_to(step_of(role))[0] == stream for role in roles
        )

    @property
    def join(self) -> JoinStep | None:
        """The join that makes the results; `None` if no join does."""
        return self.last_stage.join

    @cached_property
    def groups(self) -> tuple[ResultGroups, ...]:
        """The groups of results, by each aggregate that takes these."""
        steps = {name: self.steps[name] for name in self.flow.groups}
        return tuple(
            ResultGroups(self, name, step.aggregate)
            for name, step in steps.items()
            if isinstance(step, AggregateStep)
        )

    @cached_property
    def rollups(self) -> tuple[Rollup, ...]:
        """The groups of final groups, by each aggregate that takes these."""
        steps = {name: self.steps[name] for name in self.flow.rollups}
        return tuple(
            Rollup(self, name, step.aggregate, of)
            for name, step in steps.items()
            if isinstance(step, AggregateStep)
            for of in self.groups
            if of.step == step.source
        )

    @property
    def all_groups(self) -> tuple[Groups, ...]:
        """The groups of all aggregates, those of results first."""
        return (*self.groups, *self.rollups)

    def groups_of(self, role: str) -> Groups:
        """Return the groups of an aggregate, given the kind of its rows."""
        return next(groups for groups in self.all_groups if groups.step == step_of(role))

    @property
    def regrouped(self) -> tuple[ResultGroups, ...]:
        """The groups of results that have another key than these, and so a stage of their own."""
        return tuple(groups for groups in self.groups if groups.regroups)

    @cached_property
    def derived_times(self) -> dict[str, DerivedTimes]:
        """The columns of group keys that are derived times of an input of the last stage, by input.

        Its progress makes groups final.
        """
        stage, found = self.last_stage, dict[str, "DerivedTimes"]()
        keyed = {column for groups in self.groups if groups.end_by_time for column in groups.equals}
        if not keyed or not stage.announces:
            return found
        for given in stage.shown_inputs:
            stream = stage.timed_by(given)
            names = {
                column.removeprefix(f"{stream}_"): column
                for column in sorted(keyed)
                if column.startswith(f"{stream}_")
            }
            steps = [self.row_steps_of(member) for member in self.flow.members_of(stream)]
            if all(steps) and names:
                # Most pipelines have no row steps, and are checked without Arrow and DuckDB.
                from endmark.expressions.derived_times import DerivedTimes

                times = DerivedTimes.of(self.inputs[stream].event_time.column, steps, names)
                found |= {given: times} if times is not None else {}
        return found

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """All lookups, those of one input in the order in which its rows go through them."""
        inputs = [given for stage in self.stages for given in stage.inputs]
        return tuple(lookup for given in inputs for lookup in self.lookups_of(given))

    def field_of(self, lookup: Lookup) -> str:
        """Return the field of a lookup in the pipeline file, such as `steps.known.lookup`."""
        step = next(
            name
            for name, step in self.steps.items()
            if isinstance(step, LookupStep) and step.lookup is lookup
        )
        return f"steps.{step}.lookup"

    def window_of(self, stream: str) -> timedelta | None:
        """Return the event time for which a row of a stream stays joinable; `None` is for ever."""
        return self.stage_of(stream).window_of(stream)

    def lookups_of(self, given: str) -> list[Lookup]:
        """Return the lookups of an input of a stage, in the order in which its rows go through them."""
        steps = (self.steps[name] for name in self.flow.paths[given])
        return [step.lookup for step in steps if isinstance(step, LookupStep)]

    def row_steps_of(self, stream: str) -> tuple[CheckedRowStep, ...]:
        """Return the row steps of a stream in front of its lookups, in order.

        Raises:
            ConfigError: one of them is wrong.
        """
        return checked(stream, self._declared(stream), self._first_steps(self.flow.paths[stream]))

    def _first_steps(self, path: tuple[str, ...]) -> dict[str, RowStep]:
        """Return the row steps with which the path of a stream begins, in front of lookups."""
        found: dict[str, RowStep] = {}
        for name in path:
            step = self.steps[name]
            if not isinstance(step, RowStep):
                break
            found[name] = step
        return found

    def deduplicate_of(self, stream: str) -> tuple[str, Deduplicate] | None:
        """Return the step that deduplicates a stream, and how; `None` without one."""
        path = (*self.flow.behind_unions.get(stream, ()), *self.flow.paths[stream])
        steps = self._first_steps(path).items()
        found = ((name, step.deduplicate) for name, step in steps if step.deduplicate is not None)
        return next(found, None)

    def stream_columns(self, stream: str) -> dict[str, ColumnType]:
        """Return the columns of a stream behind its row steps."""
        steps = self.row_steps_of(stream)
        return dict(steps[-1].columns if steps else self._declared(stream).value_types)

    def _declared(self, name: str) -> Stream:
        """Return a stream or a union as a stream."""
        return self.streams[name] if name in self.streams else self.inputs[name]

    def row_columns(self, name: str) -> dict[str, ColumnType]:
        """Return the stream's columns of the rows of a stream or of a step in front of the join."""
        stream, path = self.flow.path_to(name)
        found = checked(stream, self._declared(stream), self._first_steps(path))
        return dict(found[-1].columns if found else self._declared(stream).value_types)

    def asked_by(self, lookup: Lookup) -> LookupColumns:
        """Return the columns by which a lookup asks."""
        if lookup.relation not in self._asked_columns:
            self._asked_columns[lookup.relation] = lookup_columns(self, lookup)
        return self._asked_columns[lookup.relation]

    @cached_property
    def _asked_columns(self) -> dict[str, LookupColumns]:
        """The columns by which each relation is asked, as far as they were needed."""
        return {}

    def lookup_in(self, relation: str) -> Lookup:
        """Return the lookup that asks a relation."""
        return next(lookup for lookup in self.lookups if lookup.relation == relation)

    @property
    def sides(self) -> tuple[str, ...]:
        """The streams in the order of the columns of results. A union stands for its members."""
        return self.last_stage.sides

    @property
    def shown(self) -> tuple[str, ...]:
        """The streams whose columns results have."""
        return self.last_stage.shown

    @property
    def present(self) -> tuple[str, ...]:
        """The streams that have a row in every result."""
        return self.last_stage.present

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the key of results: of the last join, or of the key of a stream alone."""
        return self.last_stage.key

    @property
    def key_types(self) -> dict[str, ColumnType]:
        """The types of the key's columns, by name."""
        return self.last_stage.key_types

    def restricted(self, stream: str, among: Collection[str]) -> tuple[str, ...]:
        """Return those of some columns that promises of a stream restrict, if all of its members do so.

        Args:
            stream: a stream or a union.
            among: columns of it.
        """
        first, *others = (self.streams[name] for name in self.flow.members_of(stream))
        return tuple(
            column
            for column in first.restricted(among)
            if all(column in other.restricted(among) for other in others)
        )

    @property
    def control_topic(self) -> str:
        """The name of the control topic: the declared one, or `<name>-control`."""
        return self.control.topic or f"{self.name}-control"

    def closes_keys(self, stream: str) -> bool:
        """Return whether a stream can close keys, by punctuations or by a declaration."""
        return self.stage_of(stream).promises.closes_keys(stream)

    def side_columns(self, stream: str) -> dict[str, ColumnType]:
        """Return the columns of a stream or union behind its lookups, named as in `StageColumns.of`."""
        return dict(self.stage_of(stream).columns.of(stream))

    def result_columns(self) -> dict[str, ColumnType]:
        """Return the columns of the results table. A semi join has those of the left input alone."""
        return dict(self.last_stage.columns.of_results)

    def stream_of(self, origin: str) -> str:
        """Return the stream of a name: the stream itself, or the one whose lookup asks the relation.

        It is the name of a join if the rows of this join are looked up.
        """
        inputs = [given for stage in self.stages for given in stage.inputs]
        asking = (given for given in inputs for each in self.lookups_of(given) if each.relation == origin)
        return next(asking, origin)

    def timed_by(self, origin: str) -> str:
        """Return the stream whose event time and coordinates are those of rows from a stream or relation.

        Args:
            origin: a stream, a relation, or a join for the columns that row steps behind it derive.
        """
        for stage in self.stages:
            if origin == stage.steps.join:
                return stage.timed_by(stage.inputs[0])
        given = self.stream_of(origin)
        return self.stage_of(given).timed_by(given)

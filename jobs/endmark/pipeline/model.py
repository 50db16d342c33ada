"""The model of a whole pipeline: its parts, and what follows from them, such as the columns of its tables."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from endmark.pipeline.batch import Batch
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Pinned
from endmark.pipeline.checks import require_sound
from endmark.pipeline.control import Control
from endmark.pipeline.fields import Model, Name, PipelineName, require_name
from endmark.pipeline.flow import Flow, flow_of
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.groups import RUNNING, Groups, ResultGroups
from endmark.pipeline.kafka import Kafka
from endmark.pipeline.lookup_columns import LookupColumns, lookup_columns
from endmark.pipeline.publish import PUBLISHING, Publish
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
    FINAL,
    RESERVED,
    TABLES,
    AnyTable,
    Table,
    final_role,
    group_role,
    is_group_role,
    is_latest_role,
    is_running_role,
    is_step_role,
    latest_role,
    running_role,
    step_of,
    step_role,
)
from endmark.pipeline.unions import united
from endmark.types import ColumnType

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import timedelta

    from endmark.derived_times import DerivedTimes
    from endmark.row_steps import RowStep as CheckedRowStep


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

    def role_of(self, name: str, table: Table) -> str:
        """Return the kind of a table's rows: `results`, `groups`, `running`, or that of a step's rows."""
        source, flow = table.source or name, self.flow
        field = f"tables.{name}.from" if table.source else f"tables.{name}"
        require_name({**self.steps, **self.streams}, source, field, "steps or streams")
        if isinstance(self.steps.get(source), AggregateStep):
            return group_role(source, table.mode)
        if table.mode == "upsert" and flow.stands_before_joins(source):
            return latest_role(source)
        if table.mode != "append":
            raise ValueError(
                f"tables.{name}.mode: {table.mode} is for the groups of an aggregate; rows of {source} are "
                "never replaced, so leave it out"
            )
        return self._role_of_rows(source)

    def _role_of_rows(self, source: str) -> str:
        """Return the kind of the rows of a stream or of a step that is no aggregate."""
        return "results" if source == self.flow.results else step_role(source)

    def columns_of(self, role: str) -> dict[str, ColumnType]:
        """Return the columns of a table, given the kind of its rows."""
        if role == "results":
            return self.result_columns()
        if is_group_role(role):
            groups = self.groups_of(role)
            return groups.columns() if role == groups.final_role else groups.running_columns()
        return dict(self._behind(step_of(role)))

    def topic_columns(self, role: str) -> dict[str, ColumnType]:
        """Return the columns of a topic, given the kind of its rows. Headers have the number of the batch."""
        if is_running_role(role):
            return self.groups_of(role).columns() | {FINAL: ColumnType.BOOLEAN}
        return self.columns_of(role)

    def column_names(self) -> dict[str, list[str]]:
        """Return the names of columns by the field of each table and topic. A name may stand twice."""
        found = {f"tables.{self.directories[role]}": self._names(role, RUNNING) for role in self.laid_out}
        for step in self.publish:
            found[f"publish.{step}"] = self._names(self.published_role(step), [FINAL])
        return found

    def _names(self, role: str, of_running: Iterable[str]) -> list[str]:
        """Return the names of columns, given the kind of rows and the further names of groups so far."""
        if role == "results":
            return [name for name, _ in self.last_stage.columns]
        if is_group_role(role):
            groups = self.groups_of(role)
            further = of_running if is_running_role(role) else ()
            return [*groups.key, *groups.aggregate.measures, *further]
        return [name for name, _ in self._behind(step_of(role))]

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
    def laid_out(self) -> dict[str, Table]:
        """The tables of steps by the kind of their rows: first those of the last steps."""
        found = {self.role_of(name, table): table for name, table in self.tables.items()}
        made = [role for step in self.flow.aggregates for role in (final_role(step), running_role(step))]
        last = [role for role in ("results", *made) if role in found]
        return {role: found[role] for role in [*last, *(role for role in found if role not in last)]}

    @property
    def directories(self) -> dict[str, str]:
        """The directory of each table under the warehouse, by the kind of its rows."""
        found = {self.role_of(name, table): name for name, table in self.tables.items()}
        return {role: found[role] for role in self.laid_out} | {name: name for name in RESERVED}

    @property
    def output_topics(self) -> dict[str, str]:
        """The topics that rows are published to, by the kind of the rows."""
        return {self.published_role(step): published.topic for step, published in self.publish.items()}

    def published_role(self, step: str) -> str:
        """Return the kind of the rows that the topic of a published step gets."""
        if isinstance(self.steps.get(step), AggregateStep):
            return group_role(step, self.publish[step].mode)
        return self._role_of_rows(step)

    @property
    def written_roles(self) -> frozenset[str]:
        """The kinds of rows that tables or topics get."""
        return frozenset([*self.laid_out, *self.output_topics])

    @property
    def step_roles(self) -> tuple[str, ...]:
        """The kinds of rows that tables and topics get of streams and steps in front of the last ones."""
        return tuple(filter(is_step_role, dict.fromkeys([*self.laid_out, *self.output_topics])))

    def key_of(self, role: str) -> tuple[str, ...]:
        """Return the columns by which a table is upserted, given the kind of its rows; none if it is not."""
        table = self.laid_out.get(role)
        if table is None or table.mode != "upsert":
            return ()
        if not is_latest_role(role):
            return self.groups_of(role).key
        stream, _ = self.flow.path_to(step_of(role))
        return tuple(f"{stream}_{column}" for column in table.key)

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
        roles = filter(is_latest_role, self.laid_out)
        return FORMATS[self.inputs[stream].format].deletions and any(
            self.flow.path_to(step_of(role))[0] == stream for role in roles
        )

    @property
    def shows_results(self) -> bool:
        """True if results are written to a table or published."""
        return "results" in self.written_roles

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
                from endmark.derived_times import DerivedTimes

                times = DerivedTimes.of(self.inputs[stream].event_time.column, steps, names)
                found |= {given: times} if times is not None else {}
        return found

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """All lookups, those of one input in the order in which its rows go through them."""
        inputs = [given for stage in self.stages for given in stage.inputs]
        return tuple(lookup for given in inputs for lookup in self.lookups_of(given))

    def place_of(self, lookup: Lookup) -> str:
        """Return the place of a lookup in the pipeline file."""
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
        return self.stage_of(stream).closes_keys(stream)

    def side_columns(self, stream: str) -> dict[str, ColumnType]:
        """Return the columns of a stream or union behind its lookups, named as in `Stage.columns_of`."""
        return dict(self.stage_of(stream).columns_of(stream))

    def _behind(self, name: str) -> list[tuple[str, ColumnType]]:
        """Return the columns of the rows of a stream or of a step in front of the results."""
        stage = self.stage_with(name)
        return stage.columns if name == stage.steps.end else stage.columns_behind(name)

    def result_columns(self) -> dict[str, ColumnType]:
        """Return the columns of the results table. A semi join has those of the left input alone."""
        return dict(self.last_stage.columns)

    def stream_of(self, origin: str) -> str:
        """Return the stream of a name: the stream itself, or the one whose lookup asks the relation.

        It is the name of a join if the rows of this join are looked up.
        """
        inputs = [given for stage in self.stages for given in stage.inputs]
        asking = (given for given in inputs for each in self.lookups_of(given) if each.relation == origin)
        return next(asking, origin)

    def resolved(self, reference: str) -> tuple[str, str]:
        """Return the stream or relation of a column, and its name.

        Args:
            reference: `stream.column`, `relation.column`, or `column` if only one of these has it.

        Raises:
            ValueError: none of them has such a column, or several have.
        """
        origin, dot, column = reference.partition(".")
        if dot:
            return origin, column
        found = [name for name, columns in self.origins.items() if reference in columns]
        if len(found) > 1:
            several = ", ".join(f"{name}.{reference}" for name in found)
            raise ValueError(f"{reference!r} may be one of {several}; write the one that is meant")
        if not found:
            there = ", ".join(f"{name}.{column}" for name, of in self.origins.items() for column in of)
            raise ValueError(f"no column {reference!r}; there are {there}")
        return found[0], reference

    def result_column(self, reference: str) -> str:
        """Return the column of results that a reference names, such as `customers_country`."""
        return "_".join(self.asked_column(reference))

    def asked_column(self, reference: str) -> tuple[str, str]:
        """Return the origin and name of a column, where the column that asked R stands for R's key.

        Args:
            reference: the column, named as in `resolved`.
        """
        return self._asked(*self.resolved(reference))

    def _asked(self, origin: str, column: str) -> tuple[str, str]:
        if origin in self.relations and column in (key := self.relations[origin].key):
            return self.asked_by(self.lookup_in(origin)).key[key.index(column)]
        return origin, column

    def type_of(self, reference: str) -> ColumnType:
        """Return the type of a column, named as in `resolved`."""
        origin, column = self.resolved(reference)
        return self.origins[origin][column].required

    @cached_property
    def origins(self) -> Mapping[str, Mapping[str, ColumnType]]:
        """The columns that results may have, by the stream, relation or join that they come from."""
        members = {name for members in self.flow.unions.values() for name in members}
        inputs = [name for name in self.inputs if name not in members]
        found = {name: self.stage_of(name).origins_behind(name)[name] for name in inputs}
        found |= {name: dict(relation.columns) for name, relation in self.relations.items()}
        found |= {
            str(stage.steps.join): derived for stage in self.stages if (derived := stage.derived_columns)
        }
        lost = {column for stage in self.stages for column in stage.lost}
        if not lost:
            return found
        return {
            origin: {name: kind for name, kind in columns.items() if self._asked(origin, name) not in lost}
            for origin, columns in found.items()
        }

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

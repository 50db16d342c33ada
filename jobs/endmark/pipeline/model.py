"""The model of a whole pipeline: its parts, the columns of its tables, and the checks across its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from endmark.domain import Domain
from endmark.operators.stream_join.presets import PRESETS, Preset, Propagation
from endmark.pipeline.asked import Asked, asked
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Pinned
from endmark.pipeline.fields import Model, Name, require_column, require_key_column, require_name
from endmark.pipeline.flow import Flow, flow_of
from endmark.pipeline.row_steps import checked
from endmark.pipeline.sources import COORDINATES, Relation, Stream
from endmark.pipeline.steps import (
    PUBLISHING,
    Aggregate,
    AggregateStep,
    Batch,
    Control,
    JoinStep,
    Lookup,
    LookupStep,
    Measure,
    Publish,
    RowStep,
    Step,
)
from endmark.pipeline.tables import FINAL, RESERVED, AnyTable, Table, require_layout
from endmark.types import ColumnType, JoinType

if TYPE_CHECKING:
    from datetime import timedelta

    from endmark.row_steps import RowStep as CheckedRowStep

_RUNNING = {FINAL: ColumnType.BOOLEAN, "batch": ColumnType.LONG}


class Pipeline(Model):
    """A whole pipeline: streams, relations, the steps that rows go through, and where rows are written.

    Each step takes rows of streams or of earlier steps, and each of these feeds one step. A stream goes
    through its row steps first, and then through its lookups. Two streams have a join. A stream alone has
    none: each of its rows is a result once its lookups have answered. An aggregate is the last step. The key
    of a stream alone is the `by` of its aggregate. Without an aggregate, the key is the columns of the first
    of these that it has: `unique`, `clustered`, `ordered`, `closes.on` and `punctuated_on`. The event time
    and doubles are no columns of a key.

    Columns keep the name of the stream or relation that they come from: a table has `<name>_<column>`. Each
    lookup has a relation of its own, so a table that is looked up twice is declared under two names. Lookups
    of a stream run side by side, up to one that asks by a column of theirs. A row goes on when all have
    answered. If lookups have no match for a row, the first of them whose `miss` is not `nulls` decides its
    fate. State that nothing ever frees is refused, unless `unbounded_state` is `allow`.

    `tables` has the Delta tables, each under its name. The tables `dead_letters`, `violations` and
    `punctuations` are always written. `publish` has the Kafka topics that get the rows of steps.
    """

    name: Annotated[
        Name,
        ChangeRule(change=Change.RESTART, remark="names the control topic, unless control.topic does"),
    ]
    streams: Pinned[Annotated[dict[Name, Stream], Field(min_length=1)]]
    relations: Pinned[Annotated[dict[Name, Relation], Field(default_factory=dict)]]
    steps: Pinned[Annotated[dict[Name, Step], Field(default_factory=dict)]]
    tables: Pinned[Annotated[dict[Name, AnyTable], Field(default_factory=dict)]]
    publish: Annotated[dict[Name, Publish], Field(default_factory=dict), PUBLISHING]
    control: Pinned[Control] = Control()
    batch: Batch = Batch()
    unbounded_state: AtRestart[Literal["refuse", "allow"]] = "refuse"

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        self._check_inputs()
        topics = [stream.topic for stream in self.streams.values()]
        if len(set(topics)) != len(topics):
            raise ValueError(f"streams: topic {topics[0]!r} is named twice")
        for step in self.publish:
            if step != self.flow.results:
                raise ValueError(
                    f"publish.{step}: {step!r} is not the step whose rows are the results, which is "
                    f"{self.flow.results}; publish that one"
                )
        if self.output_topic in topics:
            raise ValueError(
                f"publish.{self.flow.results}.topic: {self.output_topic!r} is read by a stream, which would "
                "get the job's own results; name another topic"
            )
        if self.control_topic in [*topics, self.output_topic]:
            raise ValueError(
                f"control.topic: {self.control_topic!r} is a topic of a stream or of publish; name another"
            )
        for lookup in self.lookups:
            self._check_lookup(lookup, self.place_of(lookup))
        self._check_relations()
        self._check_key()
        if self.aggregate is not None:
            self._check_aggregate(self.aggregate, f"steps.{self.flow.aggregate}.aggregate")
        self._check_tables()
        self._check_names()
        return self

    def _check_inputs(self) -> None:
        flow = self.flow
        if self.join is None:
            return
        if len(self.sides) > 2 and self.join.type is not JoinType.INNER:
            raise ValueError(
                f"steps.{flow.join}.type: only an inner join has more than two inputs; write inner, or leave "
                f"out {_listed(self.sides[2:])}"
            )
        # It raises for a field that the preset has no use for.
        self.join.policy(field=f"steps.{flow.join}")

    def _check_lookup(self, lookup: Lookup, field: str) -> None:
        require_name(self.relations, lookup.relation, f"{field}.relation", "relations")
        relation = self.relations[lookup.relation]
        if len(lookup.key) != len(relation.key):
            raise ValueError(
                f"{field}.key: {_listed(lookup.key)} must have a column for each of "
                f"relations.{lookup.relation}.key: {_listed(relation.key)}"
            )
        asked(self, lookup)  # raises for a column that rows do not have
        if (as_of := lookup.as_of) is None:
            return
        require_column(relation.columns, as_of.relation, f"{field}.as_of.relation", ColumnType.TIMESTAMP)
        if as_of.relation in relation.key:
            raise ValueError(
                f"{field}.as_of.relation: {as_of.relation!r} is in relations.{lookup.relation}.key, so "
                "each version would have a key of its own; leave it out there"
            )
        if not lookup.unique:
            raise ValueError(
                f"{field}.cardinality: as_of picks one of a key's rows; leave cardinality out, or as_of"
            )

    def _check_relations(self) -> None:
        """Check that each relation has one lookup: its name stands for the lookup's columns and knobs."""
        asked = [lookup.relation for lookup in self.lookups]
        for name in self.relations:
            if name in self.streams:
                raise ValueError(f"relations.{name}: a stream has this name, too; rename one of them")
            if name not in asked:
                raise ValueError(f"relations.{name}: no lookup asks it; leave it out")
            if asked.count(name) > 1:
                again = [lookup for lookup in self.lookups if lookup.relation == name][1]
                raise ValueError(
                    f"{self.place_of(again)}.relation: {name!r} is looked up twice; declare it once more "
                    "under another name"
                )

    def _check_key(self) -> None:
        origin, key = self._key
        for name in key:
            self._check_key_column(name, origin)
        whose = "key" if self.join is None else "join key"
        for side in self.sides:
            missing = tuple(name for name in key if name not in self.streams[side].promised_on)
            if missing and len(missing) < len(key):
                raise ValueError(
                    f"streams.{side}.punctuated_on: {_listed(missing)} of the {whose} {_listed(key)} is "
                    "missing; name all of the key, or none of it"
                )
            declared = self.streams[side]
            if declared.unique and declared.clustered:
                raise ValueError(
                    f"streams.{side}.clustered: unique keys are in clusters anyhow; leave it out"
                )
            implied = {
                "ordered": tuple(declared.ordered),
                "unique": declared.unique,
                "clustered": declared.clustered,
            }
            for field, by in implied.items():
                if by and (set(by) != set(key) or (field == "ordered" and len(key) > 1)):
                    raise ValueError(
                        f"streams.{side}.{field}: {_listed(by)} is not the {whose} {_listed(key)}, so it "
                        "closes no key; leave it out"
                    )
            if declared.forget_keys_after is not None:
                self._check_forgetting(side, declared.forget_keys_after)

    def _check_forgetting(self, side: str, forget_after: timedelta) -> None:
        """Check that a row of a forgotten key is late, and that no result and no group waits for the key."""
        field, join = f"streams.{side}.forget_keys_after", self.join
        if not self.closes_keys(side):
            raise ValueError(f"{field}: {side} closes no key; leave it out")
        if join is None:
            return
        step = f"steps.{self.flow.join}"
        if PRESETS[join.preset].propagate is Propagation.CLOSED:
            raise ValueError(
                f"{field}: preset {join.preset} announces a key once all streams have closed it, so none may "
                f"be forgotten before; leave it out, or choose {step}.preset: {Preset.AUTO}"
            )
        for other in self.sides:
            kept = join.type.keeps_right if self.sides.index(other) else join.type.keeps_left
            if other != side and kept:
                raise ValueError(
                    f"{field}: rows of {other} are results once {side} has closed their key, so it must not "
                    f"be forgotten; leave it out, or choose another {step}.type"
                )
            window = self.window_of(other) if PRESETS[join.preset].window else None
            if window is None:
                raise ValueError(
                    f"{field}: rows of {other} would stay for ever once their key is forgotten; "
                    f"set {step}.window"
                )
            if other == side and forget_after < window:
                raise ValueError(
                    f"{field}: {_seconds(forget_after)} is less than the window of {side}, "
                    f"{_seconds(window)}, in which a key still has results; use the window or more"
                )

    def _check_key_column(self, name: str, field: str) -> None:
        for side in self.sides:
            require_column(self.stream_columns(side), name, field)
        kinds = {side: self.stream_columns(side)[name].required for side in self.sides}
        first, kind = next(iter(kinds.items()))
        if odd := [side for side, other in kinds.items() if other != kind]:
            raise ValueError(
                f"{field}: column {name!r} is {kind} in stream {first}, but {kinds[odd[0]]} in {odd[0]}; "
                f"declare one type for {'both' if len(kinds) == 2 else 'all'}"
            )
        if ColumnType.DOUBLE in kinds.values():
            raise ValueError(
                f"{field}: column {name!r} is double, and equal doubles are a matter of rounding; declare it "
                "long, string or decimal(18,2) in each stream"
            )

    def _check_aggregate(self, aggregate: Aggregate, field: str) -> None:
        for reference in aggregate.by:
            self._check_group_column(reference, f"{field}.by")
        if len(self.group_key) < len(aggregate.by):
            raise ValueError(f"{field}.by: {_listed(aggregate.by)} name a column twice; leave one out")
        if self.regroups:
            self._check_regrouping(aggregate, field)
        elif not self._is_running:
            self._check_closing(field)
        for name, measure in aggregate.measures.items():
            if measure.column is not None:
                self._check_measure(f"{field}.measures.{name}", measure, measure.column)

    def _check_group_column(self, reference: str, field: str) -> None:
        if reference in self.key:  # which `_check_key` has checked
            return
        origin, column = self._require_column(reference, field)
        require_key_column(self._origins[origin], column, field)

    def _check_regrouping(self, aggregate: Aggregate, field: str) -> None:
        """Check groups by other columns than the join key."""
        named = {column for origin, column in self._group_columns() if origin not in self.relations}
        if named >= set(self.key) and any(map(self.closes_keys, self.sides)):
            whose = "key" if self.join is None else "join key"
            raise ValueError(
                f"{field}.by: {_listed(aggregate.by)} has more columns than the {whose} "
                f"{_listed(self.key)}, or names the stream of one; name that key alone and without a stream, "
                "or leave a column of it out"
            )
        if self.group_closers or self._is_running:
            return
        able = [(origin, column) for origin, column in self._group_columns() if origin in self.streams]
        mends = [f"set streams.{origin}.punctuated_on: [{column}]" for origin, column in able[:1]]
        mends.append(
            f"write the groups so far: tables.{self.flow.aggregate}: "
            f"{{from: {self.flow.aggregate}, mode: upsert}}"
        )
        raise ValueError(
            f"{field}.by: no stream promises anything about {_listed(aggregate.by)} that holds for all "
            f"results, so no group would ever close; {', or '.join(mends)}"
        )

    def _check_closing(self, field: str) -> None:
        """Check that groups by the join key are closed."""
        if not any(self.closes_keys(side) for side in self.sides):
            raise ValueError(
                f"{field}.by: no stream is punctuated on {_listed(self.key)}, so no group would ever "
                f"close; set streams.<name>.punctuated_on: [{', '.join(self.key)}]"
            )
        if self.join is not None and PRESETS[self.join.preset].propagate is Propagation.NEVER:
            able = [
                preset for preset, ability in PRESETS.items() if ability.propagate is not Propagation.NEVER
            ]
            raise ValueError(
                f"{field}: preset {self.join.preset} announces no key, so no group would ever close; "
                f"leave it out, or choose steps.{self.flow.join}.preset: {', '.join(able)}"
            )

    def _require_column(self, reference: str, field: str) -> tuple[str, str]:
        """Return the origin and the name of a column of results, or refuse it."""
        try:
            origin, column = self.resolved(reference)
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from error
        require_name(self._origins, origin, field, "streams or relations")
        require_column(self._origins[origin], column, field)
        if self.stream_of(origin) not in self.shown:
            raise ValueError(
                f"{field}: {reference!r} is on the right of a semi join, whose results have the left "
                f"columns alone; steps.{self.flow.join}.type: inner keeps both"
            )
        return origin, column

    def _check_measure(self, field: str, measure: Measure, reference: str) -> None:
        self._require_column(reference, field)
        try:
            measure.kind(self.type_of(reference))
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from error

    def _check_names(self) -> None:
        for role, columns in self.table_columns().items():
            seen: dict[str, str] = {}
            for name in columns:  # Spark and Delta ignore the case of letters in names
                if (other := seen.setdefault(name.lower(), name)) != name or columns.count(name) > 1:
                    raise ValueError(
                        f"tables.{self.directories[role]}: columns {other!r} and {name!r} are one to Delta; "
                        "rename a stream, a relation, a column or a measure"
                    )

    def _check_tables(self) -> None:
        if not self.tables and not self.publish:
            raise ValueError(
                f"tables: no table has the rows of {self.flow.last}; name one, such as "
                f"tables: {{{self.flow.last}: {{}}}}"
            )
        written: dict[str, str] = {}
        for name in [*RESERVED, *self.tables]:  # some file systems ignore the case of letters, too
            if (other := written.setdefault(name.lower(), name)) != name or (
                name in RESERVED and name in self.tables
            ):
                raise ValueError(f"tables.{name}: {other!r} is another table's name too; rename one")
        roles: dict[str, str] = {}
        for name, table in self.tables.items():
            role = self._role_of(name, table)
            if (other := roles.setdefault(role, name)) != name:
                raise ValueError(
                    f"tables.{name}: {other} has the same rows of {table.source or name}; leave one out"
                )
            require_layout(table, self._columns_of(role), f"tables.{name}")
            if table.mode == "upsert" and self.regroups:
                self._check_upserted(table, f"tables.{name}.partition_by")
        if self.flow.aggregate and not {"groups", "running"} & roles.keys():
            raise ValueError(
                f"steps.{self.flow.aggregate}: no table has its groups; add "
                f"tables.{self.flow.aggregate}: {{}}, or leave the step out"
            )

    def _check_upserted(self, table: Table, field: str) -> None:
        columns = self.group_columns()
        for name in table.partition_by:
            if name in self.group_key and columns[name].domain is Domain.STRING:
                raise ValueError(
                    f"{field}: column {name!r} is a text of the group key, and Delta reads an empty text "
                    "there as null, which is a group of its own; leave it out"
                )

    def _role_of(self, name: str, table: Table) -> str:
        """Return the kind of a table's rows: `results`, `groups` or `running`."""
        source, flow = table.source or name, self.flow
        field = f"tables.{name}.from" if table.source else f"tables.{name}"
        require_name({**self.steps, **self.streams}, source, field, "steps or streams")
        if source == flow.aggregate:
            return "groups" if table.mode == "append" else "running"
        if source != flow.results:
            written = " or ".join(each for each in (flow.results, flow.aggregate) if each)
            raise ValueError(
                f"{field}: the rows of {source} go on into another step and are not written; write those of "
                f"{written}"
            )
        if table.mode != "append":
            raise ValueError(
                f"tables.{name}.mode: {table.mode} is for the groups of an aggregate; rows of {source} are "
                "never replaced, so leave it out"
            )
        return "results"

    def _columns_of(self, role: str) -> dict[str, ColumnType]:
        match role:
            case "results":
                return self.result_columns()
            case "groups":
                return self.group_columns()
        return self.group_columns() | _RUNNING

    def table_columns(self) -> dict[str, list[str]]:
        """Return the columns of each table by the kind of its rows. A name may stand twice."""
        found = {
            "results": [name for side in self.sides for name, _ in self._side(side)],
            "groups": [] if self.aggregate is None else [*self.group_key, *self.aggregate.measures],
        }
        found["running"] = [*found["groups"], *_RUNNING]
        return {role: found[role] for role in self.laid_out}

    @property
    def flow(self) -> Flow:
        """The order of the steps."""
        return flow_of(self.streams, self.steps)

    @property
    def laid_out(self) -> dict[str, Table]:
        """The tables of steps by the kind of their rows: `results`, `groups` and `running`."""
        found = {self._role_of(name, table): table for name, table in self.tables.items()}
        return {role: found[role] for role in ("results", "groups", "running") if role in found}

    @property
    def directories(self) -> dict[str, str]:
        """The directory of each table under the warehouse, by the kind of its rows."""
        found = {self._role_of(name, table): name for name, table in self.tables.items()}
        return {role: found[role] for role in self.laid_out} | {name: name for name in RESERVED}

    @property
    def output_topic(self) -> str | None:
        """The topic that gets the results; `None` if they are not published."""
        return next((published.topic for published in self.publish.values()), None)

    @property
    def shows_results(self) -> bool:
        """Whether results are written to a table or published."""
        return "results" in self.laid_out or self.output_topic is not None

    @property
    def join(self) -> JoinStep | None:
        """The join; `None` for a stream alone."""
        step = self.steps.get(self.flow.join or "")
        return step if isinstance(step, JoinStep) else None

    @property
    def aggregate(self) -> Aggregate | None:
        """The group-by; `None` without one."""
        step = self.steps.get(self.flow.aggregate or "")
        return step.aggregate if isinstance(step, AggregateStep) else None

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """All lookups, those of one stream in the order in which its rows go through them."""
        return tuple(lookup for stream in self.sides for lookup in self.lookups_of(stream))

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
        if self.join is None:
            return None
        return self.join.window_of(self.join.inputs[self.sides.index(stream)])

    def lookups_of(self, stream: str) -> list[Lookup]:
        """Return the lookups of a stream, in the order in which its rows go through them."""
        steps = (self.steps[name] for name in self.flow.paths[stream])
        return [step.lookup for step in steps if isinstance(step, LookupStep)]

    def row_steps_of(self, stream: str) -> tuple[CheckedRowStep, ...]:
        """Return the row steps of a stream, in order.

        Raises:
            ConfigError: one of them is wrong.
        """
        steps = {name: self.steps[name] for name in self.flow.paths[stream]}
        of_rows = {name: step for name, step in steps.items() if isinstance(step, RowStep)}
        return checked(stream, self.streams[stream], of_rows)

    def stream_columns(self, stream: str) -> dict[str, ColumnType]:
        """Return the columns of a stream behind its row steps."""
        steps = self.row_steps_of(stream)
        return dict(steps[-1].columns if steps else self.streams[stream].columns)

    def asked_by(self, lookup: Lookup) -> Asked:
        """Return the columns by which a lookup asks."""
        return asked(self, lookup)

    def lookup_in(self, relation: str) -> Lookup:
        """Return the lookup that asks a relation."""
        return next(lookup for lookup in self.lookups if lookup.relation == relation)

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the join's streams, the left one first, or of the one stream."""
        return tuple(self.flow.paths)

    @property
    def shown(self) -> tuple[str, ...]:
        """The streams whose columns results have: the left one of a semi join, and otherwise all."""
        return self.sides[:1] if self.join is not None and self.join.type is JoinType.SEMI else self.sides

    @property
    def key(self) -> tuple[str, ...]:
        """The columns of the join key, or of the key of a stream alone."""
        return self._key[1]

    @property
    def key_types(self) -> dict[str, ColumnType]:
        """The types of the key's columns, by name."""
        columns = self.stream_columns(self.sides[0])
        return {name: columns[name].required for name in self.key}

    @property
    def _key(self) -> tuple[str, tuple[str, ...]]:
        """The field that names the key, and the columns of the key."""
        if self.join is not None:
            return f"steps.{self.flow.join}.on", self.join.on
        ((name, stream),) = self.streams.items()
        rule = stream.closes.on if stream.closes else ()
        by = tuple(column.name for lookup in self.lookups[:1] for column in self.asked_by(lookup).key)
        asks_by_null = any(self.stream_columns(name)[column].nullable for column in by)
        fields = {
            f"steps.{self.flow.aggregate}.aggregate.by": self._grouped_alone(name),
            f"streams.{name}.unique": stream.unique,
            f"streams.{name}.clustered": stream.clustered,
            f"streams.{name}.ordered": tuple(stream.ordered),
            f"streams.{name}.closes.on": rule if stream.could_be_keys(rule) == rule else (),
            f"streams.{name}.punctuated_on": stream.could_be_keys(stream.punctuated_on),
            # Nothing closes these. They only spread rows over buckets, each of which then reads its own part
            # of the relation. No row may lack the key, so a nullable column is none.
            **{f"{self.place_of(lookup)}.key": () if asks_by_null else by for lookup in self.lookups[:1]},
            f"streams.{name}.event_time.column": (stream.event_time.column,),
        }
        return next((field, columns) for field, columns in fields.items() if columns)

    def _grouped_alone(self, stream: str) -> tuple[str, ...]:
        """Return the columns by which a stream alone is grouped; none if not all of them are its own."""
        by = () if self.aggregate is None else self.aggregate.by
        own = tuple(name.removeprefix(f"{stream}.") for name in by)
        others = [name for name in by if name not in self.stream_columns(stream)]
        known = {column for relation in self.relations.values() for column in relation.columns}
        if any(name.partition(".")[0] in self.relations or name in known for name in others):
            return ()
        return own

    @property
    def group_key(self) -> dict[str, str]:
        """The columns of the group key by their names in tables, each with its reference in the file."""
        by = () if self.aggregate is None else self.aggregate.by
        return {self._group_name(reference): reference for reference in by}

    def _group_name(self, reference: str) -> str:
        if reference in self.key:
            return reference
        origin, column = self.resolved(reference)
        if self.join is None and origin in self.streams and column in self.key:
            return column
        return self.result_column(reference)

    @property
    def regroups(self) -> bool:
        """Whether the aggregate has another key than the join, and so is a stage of its own."""
        return self.aggregate is not None and set(self.group_key) != set(self.key)

    @property
    def present(self) -> tuple[str, ...]:
        """The streams that have a row in every result."""
        if self.join is None:
            return self.sides
        first, *others = self.sides
        absent = {first} if self.join.type.keeps_right else set()
        absent |= set(others) if self.join.type.keeps_left else set()
        return tuple(stream for stream in self.shown if stream not in absent)

    @property
    def group_closers(self) -> dict[str, tuple[str, ...]]:
        """The streams whose patterns close groups by another key than the join's.

        Each has the columns of the group key that its patterns restrict. They do not match results without a
        row of the stream, so there must be none, or only one group of them.
        """
        if self.join is not None and PRESETS[self.join.preset].propagate is not Propagation.EARLY:
            return {}
        columns, found = self._group_columns(), {}
        for stream in self.shown:
            declared = self.streams[stream]
            alike = set(self.present) if stream in self.present else {stream}
            own = {
                column
                for origin, column in columns
                if origin == stream or (column in self.key and origin in alike)
            }
            restricted = tuple(column for column in declared.punctuated_on if column in own)
            if declared.closes and set(declared.closes.on) <= own:
                restricted = restricted or declared.closes.on
            if restricted and (stream in self.present or all(origin == stream for origin, _ in columns)):
                found[stream] = restricted
        return found

    def _group_columns(self) -> list[tuple[str, str]]:
        """Return the columns of the group key, each with its origin. That of the join key is a stream."""
        found = []
        for reference in self.group_key.values():
            if reference in self.key:
                # In a full join, it is that of the row that is there, which no pattern restricts.
                found += [(stream, reference) for stream in self.present[:1]] or [("", reference)]
                continue
            origin, column = self.resolved(reference)
            found.append(self._asked(origin, column))
        return found

    @property
    def control_topic(self) -> str:
        """The name of the control topic: the declared one, or `<name>-control`."""
        return self.control.topic or f"{self.name}-control"

    def closes_keys(self, stream: str) -> bool:
        """Return whether a stream can close keys, by punctuations or by a declaration."""
        declared, key = self.streams[stream], set(self.key)
        rule = set(declared.closes.on) if declared.closes else set()
        promised = {*declared.punctuated_on, *(rule if rule <= key else ())}
        return bool(declared.ordered or declared.unique or declared.clustered) or key <= promised

    def side_columns(self, stream: str) -> dict[str, ColumnType]:
        """Return the columns of one stream behind its lookups, named as in the results table.

        A name is `<stream or relation>_<column>`. The stream's columns come first, then the columns of
        its relations in the order of lookups, then the record's coordinates.
        """
        return dict(self._side(stream))

    def _side(self, stream: str) -> list[tuple[str, ColumnType]]:
        own = self.stream_columns(stream)
        columns = [(f"{stream}_{name}", kind.required) for name, kind in own.items()]
        for lookup in self.lookups_of(stream):
            relation = self.relations[lookup.relation]
            columns += [
                (f"{lookup.relation}_{name}", kind)
                for name, kind in relation.columns.items()
                if name not in relation.key
            ]
        return columns + [(f"{stream}_{name}", ColumnType.LONG) for name in COORDINATES]

    def pair_columns(self) -> dict[str, ColumnType]:
        """Return the columns that the `where` of the join may name: those of its inputs, in their order."""
        return dict(column for side in self.sides for column in self._side(side))

    def result_columns(self) -> dict[str, ColumnType]:
        """Return the columns of the results table. A semi join has those of the left input alone."""
        return dict(column for side in self.shown for column in self._side(side))

    def group_columns(self) -> dict[str, ColumnType]:
        """Return the columns of the groups table: the group key, then the measures.

        There are none without an aggregate.
        """
        if self.aggregate is None:
            return {}
        columns = {
            name: self.key_types[name] if name in self.key else self.type_of(reference)
            for name, reference in self.group_key.items()
        }
        for name, measure in self.aggregate.measures.items():
            of = None if measure.column is None else self.type_of(measure.column)
            columns[name] = ColumnType.LONG if of is None else measure.kind(of)
        return columns

    def running_columns(self) -> dict[str, ColumnType]:
        """Return the columns of the table of running groups; none if the pipeline has no such table.

        They are the columns of a group, then `final` and the number of the batch.
        """
        return self.group_columns() | _RUNNING if self._is_running else {}

    @property
    def _is_running(self) -> bool:
        return "running" in self.laid_out

    def stream_of(self, origin: str) -> str:
        """Return the stream of a name: the stream itself, or the stream whose lookup asks the relation."""
        asking = (
            stream for stream in self.sides for each in self.lookups_of(stream) if each.relation == origin
        )
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
        found = [name for name, columns in self._origins.items() if reference in columns]
        if len(found) > 1:
            several = ", ".join(f"{name}.{reference}" for name in found)
            raise ValueError(f"{reference!r} may be one of {several}; write the one that is meant")
        if not found:
            there = ", ".join(f"{name}.{column}" for name, of in self._origins.items() for column in of)
            raise ValueError(f"no column {reference!r}; there are {there}")
        return found[0], reference

    def result_column(self, reference: str) -> str:
        """Return the column of results that a reference names, such as `customers_country`."""
        return "_".join(self._asked(*self.resolved(reference)))

    def _asked(self, origin: str, column: str) -> tuple[str, str]:
        """Return the place of a column in results, where the column that asked R stands for R's key."""
        if origin in self.relations and column in (key := self.relations[origin].key):
            return self.asked_by(self.lookup_in(origin)).key[key.index(column)]
        return origin, column

    def type_of(self, reference: str) -> ColumnType:
        """Return the type of a column, named as in `resolved`."""
        origin, column = self.resolved(reference)
        return self._origins[origin][column].required

    @property
    def _origins(self) -> dict[str, dict[str, ColumnType]]:
        streams = {name: self.stream_columns(name) for name in self.streams}
        return streams | {name: relation.columns for name, relation in self.relations.items()}


def _seconds(duration: timedelta) -> str:
    return f"{duration.total_seconds():g} s"


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))

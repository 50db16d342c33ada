"""The model of a whole pipeline: its parts, the columns of its tables, and the checks across its parts."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from endmark.operators.stream_join.presets import PRESETS, Propagation
from endmark.pipeline.change_rules import AtRestart, Change, ChangeRule, Pinned
from endmark.pipeline.fields import Model, Name, require_column, require_name
from endmark.pipeline.sources import COORDINATES, Relation, Stream
from endmark.pipeline.steps import (
    PUBLISHING,
    Aggregate,
    Batch,
    Control,
    Join,
    Lookup,
    Lookups,
    Measure,
    Publish,
)
from endmark.pipeline.tables import FINAL, Tables, require_layout
from endmark.types import ColumnType, JoinType

_RUNNING = {FINAL: ColumnType.BOOLEAN, "batch": ColumnType.LONG}


class Pipeline(Model):
    """A whole pipeline: one stream or the join of two, their lookups, and maybe a closing group-by.

    Two streams have a `join`. A stream alone has none: each of its rows is a result once its lookups have
    answered. Its key is `aggregate.by`. Without an aggregate, the key is the columns of the first of these
    that it has: `unique`, `clustered`, `ordered`, `closes.on` and `punctuated_on`. The event time and doubles
    are no columns of a key.

    `lookup` is one lookup or a list of lookups. Each has a relation of its own, so a table that is looked up
    twice is declared under two names. A lookup asks by columns of its stream. All lookups of a stream run
    side by side, and a row goes on when all have answered. If lookups have no match for a row, the first of
    them in the list whose `miss` is not `nulls` decides its fate. State that nothing ever frees is refused,
    unless `unbounded_state` is `allow`.
    """

    name: Annotated[
        Name,
        ChangeRule(change=Change.RESTART, remark="names the control topic, unless control.topic does"),
    ]
    streams: Pinned[Annotated[dict[Name, Stream], Field(min_length=1, max_length=2)]]
    relations: Pinned[Annotated[dict[Name, Relation], Field(default_factory=dict)]]
    lookup: Pinned[Lookups] = ()
    join: Pinned[Join | None] = None
    aggregate: Pinned[Aggregate | None] = None
    tables: Pinned[Tables] = Tables()
    publish: Annotated[Publish | None, PUBLISHING] = None
    control: Pinned[Control] = Control()
    batch: Batch = Batch()
    unbounded_state: AtRestart[Literal["refuse", "allow"]] = "refuse"

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        self._check_inputs()
        topics = [stream.topic for stream in self.streams.values()]
        if len(set(topics)) != len(topics):
            raise ValueError(f"streams: topic {topics[0]!r} is named twice")
        if self.publish is not None and self.publish.topic in topics:
            raise ValueError(
                f"publish.topic: {self.publish.topic!r} is read by a stream, which would get the job's own "
                "results; name another topic"
            )
        others = [*topics, *([self.publish.topic] if self.publish is not None else [])]
        if self.control_topic in others:
            raise ValueError(
                f"control.topic: {self.control_topic!r} is a topic of a stream or of publish; name another"
            )
        for lookup in self.lookups:
            self._check_lookup(lookup, self._field_of(lookup))
        self._check_relations()
        self._check_key()
        if self.aggregate is not None:
            self._check_aggregate(self.aggregate)
        self._check_names()
        self._check_tables()
        return self

    def _check_inputs(self) -> None:
        names = _listed(tuple(self.streams))
        if self.join is None:
            if len(self.streams) > 1:
                raise ValueError(
                    f"join: streams {names} need a join; name them in join.left and join.right, and their "
                    "key in join.on, or leave one of them out"
                )
            return
        if len(self.streams) == 1:
            raise ValueError(
                f"join: {names} is the only stream, so its rows are results without a join; leave join out, "
                "or add the stream to join it with"
            )
        for field, name in (("join.left", self.join.left), ("join.right", self.join.right)):
            require_name(self.streams, name, field, "streams")
        if self.join.left == self.join.right:
            raise ValueError(f"join.right: {self.join.right!r} is also join.left; name two streams")
        self.join.policy()  # raises for a field that the preset has no use for

    def _field_of(self, lookup: Lookup) -> str:
        one = isinstance(self.lookup, Lookup)
        return "lookup" if one else f"lookup.{self.lookups.index(lookup)}"

    def _check_lookup(self, lookup: Lookup, field: str) -> None:
        require_name(self.streams, lookup.stream, f"{field}.stream", "streams")
        require_name(self.relations, lookup.relation, f"{field}.relation", "relations")
        stream, relation = self.streams[lookup.stream], self.relations[lookup.relation]
        if len(lookup.key) != len(relation.key):
            raise ValueError(
                f"{field}.key: {_listed(lookup.key)} must have a column for each of "
                f"relations.{lookup.relation}.key: {_listed(relation.key)}"
            )
        for name, known in zip(lookup.key, relation.key, strict=True):
            require_column(stream.columns, name, f"{field}.key", relation.columns[known])
        if (as_of := lookup.as_of) is None:
            return
        require_column(stream.columns, as_of.stream, f"{field}.as_of.stream", ColumnType.TIMESTAMP)
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
                raise ValueError(
                    f"lookup: relation {name!r} is looked up twice; declare it once more under another name"
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

    def _check_key_column(self, name: str, field: str) -> None:
        for side in self.sides:
            require_column(self.streams[side].columns, name, field)
        kinds = {side: self.streams[side].columns[name].required for side in self.sides}
        if len(set(kinds.values())) > 1:
            (left, one), (right, other) = kinds.items()
            raise ValueError(
                f"{field}: column {name!r} is {one} in stream {left}, but {other} in {right}; declare one "
                "type for both"
            )
        if ColumnType.DOUBLE in kinds.values():
            raise ValueError(
                f"{field}: column {name!r} is double, and equal doubles are a matter of rounding; declare it "
                "long, string or decimal(18,2) in each stream"
            )

    def _check_aggregate(self, aggregate: Aggregate) -> None:
        if set(aggregate.by) != set(self.key):
            raise ValueError(
                f"aggregate.by: {_listed(aggregate.by)} is not the join key {_listed(self.key)}; "
                "only the join key is closed by punctuations"
            )
        if not any(self.closes_keys(side) for side in self.sides):
            raise ValueError(
                f"aggregate.by: no stream is punctuated on {_listed(self.key)}, so no group would ever "
                f"close; set streams.<name>.punctuated_on: [{', '.join(self.key)}]"
            )
        if self.join is not None and self.join.policy().propagate is Propagation.NEVER:
            able = [
                preset for preset, ability in PRESETS.items() if ability.propagate is not Propagation.NEVER
            ]
            raise ValueError(
                f"aggregate: preset {self.join.preset} announces no key, so no group would ever close; "
                f"leave it out, or choose join.preset: {', '.join(able)}"
            )
        for name, measure in aggregate.measures.items():
            if measure.column is not None:
                self._check_measure(f"aggregate.measures.{name}", measure, measure.column)

    def _check_measure(self, field: str, measure: Measure, reference: str) -> None:
        origin, _, column = reference.partition(".")
        require_name(self._origins, origin, field, "streams or relations")
        require_column(self._origins[origin], column, field)
        try:
            measure.kind(self.type_of(reference))
        except ValueError as error:
            raise ValueError(f"{field}: {error}") from error
        if self.stream_of(origin) not in self.shown:
            raise ValueError(
                f"{field}: {reference!r} is on the right of a semi join, whose results have the left "
                "columns alone; join.type: inner keeps both"
            )

    def _check_names(self) -> None:
        pair = [name for side in self.sides for name, _ in self._side(side)]
        group = [*self.aggregate.by, *self.aggregate.measures] if self.aggregate is not None else []
        running = [*group, *_RUNNING] if self._is_running else []
        for table, columns in (("results", pair), ("groups", group), ("running", running)):
            seen: dict[str, str] = {}
            for name in columns:  # Spark and Delta ignore the case of letters in names
                if (other := seen.setdefault(name.lower(), name)) != name or columns.count(name) > 1:
                    raise ValueError(
                        f"tables.{table}: columns {other!r} and {name!r} are one to Delta; rename a stream, "
                        "a relation, a column or a measure"
                    )

    def _check_tables(self) -> None:
        columns = {
            "results": self.result_columns(),
            "groups": self.group_columns(),
            "running": self.running_columns(),
        }
        needed = {"groups": "aggregate", "running": "aggregate.running"}
        for field, table in self.tables.laid_out.items():
            if columns[field]:
                require_layout(table, columns[field], f"tables.{field}")
            elif table != type(table)(name=table.name):
                raise ValueError(
                    f"tables.{field}: the pipeline writes no such table; set {needed[field]}, or leave out "
                    "all but its name"
                )

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        """All lookups of the pipeline, in the order of the file."""
        return (self.lookup,) if isinstance(self.lookup, Lookup) else self.lookup

    def lookups_of(self, stream: str) -> list[Lookup]:
        """Return the lookups of a stream, in the order of the file."""
        return [lookup for lookup in self.lookups if lookup.stream == stream]

    def lookup_in(self, relation: str) -> Lookup:
        """Return the lookup that asks a relation."""
        return next(lookup for lookup in self.lookups if lookup.relation == relation)

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the left and the right stream of the join, or of the one stream."""
        return tuple(self.streams) if self.join is None else (self.join.left, self.join.right)

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
        columns = self.streams[self.sides[0]].columns
        return {name: columns[name].required for name in self.key}

    @property
    def _key(self) -> tuple[str, tuple[str, ...]]:
        """The field that names the key, and the columns of the key."""
        if self.join is not None:
            return "join.on", self.join.on
        ((name, stream),) = self.streams.items()
        rule = stream.closes.on if stream.closes else ()
        asks_by_null = any(
            stream.columns[asked].nullable for lookup in self.lookups[:1] for asked in lookup.key
        )
        fields = {
            "aggregate.by": () if self.aggregate is None else self.aggregate.by,
            f"streams.{name}.unique": stream.unique,
            f"streams.{name}.clustered": stream.clustered,
            f"streams.{name}.ordered": tuple(stream.ordered),
            f"streams.{name}.closes.on": rule if stream.could_be_keys(rule) == rule else (),
            f"streams.{name}.punctuated_on": stream.could_be_keys(stream.punctuated_on),
            # Nothing closes these. They only spread rows over buckets, each of which then reads its own part
            # of the relation. No row may lack the key, so a nullable column is none.
            "lookup.key": self.lookups[0].key if self.lookups and not asks_by_null else (),
            f"streams.{name}.event_time.column": (stream.event_time.column,),
        }
        return next((field, columns) for field, columns in fields.items() if columns)

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

        A name is `<stream or relation>_<column>`. The stream's own columns come first, then the columns of
        its relations in the order of lookups, then the record's coordinates.
        """
        return dict(self._side(stream))

    def _side(self, stream: str) -> list[tuple[str, ColumnType]]:
        columns = [(f"{stream}_{name}", kind.required) for name, kind in self.streams[stream].columns.items()]
        for lookup in self.lookups_of(stream):
            relation = self.relations[lookup.relation]
            columns += [
                (f"{lookup.relation}_{name}", kind)
                for name, kind in relation.columns.items()
                if name not in relation.key
            ]
        return columns + [(f"{stream}_{name}", ColumnType.LONG) for name in COORDINATES]

    def pair_columns(self) -> dict[str, ColumnType]:
        """Return the columns that `join.where` may name: those of the left input, then those of the right."""
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
        columns = {name: self.key_types[name] for name in self.aggregate.by}
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
        return self.aggregate is not None and self.aggregate.running

    def stream_of(self, origin: str) -> str:
        """Return the stream of a name: the stream itself, or the stream whose lookup asks the relation."""
        return self.lookup_in(origin).stream if origin in self.relations else origin

    def type_of(self, reference: str) -> ColumnType:
        """Return the type of a column named `stream.column` or `relation.column`."""
        origin, _, column = reference.partition(".")
        return self._origins[origin][column].required

    @property
    def _origins(self) -> dict[str, dict[str, ColumnType]]:
        streams = {name: stream.columns for name, stream in self.streams.items()}
        return streams | {name: relation.columns for name, relation in self.relations.items()}


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names))

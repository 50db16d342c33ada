"""The pipeline file: streams, relations, the steps between them and where results go.

What the engine cannot run is refused with a message that names the field. Nothing here touches Spark, a
broker or a database.
"""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from endmark.types import ColumnType

_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_UNITS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
COORDINATES = ("kafka_partition", "kafka_offset")


def _identifier(value: str) -> str:
    # `fullmatch`, since `$` also matches before a trailing newline and names end up in SQL.
    if not _IDENTIFIER.fullmatch(value):
        raise ValueError(f"{value!r} is not a name: letters, digits and _ only, starting with a letter")
    return value


def _duration(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    found = _DURATION.fullmatch(value.strip())
    if not found:
        raise ValueError(f"{value!r} is not a duration such as 500ms, 10s, 5m, 12h or 1d")
    return timedelta(seconds=float(found[1]) * _UNITS[found[2]])


Name = Annotated[str, AfterValidator(_identifier)]
Duration = Annotated[timedelta, BeforeValidator(_duration), Field(ge=timedelta(0))]
Columns = Annotated[dict[Name, ColumnType], Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EventTime(_Model):
    """Which column carries event time, and how far behind the newest row of its partition a row may be."""

    column: Name
    lateness: Duration = timedelta(0)


class Stream(_Model):
    """A Kafka topic of JSON records. Each record holds exactly these columns; none may be null."""

    topic: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,200}$")]
    columns: Columns
    event_time: EventTime
    punctuated_on: Name | None = None

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        _require_column(self.columns, self.event_time.column, "event_time.column", ColumnType.TIMESTAMP)
        if self.punctuated_on is not None:
            _require_column(self.columns, self.punctuated_on, "punctuated_on", ColumnType.LONG)
        for name in COORDINATES:
            if name in self.columns:
                raise ValueError(f"columns.{name}: this name is taken by the record's coordinates")
        return self


class Relation(_Model):
    """The master table R of a lookup join, reached by an SQLAlchemy URL.

    A database that does not answer is asked again for `retry`; then the job stops.
    """

    url: str
    table: Name
    key: Name
    columns: Columns
    retry: Duration = timedelta(seconds=30)

    @model_validator(mode="after")
    def _check_key(self) -> Self:
        _require_column(self.columns, self.key, "key", ColumnType.LONG)
        return self


class Lookup(_Model):
    """HYBRIDJOIN of a stream with a relation; rows without a match are dropped and counted."""

    stream: Name
    relation: Name
    key: Name
    page_rows: Annotated[int, Field(ge=1, le=1_000_000)] = 500


class Window(_Model):
    """How long a row of either side stays joinable, in event time. `None` means for ever."""

    left: Duration | None = None
    right: Duration | None = None


class Join(_Model):
    """PWJoin of two streams on one key."""

    left: Name
    right: Name
    on: Name
    window: Window = Window()


class Measure(_Model):
    """One column of a closed group: `count` of rows, or `max` of a column named `stream.column`."""

    function: Literal["count", "max"]
    column: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if value == "count":
            return {"function": "count"}
        if isinstance(value, dict) and len(value) == 1 and "max" in value:
            return {"function": "max", "column": value["max"]}
        return value

    @model_validator(mode="after")
    def _check_column(self) -> Self:
        if (self.function == "max") != (self.column is not None):
            raise ValueError("write `count`, or `{max: stream.column}`")
        return self


class Aggregate(_Model):
    """Closing group-by over the join's results: a group is emitted once, when its key is closed."""

    by: Name
    measures: Annotated[dict[Name, Measure], Field(min_length=1)]


class Tables(_Model):
    """Names of the Delta tables under the warehouse directory."""

    results: Name = "results"
    groups: Name = "groups"
    dead_letters: Name = "dead_letters"
    violations: Name = "violations"


class Pipeline(_Model):
    """A whole pipeline: two streams, one lookup on one of them, their join and a closing group-by."""

    name: Name
    streams: Annotated[dict[Name, Stream], Field(min_length=2, max_length=2)]
    relations: Annotated[dict[Name, Relation], Field(min_length=1, max_length=1)]
    lookup: Lookup
    join: Join
    aggregate: Aggregate
    tables: Tables = Tables()

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        for field, name in (
            ("lookup.stream", self.lookup.stream),
            ("join.left", self.join.left),
            ("join.right", self.join.right),
        ):
            _require_name(self.streams, name, field, "streams")
        if self.join.left == self.join.right:
            raise ValueError(f"join.right: {self.join.right!r} is also join.left; name two streams")
        _require_name(self.relations, self.lookup.relation, "lookup.relation", "relations")
        topics = [stream.topic for stream in self.streams.values()]
        if len(set(topics)) != len(topics):
            raise ValueError(f"streams: topic {topics[0]!r} is named twice")
        _require_column(
            self.streams[self.lookup.stream].columns, self.lookup.key, "lookup.key", ColumnType.LONG
        )
        self._check_join()
        self._check_aggregate()
        self._check_names()
        return self

    def _check_names(self) -> None:
        names = [*self.side_columns(self.join.left), *self.side_columns(self.join.right)]
        for table, columns in (("results", names), ("groups", list(self.group_columns()))):
            seen: dict[str, str] = {}
            for name in columns:  # Spark and Delta do not tell capitals from small letters
                if (other := seen.setdefault(name.lower(), name)) != name or columns.count(name) > 1:
                    raise ValueError(
                        f"tables.{table}: columns {other!r} and {name!r} are one to Delta; rename a stream, "
                        "a relation or a column"
                    )

    def _check_join(self) -> None:
        for side in (self.join.left, self.join.right):
            stream = self.streams[side]
            _require_column(stream.columns, self.join.on, "join.on", ColumnType.LONG)
            if stream.punctuated_on not in (None, self.join.on):
                raise ValueError(
                    f"streams.{side}.punctuated_on: {stream.punctuated_on!r} is not the join key "
                    f"{self.join.on!r}; only punctuations on the join key are understood"
                )

    def _check_aggregate(self) -> None:
        if self.aggregate.by != self.join.on:
            raise ValueError(
                f"aggregate.by: {self.aggregate.by!r} is not the join key {self.join.on!r}; "
                "only the join key is closed by punctuations"
            )
        if all(stream.punctuated_on is None for stream in self.streams.values()):
            raise ValueError(
                "aggregate.by: no stream has `punctuated_on`, so no group would ever close; "
                f"set streams.<name>.punctuated_on: {self.join.on}"
            )
        for name, measure in self.aggregate.measures.items():
            if measure.column is None:
                continue
            field = f"aggregate.measures.{name}"
            origin, _, column = measure.column.partition(".")
            _require_name(self._origins, origin, field, "streams or relations")
            _require_column(self._origins[origin], column, field)

    @property
    def sides(self) -> tuple[str, str]:
        return self.join.left, self.join.right

    def side_columns(self, stream: str) -> dict[str, ColumnType]:
        """Columns of one join input, named as in the results table: `<stream or relation>_<column>`,
        then the record's coordinates; the looked-up columns follow the stream's own."""
        columns = {f"{stream}_{name}": kind for name, kind in self.streams[stream].columns.items()}
        if stream == self.lookup.stream:
            relation = self.relations[self.lookup.relation]
            columns |= {
                f"{self.lookup.relation}_{name}": kind
                for name, kind in relation.columns.items()
                if name != relation.key
            }
        columns |= {f"{stream}_{name}": ColumnType.LONG for name in COORDINATES}
        return columns

    def result_columns(self) -> dict[str, ColumnType]:
        """Columns of the results table: those of the left input, then those of the right."""
        return self.side_columns(self.join.left) | self.side_columns(self.join.right)

    def group_columns(self) -> dict[str, ColumnType]:
        """Columns of the groups table: the group key, then the measures."""
        columns = {self.aggregate.by: ColumnType.LONG}
        for name, measure in self.aggregate.measures.items():
            columns[name] = ColumnType.LONG if measure.column is None else self._type_of(measure.column)
        return columns

    def _type_of(self, reference: str) -> ColumnType:
        origin, _, column = reference.partition(".")
        return self._origins[origin][column]

    @property
    def _origins(self) -> dict[str, dict[str, ColumnType]]:
        streams = {name: stream.columns for name, stream in self.streams.items()}
        return streams | {name: relation.columns for name, relation in self.relations.items()}


def _require_name(known: dict[str, Any], name: str, field: str, where: str) -> None:
    if name not in known:
        raise ValueError(f"{field}: {name!r} is not one of {where}: {', '.join(known)}")


def _require_column(
    columns: dict[str, ColumnType], name: str, field: str, kind: ColumnType | None = None
) -> None:
    if name not in columns:
        raise ValueError(f"{field}: no column {name!r}; there are {', '.join(columns)}")
    if kind is not None and columns[name] is not kind:
        raise ValueError(f"{field}: column {name!r} is {columns[name].value}, but must be {kind.value}")


if __name__ == "__main__":  # prints the JSON Schema that `make schemas` keeps in schemas/
    print(json.dumps(Pipeline.model_json_schema(), indent=2))

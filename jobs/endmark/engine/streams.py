"""The plans of streams: plain values of a pipeline that are sent to each task."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.errors import ConfigError
from endmark.operators.stream_join.first_rows import Deduplication
from endmark.operators.stream_join.members import Member
from endmark.operators.stream_join.side import SideSpec
from endmark.pipeline.formats import FORMATS
from endmark.pipeline.record_parts import Origin
from endmark.pipeline.registry import schemas_of
from endmark.schemas.registry import SchemaFile
from endmark.state.keys import KeySpec
from endmark.state.segment import int64
from endmark.wire.framed_records import FramedParser
from endmark.wire.record_columns import RecordColumns
from endmark.wire.rejection import UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import timedelta

    from endmark.expressions.condition import Condition
    from endmark.expressions.row_steps import RowStep
    from endmark.pipeline import Pipeline
    from endmark.pipeline.sources import Stream
    from endmark.pipeline.stage import Stage
    from endmark.types import ColumnType
    from endmark.wire.json.records import Parser


_NOBODY = "$nobody"  # no stream can have this name
_ALONE = Member("")  # it numbers partitions as they are
_SPARK_TYPES = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp_ltz",  # `spark.sql.timestampType` says what `timestamp` is
}


@dataclass(frozen=True)
class ClosingPlan:
    """A closing rule: rows that meet the condition are the last of their values in the columns `on`."""

    condition: Condition
    on: tuple[str, ...]


@dataclass(frozen=True)
class StreamPlan:
    """The plan of one stream.

    Args:
        name: the name of the stream.
        topic: its topic; empty for one that is not read from a topic.
        columns: the types of its columns behind its row steps, by name. Those of a derived stream have their
            names in results. Members of a union have the same ones, in the same order.
        punctuated_on: the columns that its punctuations may restrict. Without any, deletions close no key.
        on: the columns of the key.
        side: the stream as an input of the join. For a member of a union, it is the union, but with the
            bounds of event time and silence that the member has.
        parser: makes the parser of its records; `None` for a frame.
        beside_value: the columns that its records have beside their values; `None` without any.
        keeps_value: whether rows keep the value of their Kafka record.
        closing: its closing rule; `None` without one.
        heartbeat_on: the column that its heartbeats restrict; `None` without heartbeats.
        removes_rows: whether a deletion removes the row of its key from a table of the newest rows.
        steps: its row steps, in order.
        member: the place of a member among those of its union.
        lag: microseconds by which a member's progress is less than its newest event time. Its union does not
            know its lateness.
        members: the plans of the members, if this is a union.
    """

    name: str
    topic: str
    columns: dict[str, ColumnType]
    punctuated_on: tuple[str, ...]
    on: tuple[str, ...]
    side: SideSpec
    parser: Callable[[], Parser] | None = None
    beside_value: RecordColumns | None = None
    keeps_value: bool = False
    closing: ClosingPlan | None = None
    heartbeat_on: str | None = None
    removes_rows: bool = False
    steps: tuple[RowStep, ...] = ()
    member: Member = _ALONE
    lag: int = 0
    members: tuple[StreamPlan, ...] = ()

    @property
    def read(self) -> tuple[StreamPlan, ...]:
        """The plans of the streams that are read: the members of a union, or the stream itself."""
        return self.members or (self,)

    def by_member(self, rows: pa.RecordBatch) -> Iterator[tuple[StreamPlan, pa.RecordBatch]]:
        """Yield the rows of each stream that is read, if it has any; all have the columns of `side`."""
        if not self.members or self.side.partition is None:
            yield self, rows
            return
        partitions = int64(rows.column(self.side.partition))
        for plan in self.members:
            own = plan.member.has(partitions)
            if own.any():
                yield plan, rows.filter(pa.array(own))

    def read_from(self, partition: int) -> StreamPlan:
        """Return the plan of the stream that a partition is of, given its number in the side."""
        return self.members[partition % len(self.members)] if self.members else self


def stream_plans(pipeline: Pipeline, partitions: dict[str, int]) -> dict[str, StreamPlan]:
    """Make the plans of a pipeline's streams and unions, given the number of partitions by topic.

    A stream that is a member of a union has its plan there, and has none of its own.
    """
    return {
        name: (_union_plan if name in pipeline.flow.unions else _stream_plan)(pipeline, name, partitions)
        for name in pipeline.sides
    }


def _union_plan(pipeline: Pipeline, name: str, partitions: Mapping[str, int]) -> StreamPlan:
    """Make the plan of a union, which has the partitions of all its members."""
    streams = {each: pipeline.streams[each] for each in pipeline.flow.members_of(name)}
    members = tuple(
        Member(
            each,
            partitions[stream.topic],
            stream.punctuation_scope == "partition",
            place,
            len(streams),
            microseconds(stream.event_time.idle),
        )
        for place, (each, stream) in enumerate(streams.items())
    )
    side = replace(
        _side(pipeline, name, pipeline.inputs[name]),
        partitions=sum(member.partitions for member in members),
        members=members,
    )
    columns = pipeline.stream_columns(name)
    plans = [
        replace(plan, columns=columns, member=member, lag=plan.side.lateness)
        for member in members
        for plan in (_plan(pipeline, member.stream, side),)
    ]
    return StreamPlan(
        name=name,
        topic="",
        columns=columns,
        punctuated_on=pipeline.inputs[name].punctuated_on,
        on=plans[0].on,
        side=side,
        keeps_value=plans[0].keeps_value,
        members=tuple(plans),
    )


def _stream_plan(pipeline: Pipeline, name: str, partitions: Mapping[str, int]) -> StreamPlan:
    """Make the plan of a stream that is an input of its stage."""
    stream = pipeline.streams[name]
    return _plan(pipeline, name, replace(_side(pipeline, name, stream), partitions=partitions[stream.topic]))


def _side(pipeline: Pipeline, name: str, stream: Stream) -> SideSpec:
    """Return an input of a stage that is a stream or a union, without its partitions."""
    stage = pipeline.stage_of(name)
    return SideSpec(
        name=name,
        key=KeySpec.of(list(stage.key_columns(name)), [kind.arrow for kind in stage.key_types.values()]),
        schema=arrow_schema(pipeline.side_columns(name)),
        time=stage.time_of(name),
        partition=f"{name}_kafka_partition",
        offset=f"{name}_kafka_offset",
        window=microseconds(pipeline.window_of(name)),
        lateness=microseconds(stream.event_time.lateness) or 0,
        ahead=microseconds(stream.event_time.ahead),
        punctuated_on=tuple(f"{name}_{column}" for column in stream.promised_on),
        keyed=stream.punctuation_scope == "partition",
        ordered=next(iter(stream.ordered.values()), None),
        unique=bool(stream.unique),
        idle=microseconds(stream.event_time.idle),
        clustered=bool(stream.clustered),
        forget_after=microseconds(stream.forget_keys_after),
        deduplication=_deduplication(stage, name),
        lost=tuple(stage.columns.lost_before(name)),
        times=pipeline.derived_times.get(name),
    )


def _plan(pipeline: Pipeline, name: str, side: SideSpec) -> StreamPlan:
    """Make the plan of a stream that is read, given the input that has its rows."""
    stream, stage = pipeline.streams[name], pipeline.stage_of(name)
    times = stream.event_time
    return StreamPlan(
        name=name,
        topic=stream.topic,
        columns=pipeline.stream_columns(name),
        punctuated_on=stream.punctuated_on,
        on=stage.key,
        parser=_parser(pipeline, name),
        beside_value=_beside_value(stream),
        side=replace(
            side,
            lateness=microseconds(times.lateness) or 0,
            ahead=microseconds(times.ahead),
            idle=microseconds(times.idle),
        ),
        keeps_value=bool(stage.columns.looked_up_steps(side.name))
        or any(lookup.fate == "dead_letter" for lookup in pipeline.lookups_of(side.name)),
        closing=closing(pipeline, name),
        heartbeat_on=stream.heartbeat_on,
        removes_rows=pipeline.removes_rows(name),
        steps=pipeline.row_steps_of(name),
    )


def _parser(pipeline: Pipeline, name: str) -> Callable[[], Parser]:
    """Return what makes the parser of a stream's records."""
    stream, key = pipeline.streams[name], pipeline.stage_of(name).key
    # A derived key is named by no punctuation.
    named = key if set(key) <= stream.columns.keys() else ()
    make = FORMATS[stream.format].parser
    return partial(make, stream, name, named, pipeline.deleted_on(name), schemas_of(pipeline, name))


def _beside_value(stream: Stream) -> RecordColumns | None:
    """Return the columns that a stream's records have beside their values; `None` without any."""
    of: dict[Origin, dict[str, tuple[str, ...]]] = {origin: {} for origin in Origin}
    for name, part in stream.parts.items():
        of[part.origin][name] = part.path
    if len(of[Origin.VALUE]) == len(stream.columns):
        return None
    return RecordColumns(
        stream.columns,
        keys=tuple(name for name, path in of[Origin.KEY].items() if not path),
        members={name: path for name, path in of[Origin.KEY].items() if path},
        headers={name: header for name, (header,) in of[Origin.HEADER].items()},
        timestamps=tuple(of[Origin.TIMESTAMP]),
    )


def record_needs(pipeline: Pipeline) -> dict[str, frozenset[str]]:
    """Return the columns beside the usual ones that records are read with, by topic."""
    found = {stream.topic: _beside_value(stream) for stream in pipeline.streams.values()}
    return {topic: columns.needs for topic, columns in found.items() if columns is not None}


def _deduplication(stage: Stage, stream: str) -> Deduplication | None:
    found = stage.pipeline.deduplicate_of(stream)
    if found is None:
        return None
    step, declared = found
    others = tuple(f"{stream}_{name}" for name in declared.by if name not in stage.key)
    return Deduplication(step, others, microseconds(declared.within))


def nobody(stream: StreamPlan) -> StreamPlan:
    """Return the plan of a stream that has ended before its first row.

    A left join with it makes each row of `stream` a result at once, and keeps none. So a stream without a
    join goes through the same operator.
    """
    side, types = stream.side, {name: stream.side.schema.field(name).type for name in stream.side.key.columns}
    ended = SideSpec(
        name=_NOBODY,
        key=side.key,
        time=side.time,
        schema=pa.schema(types),
        partition=None,
        offset=None,
        window=None,
        ended=True,
    )
    return StreamPlan(_NOBODY, "", {}, (), stream.on, ended)


def check_conditions(pipeline: Pipeline) -> None:
    """Check the conditions of joins, and the closing rules.

    Raises:
        ConfigError: one of them is no condition over the columns that it may use.
    """
    for stage in pipeline.stages:
        residual(stage)
    for stream in pipeline.streams:
        closing(pipeline, stream)


def check_schemas(pipeline: Pipeline) -> None:
    """Check that the schemas in files give the columns of their streams.

    No registry is asked.

    Raises:
        ConfigError: a schema cannot be read, or does not give the columns.
    """
    for name, stream in pipeline.streams.items():
        if stream.schema_file is None:
            continue
        found, parser = schemas_of(pipeline, name), _parser(pipeline, name)()
        if isinstance(found, SchemaFile) and isinstance(parser, FramedParser):
            try:
                parser.require(found.schema())
            except UnreadableError as why:
                raise ConfigError(f"streams.{name}.schema_file: {found.path}: {why}") from None


def residual(stage: Stage) -> Condition | None:
    """Return the residual condition of a stage's join; `None` without one.

    Raises:
        ConfigError: `where` is no condition over the columns of a pair.
    """
    # Tasks import this module, and DuckDB takes a tenth of a second to import.
    from endmark.expressions.condition import Condition

    if stage.join is None or stage.join.where is None:
        return None
    return Condition.of(stage.join.where, arrow_schema(stage.columns.of_pairs), f"{stage.field}.where")


def closing(pipeline: Pipeline, stream: str) -> ClosingPlan | None:
    """Return a stream's closing rule; `None` without one.

    Raises:
        ConfigError: its `when` is no condition over the stream's columns.
    """
    from endmark.expressions.condition import Condition

    declared = pipeline.streams[stream]
    if declared.closes is None:
        return None
    field = f"streams.{stream}.closes.when"
    return ClosingPlan(
        Condition.of(declared.closes.when, arrow_schema(declared.columns), field), declared.closes.on
    )


def arrow_schema(columns: dict[str, ColumnType]) -> pa.Schema:
    """Return the Arrow schema of columns, given their types by name."""
    return pa.schema([(name, kind.arrow) for name, kind in columns.items()])


def ddl(schema: pa.Schema) -> str:
    """Return Spark's DDL of a table's columns, with quoted names."""
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


def spark_type(kind: pa.DataType) -> str:
    """Return the name of a column's type in Spark's DDL."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    return _SPARK_TYPES[kind]


def microseconds(duration: timedelta | None) -> int | None:
    """Return a duration in microseconds; `None` stays `None`."""
    return None if duration is None else round(duration.total_seconds() * 1_000_000)

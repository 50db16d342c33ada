"""Checks of two streaming DataFrames, and their plans as inputs of a join."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import Column
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructType

from endmark.engine.streams import StreamPlan, microseconds
from endmark.errors import ConfigError
from endmark.operators.stream_join.side import SideSpec
from endmark.state.keys import KeySpec
from endmark.wire.json.column import is_restrictable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from endmark.wire.renamed_punctuations import Renaming

_SIDES = ("left", "right")
_ONE_VALUE_ONE_KEY = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_decimal128,
)
_LONGEST = timedelta(days=366_000)  # longer than the span of times that Spark knows; it fits into 64 bits


@dataclass(frozen=True)
class FrameInput:
    """One input of a join of frames.

    Args:
        frame: the frame.
        shown: the frame's columns by their names in results, without the column of punctuations.
        time: the column of event time, by the frame's own name.
        stream: the plan of the frame as a stream.
        punctuations: the position of the column of punctuations; `None` without one.
        renaming: how the columns were renamed since the punctuations were written; `None` if they were not.
    """

    frame: DataFrame
    shown: StructType
    time: str
    stream: StreamPlan
    punctuations: int | None
    renaming: Renaming | None

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of `shown`."""
        return self.stream.side.schema


def frame_inputs(
    left: DataFrame,
    right: DataFrame,
    on: str | Sequence[str | tuple[str, str]],
    time: str | tuple[str, str],
    window: timedelta | None,
    lateness: timedelta,
    punctuations: str | None,
    renamings: tuple[Renaming | None, Renaming | None],
) -> tuple[FrameInput, FrameInput]:
    """Check two frames, and return the inputs of their join.

    Args:
        left: the left frame.
        right: the right frame.
        on: the columns of the join key; a pair names the left and the right column.
        time: the column of event time; a pair names the left and the right column.
        window: how long a row stays joinable, in event time; `None` is for ever.
        lateness: how much older than the newest row of an earlier batch a row may be.
        punctuations: the frames' column of punctuations; `None` without one.
        renamings: for each frame, how its columns were renamed since its punctuations were written; `None` if
            they were not.

    Raises:
        ConfigError: a frame is no stream, a column is missing or of a type that is not allowed, or a duration
            is out of range.
    """
    pairs = [_pair(each) for each in names_of("on", on)]
    frames, times = (left, right), _pair(*names_of("time", [time]))
    shown = [_shown(side, frame, punctuations) for side, frame in zip(_SIDES, frames, strict=True)]
    schemas = [arrow_columns(fields) for fields in shown]
    keys = [tuple(pair[number] for pair in pairs) for number in range(2)]
    for side, frame, schema, key, at in zip(_SIDES, frames, schemas, keys, times, strict=True):
        require_streaming(f"the {side} frame", frame)
        _require_columns(side, schema, (*key, at))
        require_bytewise(frame.schema, key, "on")
    _require_times(times, schemas)
    if not pairs:
        raise ConfigError("on: it names no column; name one that both frames have")
    for pair in pairs:
        _require_key(pair, schemas, punctuated=punctuations is not None)
    _require_duration("lateness", lateness)
    if window is not None:
        _require_duration("window", window)
    positions = [None if punctuations is None else _position(frame, punctuations) for frame in frames]
    if punctuations is not None and positions == [None, None]:
        raise ConfigError(
            f"punctuations: neither frame has a column {punctuations!r}; name a string column of one of them"
        )
    streams = [
        frame_stream(side, schema, key, at, window, lateness, punctuated=position is not None)
        for side, schema, key, at, position in zip(_SIDES, schemas, keys, times, positions, strict=True)
    ]
    first, second = (
        FrameInput(*each) for each in zip(frames, shown, times, streams, positions, renamings, strict=True)
    )
    return first, second


def names_of(argument: str, given: Any) -> list[Any]:
    """Return the columns that an argument names, by their texts or by pairs of texts.

    Raises:
        ConfigError: the argument has a Column.
    """
    every = [given] if isinstance(given, str | Column) else list(given)
    for each in every:
        for name in each if isinstance(each, tuple) else (each,):
            if isinstance(name, Column):
                raise ConfigError(f"{argument}: {name!r} is a Column; name it by its text, such as 'id'")
    return every


def arrow_columns(fields: StructType) -> pa.Schema:
    """Return columns with their types in Arrow, by which rows go to Python.

    Raises:
        ConfigError: a column has a type that Arrow lacks.
    """
    columns = []
    for field in fields:
        try:
            columns += to_arrow_schema(StructType([field]), timezone="UTC")
        except PySparkTypeError as error:
            raise ConfigError(
                f"column {field.name} is {field.dataType.simpleString()}, which Python does not get from "
                "Spark; cast it, or leave it out"
            ) from error
    return pa.schema(columns)


def _pair(columns: str | tuple[str, str]) -> tuple[str, str]:
    return (columns, columns) if isinstance(columns, str) else columns


def _shown(side: str, frame: DataFrame, punctuations: str | None) -> StructType:
    """Return the frame's columns by their names in results. All are nullable, since outer rows have nulls."""
    fields = StructType()
    for field in frame.schema:
        if field.name != punctuations:
            fields = fields.add(f"{side}_{field.name}", field.dataType)
    return fields


def _position(frame: DataFrame, punctuations: str) -> int | None:
    if punctuations not in frame.columns:
        return None
    position = frame.columns.index(punctuations)
    kind = frame.schema[position].dataType
    if not isinstance(kind, StringType):
        raise ConfigError(
            f"punctuations: column {punctuations!r} is {kind.simpleString()}; cast it to string"
        )
    return position


def _require_columns(side: str, schema: pa.Schema, names: tuple[str, ...]) -> None:
    missing = [name for name in names if f"{side}_{name}" not in schema.names]
    if missing:
        raise ConfigError(f"on, time: the {side} frame has no column {', '.join(missing)}; name others")


def require_streaming(name: str, frame: DataFrame) -> None:
    """Refuse a frame that is no stream.

    Raises:
        ConfigError: the frame is a table.
    """
    if not frame.isStreaming:
        raise ConfigError(f"{name} is no stream; read it by spark.readStream instead of spark.read")


def _require_duration(name: str, duration: object) -> None:
    if not isinstance(duration, timedelta):
        raise ConfigError(f"{name}: {duration!r} is no timedelta; write one such as timedelta(hours=1)")
    if not timedelta(0) <= duration <= _LONGEST:
        raise ConfigError(f"{name}: {duration} is not between 0 and {_LONGEST.days} days")


def _require_times(times: tuple[str, str], schemas: list[pa.Schema]) -> None:
    """Refuse times that are no instants, or of which one has a time zone and the other has none.

    Numbers of days and of µs would be compared, and a wall clock with the time in UTC.
    """
    left, right = (
        schema.field(f"{side}_{name}").type for side, name, schema in zip(_SIDES, times, schemas, strict=True)
    )
    if left != right or not pa.types.is_timestamp(left):
        raise ConfigError(
            f"time: column {_spelt(times)} is {left} on the left, {right} on the right; cast both to "
            "timestamp"
        )


def _spelt(pair: tuple[str, str]) -> str:
    return repr(pair[0]) if pair[0] == pair[1] else repr(pair)


def _require_key(pair: tuple[str, str], schemas: list[pa.Schema], *, punctuated: bool) -> None:
    left, right = (
        schema.field(f"{side}_{name}").type for side, name, schema in zip(_SIDES, pair, schemas, strict=True)
    )
    name = _spelt(pair)
    if left != right:
        raise ConfigError(f"on: column {name} is {left} on the left, {right} on the right; cast one")
    if not is_key(left):
        raise ConfigError(f"on: column {name} is {left}, which is no key; cast it to string")
    if punctuated and not is_restrictable(left):
        raise ConfigError(
            f"on: column {name} is {left}, of which no punctuation can speak; cast it to timestamp"
        )


def require_bytewise(columns: StructType, names: Sequence[str], argument: str) -> None:
    """Refuse columns whose collation takes different texts for equal, since keys are compared by their bytes.

    Raises:
        ConfigError: a column has a collation other than UTF8_BINARY.
    """
    for name in names:
        kind = columns[name].dataType
        if isinstance(kind, StringType) and not kind.isUTF8BinaryCollation():
            raise ConfigError(
                f"{argument}: column {name!r} has the collation {kind.collation}, but texts are compared by "
                "their bytes; add a column such as lower(...) in its place, and collate it UTF8_BINARY"
            )


def is_key(kind: pa.DataType) -> bool:
    """Return whether columns of this type can be a key."""
    return any(fits(kind) for fits in _ONE_VALUE_ONE_KEY)


def frame_stream(
    name: str,
    schema: pa.Schema,
    on: tuple[str, ...],
    time: str,
    window: timedelta | None,
    lateness: timedelta,
    *,
    punctuated: bool,
) -> StreamPlan:
    """Return the plan of a frame as a stream of one partition.

    Punctuations of the frame may restrict each column whose type allows it. Those that are heartbeats advance
    its progress, too.

    Args:
        name: the stream's name; with `_` it is the prefix of the frame's columns in the join.
        schema: the frame's columns, with that prefix.
        on: the columns of the join key, by the frame's own names.
        time: the column of event time, by the frame's own name.
        window: how long a row stays joinable, in event time; `None` is for ever.
        lateness: how much older than the newest row of an earlier batch a row may be.
        punctuated: whether the frame has punctuations.
    """
    columns = [f"{name}_{column}" for column in on]
    restricted = [field.name for field in schema if punctuated and is_restrictable(field.type)]
    side = SideSpec(
        name=name,
        key=KeySpec.of(columns, [schema.field(column).type for column in columns]),
        time=f"{name}_{time}",
        schema=schema,
        partition=None,
        offset=None,
        window=microseconds(window),
        lateness=microseconds(lateness) or 0,
        punctuated_on=tuple(restricted),
    )
    # Spark may have a time of another type, such as one without a zone, that no timestamp can restrict.
    timed = schema.field(f"{name}_{time}").type == pa.timestamp("us", "UTC")
    return StreamPlan(name, name, {}, (), on, side, heartbeat_on=time if timed else None)

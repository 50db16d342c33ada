"""The stream join on any two streaming DataFrames."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from endmark.errors import ConfigError
from endmark.joins.presets import Preset, policy
from endmark.joins.side import SideSpec
from endmark.spark import channels
from endmark.spark.bucket_task import BucketPlan
from endmark.spark.channels import Buckets, Packer, stream_channel
from endmark.spark.plan import bucket_labels
from endmark.spark.processor import BucketProcessor
from endmark.spark.streams import StreamPlan, microseconds
from endmark.state.keys import KeySpec
from endmark.state.segment import int64
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from pyspark.sql import DataFrame

    from endmark.joins.residual import Residual

_Name = TypeVar("_Name", bound=StrEnum)
_ONE_VALUE_ONE_KEY = (
    pa.types.is_integer,
    pa.types.is_boolean,
    pa.types.is_date32,
    pa.types.is_timestamp,
    pa.types.is_string,
    pa.types.is_decimal128,
)


def stream_join(  # noqa: PLR0913  # each of them is a choice of its own
    left: DataFrame,
    right: DataFrame,
    *,
    on: str | list[str],
    how: str = "inner",
    where: str | None = None,
    time: str,
    window: timedelta | None,
    preset: str = "auto",
    purge_every: int = 1,
    memory: int | None = None,
    cache_name: str,
) -> DataFrame:
    """Join of two streaming DataFrames on columns of equal type, within a window of event time.

    Each frame counts as one stream in time order: a row older than the newest of an earlier batch is late and
    not joined. The result has the columns of both sides, prefixed with `left_` and `right_`; a semi join's
    has those of the left side. Rows without a partner come once their window is over.

    Args:
        on: columns of both frames: integers, booleans, dates, timestamps, strings or decimals. No nulls.
        how: `inner`, `left`, `right`, `full` or `semi`.
        where: an SQL condition over the prefixed columns of both sides that joined rows must also meet.
        time: timestamp column of both frames. No nulls.
        window: how long a row of either side stays joinable; `None` is for ever.
        preset: what frees state, by the name of a paper's join; `auto` does all that the rest allows.
        purge_every: so many punctuations of a frame make a purge of the other's rows.
        memory: bytes of rows that all buckets keep in memory; rows beyond are spilled.
        cache_name: directory, below the machine's temporary one, for local copies of segments.

    Raises:
        ConfigError: a column, the type of the join, the condition or the preset is not what it must be.
    """
    kind = _one_of(JoinType, how, "how")
    frames = {"left": left, "right": right}
    shown = {name: _prefixed(name, frame) for name, frame in frames.items()}
    schemas = {name: to_arrow_schema(fields, timezone="UTC") for name, fields in shown.items()}
    columns = (on,) if isinstance(on, str) else tuple(on)
    _check(schemas, columns, time)
    spark = left.sparkSession
    buckets = bucket_labels(spark, int(spark.conf.get("spark.sql.shuffle.partitions") or 2))
    plans = {name: _plan(name, schema, columns, time, window) for name, schema in schemas.items()}
    packed = [
        frame.mapInArrow(_PackRows(plans[name], buckets).__call__, channels.PACKED_DDL)
        for name, frame in frames.items()
    ]
    share = None if memory is None else memory // len(buckets)
    rules = policy(
        _one_of(Preset, preset, "preset"), windowed=window is not None, purge_every=purge_every, memory=share
    )
    said: dict[str, object] = {"how": how, "where": where, "time": time, "window": window, "preset": preset}
    said["purge_every"] = purge_every
    made_with = _made_with(schemas, columns, buckets, said)
    plan = BucketPlan(
        plans["left"], plans["right"], kind, _residual(schemas, where), rules, None, made_with=made_with
    )
    joined = _joined(packed, BucketProcessor(plan, cache_name))
    results = joined.where(F.col("channel") == channels.RESULTS).select("blob")
    return results.mapInArrow(channels.unpack, _result_schema(shown, kind))


def _result_schema(shown: dict[str, StructType], kind: JoinType) -> StructType:
    sides = ["left"] if kind is JoinType.SEMI else ["left", "right"]
    return StructType([field for side in sides for field in shown[side]])


def _joined(packed: list[DataFrame], processor: BucketProcessor) -> DataFrame:
    grouped = packed[0].union(packed[1]).groupBy("bucket")
    return grouped.transformWithState(processor, channels.UNPACKED_DDL, "append", "none")


def _made_with(
    schemas: dict[str, pa.Schema], on: tuple[str, ...], buckets: Buckets, said: dict[str, object]
) -> dict[str, str]:
    """What may not change while there is state, as text."""
    keys = ", ".join(f"{name} {schemas['left'].field(f'left_{name}').type}" for name in on)
    made = {"spark.sql.shuffle.partitions": str(len(buckets)), "on": keys}
    made |= {name: str(value) for name, value in said.items()}
    return made | {f"{side} columns": ", ".join(map(str, schema)) for side, schema in schemas.items()}


def _residual(schemas: dict[str, pa.Schema], where: str | None) -> Residual | None:
    # Tasks import this module, and DuckDB takes them a tenth of a second.
    from endmark.joins.residual import Residual

    pair = pa.schema([field for schema in schemas.values() for field in schema])
    return None if where is None else Residual.of(where, pair)


def _one_of(known: type[_Name], value: str, argument: str) -> _Name:
    try:
        return known(value)
    except ValueError as error:
        raise ConfigError(f"{argument}: {value!r} is not one of {', '.join(known)}") from error


def _prefixed(name: str, frame: DataFrame) -> StructType:
    """The frame's columns as results show them; any may be null beside a row without a partner."""
    fields = StructType()
    for field in frame.schema:
        fields = fields.add(f"{name}_{field.name}", field.dataType)
    return fields


def _check(schemas: dict[str, pa.Schema], on: tuple[str, ...], time: str) -> None:
    for side, schema in schemas.items():
        missing = [name for name in (*on, time) if f"{side}_{name}" not in schema.names]
        if missing or not on:
            raise ConfigError(f"on, time: the {side} frame has no column {', '.join(missing)}; name others")
    for name in on:
        left, right = (schema.field(f"{side}_{name}").type for side, schema in schemas.items())
        if left != right:
            raise ConfigError(f"on: column {name!r} is {left} on the left, {right} on the right; cast one")
        if not any(fits(left) for fits in _ONE_VALUE_ONE_KEY):
            raise ConfigError(f"on: column {name!r} is {left}, which is no key; cast it to string")


def _plan(
    name: str, schema: pa.Schema, on: tuple[str, ...], time: str, window: timedelta | None
) -> StreamPlan:
    columns = [f"{name}_{column}" for column in on]
    side = SideSpec(
        name=name,
        key=KeySpec.of(columns, [schema.field(column).type for column in columns]),
        time=f"{name}_{time}",
        schema=schema,
        partition=None,
        offset=None,
        window=microseconds(window),
    )
    return StreamPlan(name, name, {}, (), on, side, None)


class _PackRows:
    """For `mapInArrow`: packs the rows of one frame for the join."""

    def __init__(self, stream: StreamPlan, buckets: Buckets) -> None:
        self._stream = stream
        self._buckets = buckets

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        packer = Packer()
        side = self._stream.side
        newest = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            rows = pa.record_batch(batch.columns, names=side.schema.names)
            for name in (*side.key.columns, side.time):
                if rows.column(name).null_count:
                    raise ConfigError(f"column {name} has nulls, which no row can be joined by; filter them")
            last = int(np.max(int64(rows.column(side.time))))
            newest = last if newest is None else max(newest, last)
            for label, share in self._buckets.by_key(rows, side.key):
                packer.add(label, stream_channel(channels.ROWS, self._stream.name), share)
            yield from packer.flush()
        if newest is not None:
            for label in self._buckets.labels:
                packer.add_json(label, stream_channel(channels.PROGRESS, self._stream.name), {"0": newest})
            yield from packer.flush()

"""What the tasks of a query need to know of a pipeline: plain values that travel with the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.aggregate.closing import MeasureSpec
from endmark.joins.side import SideSpec

if TYPE_CHECKING:
    from datetime import timedelta

    from endmark.pipeline import Pipeline
    from endmark.types import ColumnType


_SPARK_TYPES = {
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.string(): "string",
    pa.bool_(): "boolean",
    pa.binary(): "binary",
    pa.timestamp("us", "UTC"): "timestamp",
}


@dataclass(frozen=True)
class StreamPlan:
    """One stream: how its records are read, and how they enter the join."""

    name: str
    topic: str
    columns: dict[str, ColumnType]
    punctuated_on: str | None
    side: SideSpec
    lookup_key: str | None  # output name of the column that is looked up, on the lookup stream


@dataclass(frozen=True)
class GroupPlan:
    """The closing group-by over the join's results."""

    key: str
    output_key: str
    measures: list[MeasureSpec]


def stream_plans(pipeline: Pipeline, partitions: dict[str, int]) -> dict[str, StreamPlan]:
    """Plans by stream name; `partitions` is the number of partitions by topic."""
    windows = dict(zip(pipeline.sides, (pipeline.join.window.left, pipeline.join.window.right), strict=True))
    plans = {}
    for name in pipeline.sides:
        stream = pipeline.streams[name]
        side = SideSpec(
            name=name,
            key=f"{name}_{pipeline.join.on}",
            time=f"{name}_{stream.event_time.column}",
            partition=f"{name}_kafka_partition",
            offset=f"{name}_kafka_offset",
            window=microseconds(windows[name]),
            lateness=microseconds(stream.event_time.lateness) or 0,
            partitions=partitions[stream.topic],
        )
        looked_up = name == pipeline.lookup.stream
        plans[name] = StreamPlan(
            name=name,
            topic=stream.topic,
            columns=dict(stream.columns),
            punctuated_on=stream.punctuated_on,
            side=side,
            lookup_key=f"{name}_{pipeline.lookup.key}" if looked_up else None,
        )
    return plans


def group_plan(pipeline: Pipeline) -> GroupPlan:
    columns = pipeline.group_columns()
    measures = [
        MeasureSpec(
            name=name,
            function=measure.function,
            column=None if measure.column is None else measure.column.replace(".", "_", 1),
            kind=columns[name].arrow,
        )
        for name, measure in pipeline.aggregate.measures.items()
    ]
    return GroupPlan(f"{pipeline.join.left}_{pipeline.join.on}", pipeline.aggregate.by, measures)


def arrow_schema(columns: dict[str, ColumnType]) -> pa.Schema:
    return pa.schema([(name, kind.arrow) for name, kind in columns.items()])


def ddl(schema: pa.Schema) -> str:
    """Spark DDL of a table's columns, quoted."""
    return ", ".join(f"`{field.name}` {_SPARK_TYPES[field.type]}" for field in schema)


def microseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else round(duration.total_seconds() * 1_000_000)

"""The stream join on any two streaming DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from endmark.joins.side import SideSpec
from endmark.spark import channels
from endmark.spark.bucket_task import BucketPlan
from endmark.spark.channels import Buckets, Packer, stream_channel
from endmark.spark.plan import bucket_labels
from endmark.spark.processor import BucketProcessor
from endmark.spark.streams import StreamPlan, microseconds
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import timedelta

    from pyspark.sql import DataFrame


def stream_join(
    left: DataFrame, right: DataFrame, *, on: str, time: str, window: timedelta | None, cache_name: str
) -> DataFrame:
    """Inner join of two streaming DataFrames on a bigint column, within a window of event time.

    Each frame counts as one stream in time order: a row older than the newest of an earlier batch is late and
    not joined. The result has the columns of both sides, prefixed with `left_` and `right_`.

    Args:
        on: bigint column of both frames.
        time: timestamp column of both frames.
        window: how long a row of either side stays joinable; `None` is for ever.
        cache_name: directory, below the machine's temporary one, for local copies of segments.
    """
    spark = left.sparkSession
    buckets = bucket_labels(spark, int(spark.conf.get("spark.sql.shuffle.partitions") or 2))
    frames = {"left": left, "right": right}
    plans = {name: _plan(name, on, time, window) for name in frames}
    packed = [
        frame.mapInArrow(_PackRows(plans[name], buckets).__call__, channels.PACKED_DDL)
        for name, frame in frames.items()
    ]
    columns = [(f"{name}_{field.name}", field) for name, frame in frames.items() for field in frame.schema]
    plan = BucketPlan(plans["left"], plans["right"], [name for name, _ in columns], None)
    joined = (
        packed[0]
        .union(packed[1])
        .groupBy("bucket")
        .transformWithState(BucketProcessor(plan, cache_name), channels.UNPACKED_DDL, "append", "none")
    )
    ddl = ", ".join(f"`{name}` {field.dataType.simpleString()}" for name, field in columns)
    results = joined.where(F.col("channel") == channels.RESULTS).select("blob")
    return results.mapInArrow(channels.unpack, ddl)


def _plan(name: str, on: str, time: str, window: timedelta | None) -> StreamPlan:
    side = SideSpec(name, f"{name}_{on}", f"{name}_{time}", None, None, microseconds(window))
    return StreamPlan(name, name, {}, None, side, None)


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
            names = [f"{self._stream.name}_{name}" for name in batch.schema.names]
            rows = pa.record_batch(batch.columns, names=names)
            last = int(np.max(int64(rows.column(side.time))))
            newest = last if newest is None else max(newest, last)
            keys = self._buckets.of_keys(int64(rows.column(side.key)))
            for label, share in self._buckets.split(rows, keys, side.key):
                packer.add(label, stream_channel(channels.ROWS, self._stream.name), share)
            yield from packer.flush()
        if newest is not None:
            for label in self._buckets.labels:
                packer.add_json(label, stream_channel(channels.PROGRESS, self._stream.name), {"0": newest})
            yield from packer.flush()

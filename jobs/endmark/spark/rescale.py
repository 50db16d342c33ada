"""More buckets for a checkpoint with state: each bucket is split into several, and no record is read again.

The state of all buckets is copied, and Spark gets more partitions of state. A bucket keeps its label and its
state, and drops keys that are not its own any more. Each new bucket takes over a copy, and drops the others.
They do so in the first batch (`endmark.engine.earlier_buckets`).
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.driver import checkpoint as checkpoints
from endmark.driver.planned_batches import begun_partitions, newest, state_partitions, unfinished_batch
from endmark.engine.stored_task import SNAPSHOT, is_idle
from endmark.spark.plan import bucket_labels
from endmark.storage import entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from endmark.engine.earlier_buckets import EarlierState
    from endmark.storage import Location


PARTITIONS = "spark.sql.shuffle.partitions"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


def can_rescale(spark: SparkSession, checkpoint: Location) -> bool:
    """Return whether the last batch is finished and no row waits in a lookup."""
    inner = checkpoint.resolve() / "spark"
    # A crash may have left Spark's own batch, which Spark repeats.
    if begun_partitions(inner) is None and unfinished_batch(inner):
        return False
    snapshots = (
        row for stage in _states(spark, inner) for row in stage.where(stage.id == SNAPSHOT).collect()
    )
    return all(is_idle(bytes(row.data)) for row in snapshots)


def rescale(
    spark: SparkSession, checkpoint: Location, before: int, buckets: int, say: Callable[[str], None]
) -> None:
    """Split the buckets of a checkpoint. A crash does no harm: the next call begins anew.

    Args:
        spark: the session.
        checkpoint: the directory of the checkpoint, which is locked and runs no query. It is one that
            `can_rescale`.
        before: the number of buckets that there are.
        buckets: the number of buckets that there will be, a multiple of `before`.
        say: called with a line of progress.
    """
    inner = checkpoint.resolve() / "spark"
    last = newest(inner / "commits")
    fewer = checkpoints.fewer_buckets(checkpoint)
    if fewer is not None:  # no batch has run since they were split, so the state is still theirs
        before = fewer.buckets
    if last is not None:
        stages = _states(spark, inner)
        earlier = checkpoints.earlier_buckets(checkpoint, before)
        size = 0
        with _small_batches(spark):
            for number, label in enumerate(bucket_labels(spark, before).labels):
                for stage, rows in enumerate(stages):
                    state = earlier.state(stage, number)
                    copy = partial(_copied, state)
                    copied = rows.where(rows.bucket == label).mapInArrow(copy, "size long").collect()
                    if not copied:  # no record has come to the bucket, so it has no state
                        state.write([])
                    size += sum(row.size for row in copied)
        say(f"copied {size:,} bytes of state for {buckets} buckets in place of {before}")
        if state_partitions(inner, last) != buckets:
            spark._streamingCheckpointManager.repartition(_text(inner), buckets)
    checkpoints.rescaled(checkpoint, before, buckets)


@contextmanager
def _small_batches(spark: SparkSession) -> Iterator[None]:
    """Let Python get few blobs at a time. A session of ours else hands over up to 2 GB at once."""
    before = spark.conf.get(_BATCH_BYTES) or 0
    spark.conf.set(_BATCH_BYTES, 1 << 26)
    try:
        yield
    finally:
        spark.conf.set(_BATCH_BYTES, before)


def _states(spark: SparkSession, inner: Location) -> list[DataFrame]:
    """Return the state of each stage in the order of the plan, one row (bucket, id, data) for each blob.

    Spark numbers the operators of a plan from its end: the last stage is operator 0. A checkpoint of two
    stages whose buckets were doubled in Spark's order got the state of the other stage, and never ran again.
    """
    _ = spark.streams  # which starts the coordinator of state stores that the reader asks
    found: list[DataFrame] = []
    while entries(inner / "state" / str(len(found)) / "_metadata", below=True):
        rows = spark.read.format("statestore").option("path", _text(inner))
        rows = rows.option("operatorId", len(found)).option("stateVarName", "state")
        found.append(rows.load().selectExpr("key.bucket", "user_map_key.id", "user_map_value.data"))
    return found[::-1]


def _text(location: Location) -> str:
    return str(location) if isinstance(location, Path) else location.for_hadoop


def _copied(state: EarlierState, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Copy the blobs of one bucket; a function for `mapInArrow`. They are all in one partition."""
    blobs = ((row["id"].as_py(), row["data"].as_py()) for batch in batches for row in batch.to_struct_array())
    if (first := next(blobs, None)) is not None:
        yield pa.record_batch({"size": [state.write(chain([first], blobs))]})

"""A program that does what a job does until its first batch is written, so that Java loads a job's classes.

It reads two rows instead of topics. Its arguments are the jars of a session.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from endmark.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

_DDL = "bucket int, blob binary"


def exercise(jars: Sequence[Path]) -> None:
    """Run the exercise, and wait until Java has ended, since Java writes the archive when it ends."""
    spark = start_session(
        "classes", list(jars), master="local[2]", shuffle_partitions=2, driver_memory="1g", delta=False
    )
    with tempfile.TemporaryDirectory() as scratch:
        _run_query(spark, Path(scratch))
    spark.stop()
    gateway: Any = SparkContext._gateway
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _run_query(spark: SparkSession, scratch: Path) -> None:
    """Run a query with a source and all kinds of stages that a job's query has."""
    spark.dataSource.register(_Numbers)
    rows = spark.readStream.format(_Numbers.name()).load()
    writer = through(rows).writeStream.option("checkpointLocation", str(scratch / "checkpoint"))
    writer.trigger(availableNow=True).foreachBatch(_collect).start().awaitTermination()


def through(rows: DataFrame) -> DataFrame:
    """Return rows of (bucket, blob) after they have passed Python, a shuffle, state and Python."""
    packed = rows.mapInArrow(_same, _DDL)
    kept = packed.groupBy("bucket").transformWithState(_Keep(), _DDL, "append", "none")
    return kept.mapInArrow(_same, _DDL)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


class _Keep(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._blobs = handle.getMapState("blobs", "id string", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Keep the last blob of each key and yield all rows, as a stateful query does."""
        self._blobs.getValue(("last",))
        for row in rows:
            self._blobs.updateValue(("last",), (bytes(row.blob),))
            yield row

    def close(self) -> None:
        pass


class _Numbers(DataSource):
    """A source in Python, as a job's is, that has two rows."""

    def schema(self) -> str:
        return _DDL

    def streamReader(self, schema: StructType) -> _Reader:  # noqa: N802
        return _Reader()


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"read": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(2)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        pass

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        return {"read": 2}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(start["read"], end["read"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"bucket": pa.array([partition.value], pa.int32()), "blob": pa.array([b""])})


def _collect(batch: DataFrame, _: int) -> None:
    batch.collect()


if __name__ == "__main__":
    exercise([Path(jar) for jar in sys.argv[1:]])

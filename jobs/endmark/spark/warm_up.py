"""The warm-up starts the slow parts of Spark's tasks while the driver checks topics and plans the query.

Python workers, RocksDB's library and the code of shuffles took 3 of the 7 s of a job's first tasks.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

_DDL = "bucket int, blob binary"


def warm_up(spark: SparkSession, tasks: int) -> None:
    """Send a row through each kind of stage of a query, in `tasks` tasks."""
    spark.streams  # noqa: B018  # this starts the coordinator that tasks ask where state is
    # The query would fail a moment later for the same reason, and report it.
    with suppress(Exception):
        stages(spark, tasks).collect()


def stages(spark: SparkSession, tasks: int) -> DataFrame:
    """Return a frame with one row for each task that has passed Python, a shuffle, state and Python."""
    numbers = spark.range(0, tasks, 1, tasks)
    return through(numbers.selectExpr("cast(id as int) bucket", "cast('' as binary) blob"))


def through(rows: DataFrame) -> DataFrame:
    """Return rows of (bucket, blob) after they have passed Python, a shuffle, state and Python."""
    packed = rows.mapInArrow(_same, _DDL)
    kept = packed.groupBy("bucket").transformWithState(_Keep(), _DDL, "append", "none")
    return kept.mapInArrow(_same, _DDL)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


class _Keep(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._blob = handle.getValueState("blob", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Keep the last blob of each key and yield all rows, as a stateful query does."""
        self._blob.get()
        for row in rows:
            self._blob.update((bytes(row.blob),))
            yield row

    def close(self) -> None:
        pass

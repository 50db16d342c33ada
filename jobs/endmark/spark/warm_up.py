"""The warm-up does on one core, while the other plans the query, what Spark is slow to do for the first time.

Python workers, RocksDB's library and the code of shuffles were 3 of the 7 s that a job's first tasks took.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession

_DDL = "bucket int, blob binary"


def warm_up(spark: SparkSession, tasks: int) -> None:
    """Send a row through each kind of stage that queries have, in so many tasks, and return at once."""
    spark.streams  # noqa: B018  # which starts what knows where state is, and that tasks ask

    def run() -> None:
        # A failure would be the query's own a moment later, which says what it is.
        with suppress(Exception):
            stages(spark, tasks).collect()

    threading.Thread(target=run, name="warm-up", daemon=True).start()


def stages(spark: SparkSession, tasks: int) -> DataFrame:
    """A row for each task, as it was, behind Python, a shuffle, state and Python."""
    numbers = spark.range(0, tasks, 1, tasks)
    return through(numbers.selectExpr("cast(id as int) bucket", "cast('' as binary) blob"))


def through(rows: DataFrame) -> DataFrame:
    """Rows of (bucket, blob) behind these stages."""
    packed = rows.mapInArrow(_same, _DDL)
    kept = packed.groupBy("bucket").transformWithState(_Keep(), _DDL, "append", "none")
    return kept.mapInArrow(_same, _DDL)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


class _Keep(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self._blob = handle.getValueState("blob", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Keep the last blob of each key and yield all rows, so that Spark compiles the code of a stateful
        query.
        """
        self._blob.get()
        for row in rows:
            self._blob.update((bytes(row.blob),))
            yield row

    def close(self) -> None:
        pass

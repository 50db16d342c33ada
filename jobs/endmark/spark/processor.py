"""The stateful operators: one task per grouping key, with its segments in Spark's state store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StringType, StructType

from endmark.errors import failing_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    import pyarrow as pa

    from endmark.engine.bucket.plan import BucketPlan
    from endmark.engine.delta_files import OutputFiles
    from endmark.engine.derived_stream import DerivedStream
    from endmark.engine.earlier_buckets import StageBuckets
    from endmark.engine.groups.stage import GroupStage
    from endmark.engine.stored_task import StoredTask
    from endmark.profile import Profile

    Output = tuple[int, str, bytes | pa.RecordBatch]  # of a task: a label, a channel and rows or a blob

# No checkpoint can be read with other types. As texts, the JVM would parse them four times for each task.
STATE_KEY = StructType().add("id", StringType())
STATE_VALUE = StructType().add("data", BinaryType())
_AS_SPARK_DOES: Any = CloudPickleSerializer()  # type: ignore[no-untyped-call]


class StageProcessor(StatefulProcessor):
    """A processor for `transformWithState` over packed rows that are grouped by bucket.

    While Spark plans a query, it waits for a Python process that only calls `init`. So the plan stays pickled
    until rows come, and its modules are imported then. A job starts a second sooner by that.

    Args:
        plan: the plan of the stage.
        files: the tables that the stage's tasks write files for.
        buckets: the buckets of the stage; `None` if their number never changes.
        onward: the plan of the stage that takes the results or final groups; `None`: they go to the sink.
    """

    def __init__(
        self,
        plan: BucketPlan | GroupStage,
        files: OutputFiles | None = None,
        buckets: StageBuckets | None = None,
        onward: DerivedStream | GroupStage | None = None,
    ) -> None:
        self._plan: bytes = _AS_SPARK_DOES.dumps(plan)
        self._files: bytes = _AS_SPARK_DOES.dumps(files)
        self._buckets: bytes = _AS_SPARK_DOES.dumps(buckets)
        self._onward: bytes = _AS_SPARK_DOES.dumps(onward)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("state", STATE_KEY, STATE_VALUE)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Run a batch of one bucket. Spark calls this.

        Args:
            key: the label of the bucket.
            rows: packed rows.
            timerValues: unused; buckets have no timers.
        """
        packed = ((row.channel, bytes(row.blob)) for row in rows)
        with failing_at(lambda: f"bucket {key[0]}"):
            yield from self._rows(key[0], packed)

    def _task(self, label: int) -> StoredTask:
        """Return the task of a bucket with its state, given its label."""
        from endmark.engine.segment_cache import cache_directory
        from endmark.engine.stored_task import StoredTask

        plan, buckets = _AS_SPARK_DOES.loads(self._plan), _AS_SPARK_DOES.loads(self._buckets)
        taken_over = None if buckets is None else buckets.taken_over(label)
        return StoredTask(plan, self._state, cache_directory(), taken_over)

    def _rows(self, label: int, packed: Iterator[tuple[str, bytes]]) -> Iterator[Row]:
        """Yield the output of a bucket as rows, given its label and its blobs."""
        onward: DerivedStream | GroupStage | None = _AS_SPARK_DOES.loads(self._onward)
        task = self._task(label)
        output = task.run(packed)
        if onward is None:
            for _, channel, blob in self._packed(label, ((label, *each) for each in output), task.profile):
                yield Row(channel=channel, blob=blob)
        else:
            for bucket, channel, blob in self._packed(label, onward.hand_over(label, output), task.profile):
                yield Row(bucket=bucket, channel=channel, blob=blob)

    def _packed(
        self, label: int, output: Iterable[Output], profile: Profile
    ) -> Iterator[tuple[int, str, bytes]]:
        """Write the files of a bucket's output, and yield what leaves the task, packed."""
        from endmark.engine.delta_files import TaskFiles
        from endmark.state import codec

        files: OutputFiles | None = _AS_SPARK_DOES.loads(self._files)
        writer = None if files is None else TaskFiles(files, _batch_number(), profile)
        for bucket, channel, rows in output:
            if writer is None or not writer.take(channel, rows):
                yield bucket, channel, rows if isinstance(rows, bytes) else codec.encode(rows)
        if writer is not None:
            for channel, blob in writer.finish():
                yield label, channel, blob

    def close(self) -> None:
        pass


class ResultsProcessor(StageProcessor):
    """A processor for `transformWithStateInPandas` that puts out only results, as columns.

    If results were blobs, each task would need one more process to unpack them, and all bytes would be copied
    to that process and back.
    """

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:  # noqa: N802, N803
        """Run a batch of one bucket. Spark calls this.

        Args:
            key: the label of the bucket.
            rows: packed rows.
            timerValues: unused; buckets have no timers.
        """
        packed = ((row.channel, row.blob) for frame in rows for row in frame.itertuples(index=False))
        with failing_at(lambda: f"bucket {key[0]}"):
            for _, output in self._task(key[0]).run(packed):
                if not isinstance(output, bytes):
                    yield _as_frame(output)


def _as_frame(batch: pa.RecordBatch) -> pd.DataFrame:
    """Wrap a batch as a pandas frame without a copy; pyspark takes the Arrow columns out again."""
    import pandas as pd

    columns = zip(batch.schema.names, map(pd.arrays.ArrowExtensionArray, batch.columns), strict=True)
    return pd.DataFrame(dict(columns), copy=False)


def _batch_number() -> int:
    """Return the number of the batch that this task belongs to."""
    task = TaskContext.get()
    if task is None or (number := task.getLocalProperty("streaming.sql.batchId")) is None:
        raise AssertionError("Spark does not say which batch this task belongs to")
    return int(number)

"""The source of a job: Kafka's records, which go through a function where they are read.

Spark plans and checkpoints offsets, and its tasks read their ranges with librdkafka. So a record crosses from
Java to Python never, and from Python to Java once, in a packed row. With Spark's own source, each record was
a row of Spark in Java, and then one of Arrow. A job that read two million records took 84 s of CPU then, and
73 s with this source and a shorter start: Java 53 and 37, Python 31 and 36.
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.cloudpickle import dumps, loads
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from endmark.kafka.cluster import cluster_of
from endmark.kafka.gaps import past

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.kafka.gaps import Gap
    from endmark.kafka.offsets import Offsets, TopicEnds
    from endmark.kafka.ranges import Range

    Through = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_numbers = itertools.count()


@dataclass(frozen=True)
class KafkaSource:
    """The topics that a query reads.

    Args:
        kafka: the Kafka cluster, or the addresses of its brokers.
        topics: the topics.
        max_records_per_batch: the most records that a batch reads.
        start: the offsets at which the first batch begins. A partition that is missing there is read from 0.
            `None` is the first offsets that Kafka holds when the first batch is planned.
        needs: the columns beside the usual ones with which records are read, by topic, as
            `endmark.kafka.ranges.read` has them.
        ids: the ids of the topics that the checkpoint has read. A batch is refused if a topic has another id.
        gaps: the offsets that batches skip, since Kafka has dropped their records.
    """

    kafka: ClusterOrAddress
    topics: tuple[str, ...]
    max_records_per_batch: int
    start: Offsets | None = None
    needs: Mapping[str, Collection[str]] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)
    gaps: tuple[Gap, ...] = ()

    def stream(self, spark: SparkSession, through: Through, columns: str) -> DataFrame:
        """Return the streaming frame of what a function makes of the records, as `plan.Source` has it."""
        plan = _Plan(
            self,
            cluster_of(self.kafka).librdkafka(),
            # The process that plans offsets need not import what the function does.
            dumps(through),  # type: ignore[no-untyped-call]
            columns,
            reading_tasks(spark),
        )

        class Source(_Source):
            def __init__(self, options: Any) -> None:
                super().__init__(options)
                self.plan = plan

            @classmethod
            def name(cls) -> str:
                return format_name

        format_name = f"endmark_kafka_{next(_numbers)}"
        spark.dataSource.register(Source)
        return spark.readStream.format(format_name).load()


def reading_tasks(spark: SparkSession) -> int:
    """Return the most tasks that read a batch: the cores of a machine, or those that a cluster may give.

    A query is planned once, and executors may come later: a job that began with one executor would read with
    two tasks for ever. It has as many buckets as the cores that it is to use.
    """
    cores = spark.sparkContext.defaultParallelism
    if str(spark.sparkContext.master).startswith("local"):
        return cores
    return max(cores, int(spark.conf.get("spark.sql.shuffle.partitions") or cores))


@dataclass(frozen=True)
class _Plan:
    """A source in the form in which Spark's processes get it."""

    source: KafkaSource
    settings: dict[str, Any] = field(repr=False)  # with the password
    through: bytes
    columns: str
    tasks: int


class _Source(DataSource):
    plan: _Plan

    def schema(self) -> str:
        return self.plan.columns

    def streamReader(self, schema: StructType) -> _Reader:  # noqa: N802
        return _Reader(self.plan)


class _Ranges(InputPartition):
    def __init__(self, ranges: list[Range]) -> None:
        super().__init__(ranges)


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the offsets of batches in a process of the driver, and reads them in tasks.

    Each method imports what it needs. Spark starts three processes with this class for each query, one after
    the other, and the clients of Kafka would take 0.3 s of a core in each of them.
    """

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._ends: TopicEnds | None = None
        self._last: Offsets | None = None

    @property
    def _topics(self) -> TopicEnds:
        from endmark.kafka.offsets import TopicEnds

        if self._ends is None:
            source = self._plan.source
            self._ends = TopicEnds(source.kafka, source.topics, ids=source.ids)
        return self._ends

    def initialOffset(self) -> Offsets:  # noqa: N802
        start = self._plan.source.start
        return self._topics.first() if start is None else start

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._plan.source.max_records_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = self._topics.ends()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        from endmark.kafka.offsets import limited

        most = limit.max_rows if isinstance(limit, ReadMaxRows) else sys.maxsize
        # A gap counts for no batch. Else a long one would be many batches without a record.
        return limited(past(start, self._plan.source.gaps), self._last or self._topics.ends(), most)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        from endmark.kafka.offsets import ranges, shared_out

        read = ranges(past(start, self._plan.source.gaps), end)
        return [_Ranges(share) for share in shared_out(read, self._plan.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from endmark.kafka.ranges import read

        through: Through = loads(self._plan.through)
        return through(read(self._plan.settings, partition.value, self._plan.source.needs))

    def stop(self) -> None:
        if self._ends is not None:
            self._ends.close()

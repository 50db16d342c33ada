"""A pipeline from Kafka to Delta tables as one would write it in Spark without endmark: source, task and run.

A contender reads its task as JSON from standard input, and prints its batches as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pyspark.sql import functions as F  # noqa: N812

from endmark.engine.streams import arrow_schema, ddl
from endmark_benchmarks.contenders import query
from endmark_benchmarks.contenders.query import progress_of
from endmark_benchmarks.workloads.measured import Measured
from endmark_benchmarks.workloads.recorded import Servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from endmark.pipeline import Pipeline


@dataclass(frozen=True)
class Task:
    """The task of a contender.

    Args:
        contender: its name.
        servers: the broker to read from, and the database with the master tables.
        pipeline: the pipeline whose tables it writes.
        directory: the place of its tables and checkpoint.
        at_once: the most records of a batch, by stream.
    """

    contender: str
    servers: Servers
    pipeline: Pipeline
    directory: Path
    at_once: dict[str, int]

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        servers = Servers(**values["servers"])
        pipeline = Measured.of(values["measured"]).load(servers.relation_url)
        return cls(values["contender"], servers, pipeline, Path(values["directory"]), dict(values["at_once"]))

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse"


def run(
    stream: Callable[[SparkSession, Task], DataFrame],
    sink: Callable[[SparkSession, Task], Callable[[DataFrame, int], None]],
) -> None:
    """Run a contender on the task of standard input, and print its batches.

    Args:
        stream: returns the stream of a task.
        sink: returns what `foreachBatch` does with the rows of a batch, and its number.
    """
    values: dict[str, Any] = json.load(sys.stdin)
    task = Task.of(values)
    spark = query.session(task.contender, values["jars"], driver_memory=values["driver_memory"])
    try:
        if task.contender == query.ON_HEAP:
            query.keep_state_on_heap(spark)
        writer = stream(spark, task).writeStream.foreachBatch(sink(spark, task))
        writer = writer.option("checkpointLocation", str(task.directory / "checkpoint"))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        print(json.dumps({"batches": batches(running)}))
    finally:
        spark.stop()


# At a topic's end a fetch waits for half a second by default. With a wait of 1 ms, a batch that reads all
# records of eight partitions takes 0.6 s on two cores instead of 2.8 s. With polls of 50,000 records instead
# of 500, batches of 150,000 records are read in half the time.
_PROMPT = {"kafka.fetch.max.wait.ms": "1", "kafka.max.poll.records": "50000"}


def rows_of(spark: SparkSession, task: Task, name: str) -> DataFrame:
    """Return the rows of a stream, with their coordinates.

    Args:
        spark: the session, with the jars of Spark's Kafka source.
        task: the task.
        name: the name of the stream, with which its columns begin.
    """
    stream = task.pipeline.streams[name]
    columns = list(stream.columns)
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", task.servers.bootstrap)
        .option("subscribe", stream.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(task.at_once[name]))
        .options(**_PROMPT)
        .load()
    )
    read = F.from_json(F.col("value").cast("string"), ddl(arrow_schema(stream.columns))).alias("row")
    rows = records.select(read, "partition", "offset").where(f"row.{columns[0]} is not null")
    return rows.select(
        *(F.col(f"row.{column}").alias(f"{name}_{column}") for column in columns),
        F.col("partition").cast("long").alias(f"{name}_kafka_partition"),
        F.col("offset").alias(f"{name}_kafka_offset"),
    )


def append(rows: DataFrame, table: Path, number: int) -> None:
    """Write the rows of a batch to a Delta table, exactly once.

    Args:
        rows: the rows.
        table: the directory of the table.
        number: the number of the batch.
    """
    writer = rows.write.format("delta").mode("append").option("txnAppId", "bench")
    writer.option("txnVersion", number).save(str(table))


def batches(query: StreamingQuery) -> list[dict[str, float]]:
    """Records and seconds of each batch that read any."""
    found = []
    for progress in progress_of(query):
        read = sum(
            _offset(source["endOffset"]) - _offset(source["startOffset"]) for source in progress["sources"]
        )
        if read:
            found.append({"records": read, "seconds": progress["durationMs"]["triggerExecution"] / 1000})
    return found


def _offset(place: str | None) -> int:
    """Records before a place in a topic; the first batch begins at none."""
    ends = json.loads(place) if place and place.startswith("{") else {}
    return sum(end for partitions in ends.values() for end in partitions.values())

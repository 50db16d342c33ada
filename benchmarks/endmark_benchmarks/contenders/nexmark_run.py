"""One contender of a Nexmark query in Spark over a recording, in a process of its own.

Reads a task as JSON from standard input, and prints its figures as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812

from endmark.engine.streams import ddl
from endmark.frame import PunctuatedFrame
from endmark_benchmarks.contenders import query
from endmark_benchmarks.contenders.nexmark_ours import OURS
from endmark_benchmarks.harness.contest import Digest
from endmark_benchmarks.workloads.nexmark.events import SCHEMAS
from endmark_benchmarks.workloads.nexmark.queries import QUERIES
from endmark_benchmarks.workloads.nexmark.record import OVER, Recording

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MICROS = "unix_micros"
_SLACK = "1 second"  # Spark drops rows whose time equals the watermark


def files(spark: SparkSession, recording: Recording, stream: str) -> DataFrame:
    """Return a recorded stream with its column of punctuations.

    Args:
        spark: the session.
        recording: the recorded input.
        stream: the name of the stream.
    """
    columns = ddl(SCHEMAS[stream].append(pa.field(OVER, pa.string())))
    return query.files(spark, recording.stream(stream), columns, recording.files_per_batch)


def ours(spark: SparkSession, name: str, recording: Recording) -> PunctuatedFrame:
    """Return the answers to a query on frames.

    Args:
        spark: the session.
        name: the query.
        recording: the recorded input.
    """
    streams = QUERIES[name].streams
    frames = {stream: PunctuatedFrame(files(spark, recording, stream), OVER) for stream in streams}
    return OURS[name](frames, recording)


def in_sql(spark: SparkSession, name: str, recording: Recording, *, bounded: bool) -> DataFrame:
    """Return the answers to a query by Spark's own operators.

    Args:
        spark: the session.
        name: the query.
        recording: the recorded input.
        bounded: bound the time of what the operators keep.
    """
    asked = QUERIES[name]
    for stream in asked.streams:
        rows = files(spark, recording, stream).where(F.col(OVER).isNull()).drop(OVER)
        (rows.withWatermark("date_time", _SLACK) if bounded else rows).createOrReplaceTempView(stream)
    spark.read.parquet(str(recording.side_rows)).createOrReplaceTempView("side_input")
    return spark.sql(asked.bounded(recording, MICROS) if bounded else asked.standard(MICROS))


def answers(spark: SparkSession, task: dict[str, Any], recording: Recording) -> DataFrame:
    """Return the answers of the contender that a task names.

    Args:
        spark: the session.
        task: the contender and its query.
        recording: the recorded input.
    """
    contender, name = task["contender"], task["query"]
    if contender == "endmark":
        return ours(spark, name, recording).rows
    return in_sql(spark, name, recording, bounded=contender == "spark-bounded")


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    recording = Recording.of(task["recording"])
    asked = QUERIES[task["query"]]
    spark = query.session(task["contender"], task["jars"], driver_memory="6g")
    with tempfile.TemporaryDirectory(prefix="endmark-bench-") as work:
        try:
            found = answers(spark, task, recording)
            checkpoint, figures = Path(work) / "checkpoint", asked.figures(MICROS)
            # Not of the stream: Spark would look at no other times than those of the answers that count.
            counted = asked.counted(recording)
            drained = query.drained(found, checkpoint, figures, lambda batch: batch.where(counted))
        finally:
            spark.stop()
    batches = [each for each in drained if each.rows_read]
    steady = batches[len(batches) // 3 :]
    rate = recording.rows(asked.streams) * len(steady) / sum(each.seconds for each in steady)
    print(json.dumps({"given": Digest.total(each.given for each in drained), "rate": rate}))


if __name__ == "__main__":
    main()

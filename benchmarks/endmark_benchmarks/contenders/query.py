"""A streaming query over recorded files, run to its end: what each batch took, and what it gave."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import Observation
from pyspark.sql import functions as F  # noqa: N812

from endmark.spark.session import STATE_FORMAT, start_session
from endmark_benchmarks.harness.contest import Digest, DisagreementError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

CORES = 2
ON_HEAP = "spark-heap"  # the contender whose state is on the heap
_HEAP = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
# A job does without Java's optimizing compiler. Spark's own operators work in Java, so they have it.
OPTIMIZED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"}
_MOST_BATCHES = 10_000


@dataclass(frozen=True)
class BatchRead:
    """One batch: rows it read, seconds from trigger to commit, what it gave.

    A contender that reads its batch twice has read twice as many rows.
    """

    rows_read: int
    seconds: float
    given: Digest


def session(contender: str, jars: list[str], driver_memory: str) -> SparkSession:
    """Start Spark as a job has it, on `CORES` cores, but with Java's optimizing compiler.

    Args:
        contender: the name of the application.
        jars: its jars.
        driver_memory: the driver's heap, as Spark writes it.
    """
    session = start_session(
        f"bench {contender}",
        [Path(jar) for jar in jars],
        master=f"local[{CORES}]",
        shuffle_partitions=CORES,
        driver_memory=driver_memory,
        more=OPTIMIZED,
    )
    # Else a query forgets what it told of all batches but the last hundred.
    session.conf.set("spark.sql.streaming.numRecentProgressUpdates", _MOST_BATCHES)
    return session


def keep_state_on_heap(spark: SparkSession) -> None:
    """Have Spark's own operators keep their state on the heap instead of in RocksDB."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", _HEAP)
    spark.conf.set(STATE_FORMAT, "1")  # the heap's state knows no other


def files(spark: SparkSession, directory: Path, ddl: str, per_batch: int) -> DataFrame:
    """Return the stream of a directory's Parquet files, the oldest first.

    Args:
        spark: the session.
        directory: the directory.
        ddl: the columns.
        per_batch: the files of a batch.
    """
    return spark.readStream.schema(ddl).option("maxFilesPerTrigger", per_batch).parquet(str(directory))


def progress_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """Return the reports of a query about its batches, the first one first. Some batches read nothing.

    Raises:
        DisagreementError: reports are missing, so that sums over them would be too small.
    """
    found = sorted(map(dict, query.recentProgress), key=lambda each: int(each["batchId"]))
    numbers = {each["batchId"] for each in found}
    if missing := set(range(max(numbers, default=0))) - numbers:
        raise DisagreementError(f"{len(missing)} batches told nothing of themselves; {min(missing)} is one")
    return found


def digested(stream: DataFrame, figures: Sequence[str]) -> DataStreamWriter:
    """A stream to a sink that keeps nothing; each batch's progress has the figures of what it gave."""
    return stream.observe("given", *_columns(figures)).writeStream.format("noop")


def _sink(
    of_batch: Callable[[DataFrame], DataFrame],
    figures: Sequence[str],
    given: dict[int, Digest],
    batch: DataFrame,
    number: int,
) -> None:
    seen = Observation()
    of_batch(batch).observe(seen, *_columns(figures)).write.format("noop").mode("append").save()
    given[number] = Digest(*seen.get.values())


def _columns(figures: Sequence[str]) -> list[Column]:
    return [F.expr(figure).alias(f"figure{n}") for n, figure in enumerate(figures)]


def drained(
    stream: DataFrame,
    checkpoint: Path,
    figures: Sequence[str],
    of_batch: Callable[[DataFrame], DataFrame] | None = None,
) -> list[BatchRead]:
    """Run all batches of a stream and digest their rows.

    Figures are observed on the way to a sink that keeps nothing: to ask for them of each batch, once it is
    there, took endmark's stream join 0.1 of 0.6 s.

    Args:
        stream: the stream.
        checkpoint: the directory of the query's checkpoint.
        figures: expressions in SQL that digest rows.
        of_batch: makes the rows of a batch that are digested; `None` takes them as they are.
    """
    given: dict[int, Digest] = {}
    if of_batch is None:
        writer = digested(stream, figures)
    else:
        writer = stream.writeStream.foreachBatch(partial(_sink, of_batch, figures, given))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    found = progress_of(query)
    given |= {each["batchId"]: Digest(*seen["given"]) for each in found if (seen := each["observedMetrics"])}
    return [
        BatchRead(each["numInputRows"], each["durationMs"]["triggerExecution"] / 1000, given[each["batchId"]])
        for each in found
        if each["batchId"] in given
    ]

"""A streaming query over recorded files, run to its end: what each batch took, and what it gave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from endmark.bench.contest import Digest
from endmark.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

CORES = 2


@dataclass(frozen=True)
class Batch:
    """One batch: rows it read, seconds from trigger to commit, what it gave.

    A contender that reads its batch twice has read twice as many rows.
    """

    rows_read: int
    seconds: float
    given: Digest


def session(contender: str, jars: list[str], driver_memory: str) -> SparkSession:
    """Spark as a job has it, on `CORES` cores."""
    return start_session(
        f"bench {contender}",
        [Path(jar) for jar in jars],
        master=f"local[{CORES}]",
        shuffle_partitions=CORES,
        driver_memory=driver_memory,
    )


def files(spark: SparkSession, directory: Path, ddl: str, per_batch: int) -> DataFrame:
    """The stream of a directory's Parquet files, the oldest first."""
    return spark.readStream.schema(ddl).option("maxFilesPerTrigger", per_batch).parquet(str(directory))


def drained(
    stream: DataFrame, checkpoint: Path, of_batch: Callable[[DataFrame], DataFrame] = lambda batch: batch
) -> list[Batch]:
    """All batches of a stream; what is digested of each is what `of_batch` makes of it."""
    given: dict[int, Digest] = {}

    def sink(batch: DataFrame, number: int) -> None:
        given[number] = digest(of_batch(batch))

    writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    found = sorted(query.recentProgress, key=lambda each: int(each["batchId"]))
    return [
        Batch(each["numInputRows"], each["durationMs"]["triggerExecution"] / 1000, given[each["batchId"]])
        for each in found
        if each["batchId"] in given
    ]


def digest(rows: DataFrame) -> Digest:
    """Of all columns of all rows."""
    [row] = rows.agg(*_sums(rows)).collect()
    return Digest(*row)


def digests(spark: SparkSession, file: Path, each: int) -> list[Digest]:
    """Of the rows of a Parquet file, so many each by their `id`, which counts from 0."""
    rows = spark.read.parquet(str(file))
    found = rows.groupBy(F.expr(f"id div {each}")).agg(*_sums(rows)).collect()
    return [Digest(*sums) for _, *sums in sorted(found)]


def _sums(rows: DataFrame) -> list[Column]:
    code = F.xxhash64(*rows.columns)
    # The sum of whole hashes would overflow.
    halves = F.shiftright(code, 32), code.bitwiseAND((1 << 32) - 1)
    return [F.count("*"), *(F.coalesce(F.sum(half), F.lit(0)) for half in halves)]

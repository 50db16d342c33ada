"""A streaming query over recorded files, run to its end: what each batch took, and what it gave."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from endmark.bench.contest import Digest
from endmark.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

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
    stream: DataFrame,
    checkpoint: Path,
    figures: Sequence[str],
    of_batch: Callable[[DataFrame], DataFrame] = lambda batch: batch,
) -> list[Batch]:
    """All batches of a stream; `figures`, in SQL, digest what `of_batch` makes of each."""
    given: dict[int, Digest] = {}

    def sink(batch: DataFrame, number: int) -> None:
        [row] = of_batch(batch).agg(*map(F.expr, figures)).collect()
        given[number] = Digest(*row)

    writer = stream.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    found = sorted(query.recentProgress, key=lambda each: int(each["batchId"]))
    return [
        Batch(each["numInputRows"], each["durationMs"]["triggerExecution"] / 1000, given[each["batchId"]])
        for each in found
        if each["batchId"] in given
    ]

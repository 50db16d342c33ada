"""One contender of the lookup bench over recorded streams, in a process of its own.

Reads a task as JSON from standard input and prints what each cell gave as a line of JSON. Source, sink and
digest are the same for all: files in, and a hash of every answer out.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from endmark.bench import lookup_ours, lookup_spark
from endmark.bench.contest import Digest
from endmark.bench.lookup_input import ANSWERS_DDL, STREAM_DDL
from endmark.joins.lookup.cache import CacheSpec
from endmark.spark.cache import cache_directory, cache_name
from endmark.spark.session import start_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from endmark.joins.lookup.strategies import Name

REFERENCE = "reference"  # not a contender: answers as they were recorded
CORES = 2
_CACHE = CacheSpec(64_000_000, 300_000_000, 10_000_000)  # as a pipeline file that says `cache: {}`


@dataclass(frozen=True)
class Cell:
    """What a contender is to do.

    Args:
        stream: directory of its files; of answers for the reference.
        files, files_per_batch: how many of them, the first ones, and how many at once.
        url: of the database, as far away as it is to be.
        relation_rows: rows of R.
    """

    stream: str
    files: int
    files_per_batch: int
    url: str = ""
    relation_rows: int = 0


@dataclass(frozen=True)
class CellRun:
    """What it did: by batch, the rows that came out, the seconds it took and the digest."""

    rows: list[int]
    seconds: list[float]
    digests: list[Digest]

    @property
    def rate(self) -> float:
        """Rows a second, after a batch in which everything warms up."""
        steady = slice(1 if len(self.rows) > 1 else 0, None)
        return sum(self.rows[steady]) / sum(self.seconds[steady])


def _unchanged(frame: DataFrame) -> DataFrame:
    return frame


@dataclass(frozen=True)
class Way:
    """How a contender answers: `stream` is applied to the stream, once, `batch` to each of its batches."""

    stream: Callable[[DataFrame], DataFrame] = _unchanged
    batch: Callable[[DataFrame], DataFrame] = _unchanged


def _endmark(strategy: Name, cache: CacheSpec | None, _: SparkSession, cell: Cell, work: Path) -> Way:
    segments = cache_name(work.name)
    return Way(
        stream=partial(
            lookup_ours.looked_up, url=cell.url, strategy=strategy, cache=cache, cache_name=segments
        )
    )


def _memory(_: SparkSession, cell: Cell, work: Path) -> Way:
    file = work / "relation.arrow"
    lookup_spark.write_memory(cell.url, file)
    return Way(batch=partial(lookup_spark.in_memory, file=file))


# What a contender may keep is read when its way is made, before any clock runs.
WAYS: dict[str, Callable[[SparkSession, Cell, Path], Way]] = {
    REFERENCE: lambda *_: Way(),
    "endmark-auto": partial(_endmark, "auto", None),
    "endmark-batched": partial(_endmark, "batched", None),
    "endmark-hybrid": partial(_endmark, "hybrid", None),
    "endmark-cache": partial(_endmark, "auto", _CACHE),
    "spark-in-list": lambda spark, cell, _: Way(
        batch=partial(lookup_spark.in_list, jdbc=lookup_spark.Jdbc(spark, cell.url))
    ),
    "spark-full-read": lambda spark, cell, _: Way(
        batch=partial(
            lookup_spark.full_read, jdbc=lookup_spark.Jdbc(spark, cell.url), rows=cell.relation_rows
        )
    ),
    "spark-per-row": lambda _spark, cell, _: Way(batch=partial(lookup_spark.per_row, url=cell.url)),
    "spark-cached": lambda spark, cell, _: Way(
        batch=lookup_spark.cached(lookup_spark.Jdbc(spark, cell.url), cell.relation_rows)
    ),
    "memory": _memory,
}


def run(spark: SparkSession, name: str, cell: Cell) -> CellRun:
    """All of a cell's batches, one after the other."""
    digests: dict[int, Digest] = {}
    with tempfile.TemporaryDirectory(prefix="endmark-bench-") as folder:
        work = Path(folder)
        (work / "stream").mkdir()
        for file in sorted(Path(cell.stream).iterdir())[: cell.files]:
            (work / "stream" / file.name).symlink_to(file.absolute())
        made = WAYS[name](spark, cell, work)
        stream = (
            spark.readStream.schema(ANSWERS_DDL if name == REFERENCE else STREAM_DDL)
            .option("maxFilesPerTrigger", cell.files_per_batch)
            .parquet(str(work / "stream"))
        )

        def sink(batch: DataFrame, number: int) -> None:
            digests[number] = digest(made.batch(batch))

        query = (
            made.stream(stream)
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(work / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        spark.catalog.clearCache()
        shutil.rmtree(cache_directory(cache_name(work.name)), ignore_errors=True)
        took = {
            each["batchId"]: each["durationMs"]["triggerExecution"] / 1000 for each in query.recentProgress
        }
    numbers = sorted(digests)
    return CellRun(
        [digests[number].rows for number in numbers],
        [took[number] for number in numbers],
        [digests[number] for number in numbers],
    )


def digest(answers: DataFrame) -> Digest:
    """Of all rows, by a hash of all columns."""
    code = F.xxhash64("key", "id", "name", "price", "pad")
    halves = F.shiftright(code, 32), code.bitwiseAND((1 << 32) - 1)
    # The sum of whole hashes would overflow.
    [row] = answers.agg(F.count("*"), *(F.coalesce(F.sum(half), F.lit(0)) for half in halves)).collect()
    return Digest(*row)


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    jars = [Path(jar) for jar in task["jars"]]
    spark = start_session(
        f"bench {task['contender']}",
        jars,
        master=f"local[{CORES}]",
        shuffle_partitions=CORES,
        driver_memory="4g",
    )
    try:
        for cell in task["cells"]:
            done = run(spark, task["contender"], Cell(**cell))
            print(json.dumps({**asdict(done), "rate": done.rate}), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

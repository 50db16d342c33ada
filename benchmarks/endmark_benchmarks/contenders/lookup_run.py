"""One contender of the lookup bench over recorded streams, in a process of its own.

Reads a task as JSON from standard input and prints what each cell gave as a line of JSON. Source, sink and
digest are the same for all: files in, and a hash of every answer out.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.operators.lookup.cache import CacheSpec
from endmark_benchmarks.contenders import lookup_ours, lookup_spark, query
from endmark_benchmarks.workloads.lookup_input import FIGURES, STREAM_DDL

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from endmark.operators.lookup.strategies import Name

_CACHE = CacheSpec(64_000_000, 300_000_000, 10_000_000)  # as a pipeline file that says `cache: {}`


@dataclass(frozen=True)
class Cell:
    """The task of a contender.

    Args:
        stream: the directory of the stream's files.
        files, files_per_batch: the number of files, from the first on, and of those read at once.
        url: the database, as far away as it is to be.
        relation_rows, relation_file: the rows of R, and the file where R is recorded.
    """

    stream: str
    files: int
    files_per_batch: int
    url: str
    relation_rows: int
    relation_file: str


def _unchanged(frame: DataFrame) -> DataFrame:
    return frame


@dataclass(frozen=True)
class Way:
    """The way in which a contender answers: `stream` is applied to the stream, once, `batch`, if any, to each
    of its batches.
    """

    stream: Callable[[DataFrame], DataFrame] = _unchanged
    batch: Callable[[DataFrame], DataFrame] | None = None


def _frame(strategy: Name, _spark: SparkSession, cell: Cell, _work: Path) -> Way:
    return Way(stream=partial(lookup_ours.on_frame, url=cell.url, strategy=strategy))


def _job(cache: CacheSpec | None, _: SparkSession, cell: Cell, work: Path) -> Way:
    job = partial(lookup_ours.in_job, url=cell.url, strategy="auto", cache=cache, cache_name=work.name)
    return Way(stream=job)


# What a contender may keep is read when its way is made, before any clock runs.
WAYS: dict[str, Callable[[SparkSession, Cell, Path], Way]] = {
    "endmark-auto": partial(_frame, "auto"),
    "endmark-batched": partial(_frame, "batched"),
    "endmark-hybrid": partial(_frame, "hybrid"),
    "endmark-job": partial(_job, None),
    "endmark-cache": partial(_job, _CACHE),
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
    "memory": lambda _spark, cell, _: Way(
        batch=partial(lookup_spark.in_memory, file=Path(cell.relation_file))
    ),
}


def run(spark: SparkSession, name: str, cell: Cell) -> dict[str, Any]:
    """Run all batches of a cell; return the digest of the answers, and the rate after the first third.

    Args:
        spark: the session.
        name: the contender.
        cell: the task.
    """
    with tempfile.TemporaryDirectory(prefix="endmark-bench-") as folder:
        work = Path(folder)
        (work / "stream").mkdir()
        for file in sorted(Path(cell.stream).iterdir())[: cell.files]:
            (work / "stream" / file.name).symlink_to(file.absolute())
        way = WAYS[name](spark, cell, work)
        stream = way.stream(query.files(spark, work / "stream", STREAM_DDL, cell.files_per_batch))
        batches = query.drained(stream, work / "checkpoint", FIGURES, way.batch)
        spark.catalog.clearCache()
    steady = batches[len(batches) // 3 :]
    # Every row of the stream has one answer.
    rate = sum(each.given.rows for each in steady) / sum(each.seconds for each in steady)
    return {"digests": [each.given for each in batches], "rate": rate}


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    spark = query.session(task["contender"], task["jars"], driver_memory="4g")
    try:
        for cell in task["cells"]:
            print(json.dumps(run(spark, task["contender"], Cell(**cell))), flush=True)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

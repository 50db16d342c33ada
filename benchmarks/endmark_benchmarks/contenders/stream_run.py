"""One contender of the stream join bench over recorded streams, in a process of its own.

Reads a task as JSON from standard input, and prints its figures as a line of JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812

from endmark.spark.dataframe import stream_join
from endmark_benchmarks.contenders import query
from endmark_benchmarks.harness.contest import Digest
from endmark_benchmarks.workloads.stream_input import STREAM_DDL, WINDOW_SECONDS, figures_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame


def ours(a: DataFrame, b: DataFrame, seconds: float = WINDOW_SECONDS) -> DataFrame:
    """Join two streams by `PunctuatedFrame`.

    Args:
        a, b: the streams.
        seconds: the window.
    """
    window = timedelta(seconds=seconds)
    return stream_join(a, b, on="k", time="ts", window=window)


def native(a: DataFrame, b: DataFrame) -> DataFrame:
    def renamed(frame: DataFrame, prefix: str) -> DataFrame:
        # A second of slack, since Spark drops rows whose time equals the watermark.
        watermarked = frame.withWatermark("ts", "1 second")
        return watermarked.toDF(*(f"{prefix}_{name}" for name in frame.columns))

    near = f"abs(unix_micros(left_ts) - unix_micros(right_ts)) <= {WINDOW_SECONDS * 1_000_000}"
    bounds = (
        f"left_k = right_k and right_ts >= left_ts - interval {WINDOW_SECONDS} seconds "
        f"and right_ts <= left_ts + interval {WINDOW_SECONDS} seconds and {near}"
    )
    return renamed(a, "left").join(renamed(b, "right"), F.expr(bounds))


WAYS: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "endmark": ours,
    "spark-rocksdb": native,
    query.ON_HEAP: native,
}
_FIGURES = figures_of("unix_micros(left_ts)", "unix_micros(right_ts)")


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    spark = query.session(task["contender"], task["jars"], driver_memory="6g")
    if task["contender"] == query.ON_HEAP:
        query.keep_state_on_heap(spark)
    with tempfile.TemporaryDirectory(prefix="endmark-bench-") as work:
        a, b = (
            query.files(spark, Path(task["directory"]) / stream, STREAM_DDL, task["files_per_batch"])
            for stream in ("a", "b")
        )
        try:
            joined = WAYS[task["contender"]](a, b)
            drained = query.drained(joined, Path(work) / "checkpoint", _FIGURES)
            batches = [each for each in drained if each.rows_read]
        finally:
            spark.stop()
    steady = batches[len(batches) // 3 :]
    rate = sum(each.rows_read for each in steady) / sum(each.seconds for each in steady)
    print(json.dumps({"given": Digest.total(each.given for each in batches), "rate": rate}))


if __name__ == "__main__":
    main()

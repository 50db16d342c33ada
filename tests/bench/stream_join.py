"""The stream join against Spark's own, on one recorded input: `make bench`.

Two streams of one file per second of event time, drifting keys, a window of ten seconds, all columns of both
sides out. Every contender runs in a process of its own, in turn; outputs are counted and must be equal. A
result file says what was measured, with the machine and the commit.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer

from endmark.parts.jars import spark_jars
from endmark.spark.dataframe import stream_join
from endmark.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RESULTS = Path(__file__).parent / "results"
WINDOW_SECONDS = 10
SCHEMA = "k bigint, ts timestamp, v bigint, p string"


def generate(directory: Path, files: int, rows: int) -> None:
    """Streams a and b: `rows` rows a second, keys that drift by a fortieth of their range each second."""
    rng = np.random.default_rng(1)
    for stream in ("a", "b"):
        (directory / stream).mkdir(parents=True)
        for second in range(files):
            stamps = second * 1_000_000 + np.arange(rows) * (1_000_000 // rows)
            table = pa.table(
                {
                    "k": rng.integers(0, 2_000_000, rows) + second * 50_000,
                    "ts": pa.array(stamps.astype("int64"), pa.timestamp("us", "UTC")),
                    "v": rng.integers(0, 1 << 40, rows),
                    "p": pa.array([f"payload-{n:020d}" for n in rng.integers(0, 1000, rows)]),
                }
            )
            file = directory / stream / f"{second:04d}.parquet"
            pq.write_table(table, file)
            os.utime(file, (1e9 + second, 1e9 + second))  # Spark reads files in the order of their age


def ours(a: DataFrame, b: DataFrame) -> DataFrame:
    window = timedelta(seconds=WINDOW_SECONDS)
    return stream_join(
        a, b, on="k", time="ts", window=window, cache_name=f"endmark-segments-{os.getpid()}-bench"
    )


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
    from pyspark.sql import functions as F  # noqa: N812

    return renamed(a, "left").join(renamed(b, "right"), F.expr(bounds))


CONTENDERS = {"endmark": ours, "spark-rocksdb": native}


def contend(name: str, data: Path, files_per_batch: int) -> dict[str, Any]:
    """Run one contender over all files; steady is the rate over the batches after the first third."""
    spark = start_session(
        f"bench {name}",
        spark_jars(lambda _: None),
        master="local[2]",
        shuffle_partitions=2,
        driver_memory="6g",
    )
    work = Path(tempfile.mkdtemp(prefix="endmark-bench-"))
    try:
        frames = [_read(spark, data / stream, files_per_batch) for stream in ("a", "b")]
        query = (
            CONTENDERS[name](*frames)
            .writeStream.format("noop")
            .option("checkpointLocation", str(work))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        batches = [progress for progress in query.recentProgress if progress["numInputRows"]]
        steady = batches[len(batches) // 3 :]
        seconds = sum(progress["durationMs"]["triggerExecution"] for progress in steady) / 1000
        return {
            "contender": name,
            "results": sum(max(0, progress["sink"]["numOutputRows"]) for progress in batches),
            "steady_rows_per_second": sum(progress["numInputRows"] for progress in steady) / seconds,
            "batch_seconds": [progress["durationMs"]["triggerExecution"] / 1000 for progress in batches],
        }
    finally:
        spark.stop()
        shutil.rmtree(work)


def _read(spark: SparkSession, directory: Path, files_per_batch: int) -> DataFrame:
    return (
        spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files_per_batch).parquet(str(directory))
    )


def main(
    files: Annotated[int, typer.Option(help="Seconds of event time per stream.")] = 30,
    rows: Annotated[int, typer.Option(help="Rows per file and stream.")] = 100_000,
    files_per_batch: Annotated[int, typer.Option(help="Files per stream and batch.")] = 1,
    repeats: Annotated[int, typer.Option(help="Runs of each contender.")] = 3,
    data: Annotated[Path | None, typer.Option(help="Recorded input; made when it is not there.")] = None,
    contender: Annotated[str | None, typer.Option(help="Run this one once and print its figures.")] = None,
) -> None:
    """Measure every contender in turn and write the ratios."""
    data = data or Path("var/bench") / f"{files}x{rows}"
    if not data.exists():
        generate(data, files, rows)
    if contender is not None:
        print(json.dumps(contend(contender, data, files_per_batch)))
        return
    runs = []
    for repeat in range(repeats):
        for name in CONTENDERS:
            command = [sys.executable, __file__, f"--data={data}", f"--files-per-batch={files_per_batch}"]
            done = subprocess.run([*command, f"--contender={name}"], stdout=subprocess.PIPE, check=True)
            run = json.loads(done.stdout.splitlines()[-1])
            runs.append(run)
            print(f"{repeat} {name}: {run['steady_rows_per_second']:,.0f} rows/s, {run['results']:,} results")
    _report(runs, 2 * rows * files_per_batch)


def _report(runs: list[dict[str, Any]], batch_rows: int) -> None:
    by_name = {name: [run for run in runs if run["contender"] == name] for name in CONTENDERS}
    counts = {run["results"] for run in runs}
    if len(counts) != 1:
        raise SystemExit(f"contenders disagree, so there is nothing to compare: {counts} results")
    rates = {
        name: statistics.median(run["steady_rows_per_second"] for run in mine)
        for name, mine in by_name.items()
    }
    report = {
        "bench": "stream_join",
        "commit": subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip(),
        "date": time.strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "batch_rows": batch_rows,
        "results": counts.pop(),
        "median_rows_per_second": rates,
        "ratio": {name: rates["endmark"] / rate for name, rate in rates.items() if name != "endmark"},
        "runs": runs,
    }
    RESULTS.mkdir(exist_ok=True)
    file = RESULTS / f"stream_join-{batch_rows}.json"
    file.write_text(json.dumps(report, indent=2) + "\n")
    print(json.dumps({"ratio": report["ratio"], "results": report["results"], "file": str(file)}))


if __name__ == "__main__":
    typer.run(main)

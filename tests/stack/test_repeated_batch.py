"""A batch that is attempted twice, in Spark itself: only the attempt that was committed counts in state."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from endmark.errors import ConfigError
from endmark.spark.dataframe import stream_join
from endmark.spark.session import STATE_FORMAT

STATE = "spark.sql.streaming.stateStore"
STORES = "org.apache.spark.sql.execution.streaming.state.StateStore"
Batch = Callable[[DataFrame, int], None]


@pytest.fixture(scope="module", autouse=True)
def _often(spark: SparkSession) -> None:
    spark.conf.set(f"{STATE}.maintenanceInterval", "200ms")  # when snapshots are written
    # Which the first state in a Java process says for all, sessions that came before among them.
    getattr(getattr(spark._jvm, f"{STORES}$"), "MODULE$").stop()


def side(spark: SparkSession, directory: Path, files: int) -> DataFrame:
    """A stream of `files` batches, each of one row with the same key and the batch's number."""
    directory.mkdir(exist_ok=True)
    for number in range(files):
        at = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
        file = directory / f"{number}.parquet"
        pq.write_table(pa.table({"key": [1], "number": [number], "at": [at]}), file)
        os.utime(file, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their age
    reader = spark.readStream.schema("key long, number long, at timestamp")
    return reader.option("maxFilesPerTrigger", 1).parquet(str(directory))


def run(spark: SparkSession, directory: Path, files: int, batch: Batch) -> None:
    left, right = (side(spark, directory / name, files) for name in ("left", "right"))
    joined = stream_join(
        left,
        right,
        on="key",
        time="at",
        window=timedelta(minutes=1),
    )
    checkpoint = str(directory / "checkpoint")
    writer = joined.writeStream.foreachBatch(batch).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()


class Attempts:
    """Keeps results of batches; fails batch 2 before it is committed, once its state has a snapshot."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.results: dict[int, list[tuple[int, int]]] = {}

    def failing(self, batch: DataFrame, number: int) -> None:
        self.good(batch, number)
        if number == 2:
            deadline = time.monotonic() + 120
            while len(list(self.directory.glob("checkpoint/state/0/*/3*.zip"))) < 2:  # of each bucket
                assert time.monotonic() < deadline, "no snapshot was written"
                time.sleep(0.1)
            raise RuntimeError("the attempt ends here")

    def good(self, batch: DataFrame, number: int) -> None:
        self.results[number] = sorted(
            (row.left_number, row.right_number)
            for row in batch.select("left_number", "right_number").collect()
        )


def expected(files: int) -> dict[int, list[tuple[int, int]]]:
    """Each batch pairs its row with all that came before."""
    return {
        last: sorted(
            (left, right) for left in range(last + 1) for right in range(last + 1) if max(left, right) == last
        )
        for last in range(files)
    }


def test_state_of_an_attempt_that_was_not_committed_is_not_read(spark: SparkSession, tmp_path: Path) -> None:
    """Not even by a third start, which finds a snapshot of that attempt and changelogs of its repetition."""
    attempts = Attempts(tmp_path)
    spark.conf.set(f"{STATE}.minDeltasForSnapshot", "1")
    with pytest.raises(StreamingQueryException, match="the attempt ends here"):
        run(spark, tmp_path, 3, attempts.failing)
    spark.conf.set(f"{STATE}.minDeltasForSnapshot", "100")
    run(spark, tmp_path, 5, attempts.good)

    run(spark, tmp_path, 6, attempts.good)

    assert attempts.results == expected(6)


def test_a_session_that_would_mix_attempts_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """By name of the setting; a session of a program of its own may have Spark's default."""
    default = spark.newSession()
    default.conf.set(STATE_FORMAT, "1")

    with pytest.raises(
        ConfigError, match=r"stateStore\.checkpointFormatVersion must be 2: in another format"
    ):
        run(default, tmp_path, 1, Attempts(tmp_path).good)

"""The warm-up of a job, whose failures nobody would hear of."""

from __future__ import annotations

import threading

from pyspark.sql import SparkSession

from endmark.spark.warm_up import stages, warm_up


def test_every_stage_has_been_run(spark: SparkSession) -> None:
    """By a thread of its own, of which nothing is left; state comes and goes through RocksDB."""
    warm_up(spark, 2)
    for thread in threading.enumerate():
        if thread.name == "warm-up":
            thread.join(120)
    done = spark.sparkContext.statusTracker().getJobIdsForGroup(None)

    assert done
    assert sorted(row.bucket for row in stages(spark, 2).collect()) == [0, 1]

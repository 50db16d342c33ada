"""The warm-up of a job, whose failures nobody would hear of."""

from __future__ import annotations

import subprocess
from typing import Any

from pyspark.sql import SparkSession

from endmark.spark.warm_up import stages, warm_up


def test_every_stage_has_been_run(spark: SparkSession) -> None:
    """State comes and goes through RocksDB."""
    warm_up(spark, 2)
    done = spark.sparkContext.statusTracker().getJobIdsForGroup(None)

    assert done
    assert sorted(row.bucket for row in stages(spark, 2).collect()) == [0, 1]


def test_all_stages_share_one_daemon(spark: SparkSession) -> None:
    """Spark starts a daemon of Python workers for each environment that an operator asks for."""
    java: Any = spark.sparkContext._jvm
    pid = java.java.lang.ProcessHandle.current().pid()
    stages(spark, 2).collect()
    daemons = ["pgrep", "--count", "--parent", str(pid), "--full", "endmark.spark.daemon"]

    assert int(subprocess.run(daemons, capture_output=True, check=False).stdout) == 1

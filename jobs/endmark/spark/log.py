"""What Spark writes in its log of queries: an error of each that is ended from within, even on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERIES = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"


def keep_silent_of_queries(spark: SparkSession) -> None:
    """Of a query that is about to be ended on purpose; whoever runs it is told of its error all the same."""
    _log_from(spark, "OFF")


def speak_of_queries(spark: SparkSession) -> None:
    """Of the next one."""
    _log_from(spark, "ERROR")


def _log_from(spark: SparkSession, level: str) -> None:
    java: Any = spark.sparkContext._jvm
    log4j = java.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(_QUERIES, log4j.Level.toLevel(level))

"""Mutes Spark's log of queries while we end a query on purpose, since Spark would log an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUERIES = "org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution"


def mute(spark: SparkSession) -> None:
    """Mute Spark's query logger while we stop a query on purpose. The exception still reaches `Queries`."""
    _log_from(spark, "OFF")


def unmute(spark: SparkSession) -> None:
    """Let Spark log errors of queries again."""
    _log_from(spark, "ERROR")


def _log_from(spark: SparkSession, level: str) -> None:
    java: Any = spark.sparkContext._jvm
    log4j = java.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(_QUERIES, log4j.Level.toLevel(level))

"""A program that does what a job does until its first batch is written, so that Java loads a job's classes.

It reads a file instead of topics. Its arguments are the jars of a session.
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import SparkContext

from endmark.spark.session import start_session
from endmark.spark.warm_up import through

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_KAFKA = "org.apache.kafka.common"
# Kafka's client loads half of its classes when a broker answers, and these load most of that half.
_BY_ANSWERS = (
    f"{_KAFKA}.protocol.ApiKeys",
    f"{_KAFKA}.protocol.Errors",
    f"{_KAFKA}.record.MemoryRecords",
    f"{_KAFKA}.record.DefaultRecordBatch",
)
_NOWHERE = "127.0.0.1:1"


def exercise(jars: Sequence[Path]) -> None:
    """Run the exercise, and wait until Java has ended, since Java writes the archive when it ends."""
    spark = start_session(
        "classes", list(jars), master="local[2]", shuffle_partitions=2, driver_memory="1g", delta=False
    )
    with tempfile.TemporaryDirectory() as scratch:
        _run_query(spark, Path(scratch))
        _ask_nobody(spark, Path(scratch))
    java: Any = spark.sparkContext._jvm
    for name in _BY_ANSWERS:
        java.java.lang.Class.forName(name)
    # A consumer that reads nothing still loads the classes that read records.
    byte_arrays = f"{_KAFKA}.serialization.ByteArrayDeserializer"
    settings = {"bootstrap.servers": _NOWHERE, "group.id": "none"}
    settings |= {"key.deserializer": byte_arrays, "value.deserializer": byte_arrays}
    java.org.apache.kafka.clients.consumer.KafkaConsumer(settings).close()
    spark.stop()
    gateway: Any = SparkContext._gateway
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _run_query(spark: SparkSession, scratch: Path) -> None:
    """Run a query with all kinds of stages that a job's query has."""
    (scratch / "records").mkdir()
    (scratch / "records" / "one.txt").write_text("0\n1\n")
    lines = spark.readStream.text(str(scratch / "records"))
    rows = lines.selectExpr("cast(value as int) bucket", "cast(value as binary) blob")
    writer = through(rows).writeStream.option("checkpointLocation", str(scratch / "checkpoint"))
    writer.trigger(availableNow=True).foreachBatch(_collect).start().awaitTermination()


def _collect(batch: DataFrame, _: int) -> None:
    batch.collect()


def _ask_nobody(spark: SparkSession, scratch: Path) -> None:
    """Read topics of a broker that does not exist. The query fails after loading the client that asks."""
    options = {
        "kafka.bootstrap.servers": _NOWHERE,
        "subscribe": "none",
        "fetchOffset.numRetries": "1",
        "kafka.default.api.timeout.ms": "1000",
        "kafka.request.timeout.ms": "500",
    }
    records = spark.readStream.format("kafka").options(**options).load().select("topic", "value")
    with suppress(Exception):
        writer = records.writeStream.option("checkpointLocation", str(scratch / "nowhere"))
        writer.format("noop").start().awaitTermination()


if __name__ == "__main__":
    exercise([Path(jar) for jar in sys.argv[1:]])

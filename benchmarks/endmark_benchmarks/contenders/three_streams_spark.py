"""Three streams on one key in a chain of two of Spark's stream-stream joins, in a process of its own.

Kafka's source, `from_json`, watermarks, both joins with their state in RocksDB or on the heap, and in
`foreachBatch` a Delta table. Any two rows of a result are within a window, as in the pipeline file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from endmark_benchmarks.contenders.kafka_spark import Task, append, rows_of, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession

# A second of the shop's run. Rows older than that against the newest are dropped, and partitions are not read
# in step.
_SLACK = "4 hours"
_WINDOW = "interval 1 day"
_TIMES = {"orders": "ordered_at", "payments": "paid_at", "shipments": "sent_at"}


def joined(spark: SparkSession, task: Task) -> DataFrame:
    """Return the stream of results, which are orders that are paid and shipped."""
    orders, payments, shipments = (
        rows_of(spark, task, name).withWatermark(_time(name), _SLACK) for name in _TIMES
    )
    paid = orders.join(payments, _near("orders", "payments"))
    # An operator takes one column of event time from each input, and the earlier one frees state sooner.
    paid = paid.withColumn("payments_paid_at", F.expr("timestamp_micros(unix_micros(payments_paid_at))"))
    return paid.join(shipments, _near("orders", "payments", "shipments"))


def _time(name: str) -> str:
    return f"{name}_{_TIMES[name]}"


def _near(*names: str) -> Column:
    """Return the condition that rows of streams have one key, and any two of them lie within the window."""
    *before, last = names
    pairs = [(name, last) for name in before]
    bounds = [
        f"{_time(right)} between {_time(left)} - {_WINDOW} and {_time(left)} + {_WINDOW}"
        for left, right in pairs
    ]
    return F.expr(" and ".join([f"{names[0]}_order_id = {last}_order_id", *bounds]))


def sink(_: SparkSession, task: Task) -> Callable[[DataFrame, int], None]:
    """Return a sink for `foreachBatch` that writes the table of results."""
    columns, table = list(task.pipeline.result_columns()), task.pipeline.outputs.directories["results"]

    def each(batch: DataFrame, number: int) -> None:
        append(batch.select(*columns), task.warehouse / table, number)

    return each


if __name__ == "__main__":
    run(joined, sink)

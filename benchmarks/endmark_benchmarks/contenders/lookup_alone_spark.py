"""The lookup of a topic's rows as one would write it in Spark without endmark, in a process of its own.

Kafka's source, `from_json`, and in `foreachBatch` the lookup over JDBC and a Delta table. R is read by lists
of a batch's keys, or all of it in each batch, beside which Spark broadcasts the rows of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812

from endmark_benchmarks.contenders.kafka_spark import Task, append, rows_of, run
from endmark_benchmarks.contenders.lookup_spark import Jdbc

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

IN_LIST, FULL_READ = "spark-in-list", "spark-full-read"
_KEY = "bids_seller_id"


def bids(spark: SparkSession, task: Task) -> DataFrame:
    """Return the stream of bids."""
    return rows_of(spark, task, "bids")


def sink(spark: SparkSession, task: Task) -> Callable[[DataFrame, int], None]:
    """Return a sink for `foreachBatch` that looks sellers up, and writes the table of results."""
    pipeline = task.pipeline
    relation = pipeline.relations["sellers"]
    jdbc = Jdbc(spark, task.servers.relation_url, relation.table, "seller_id")
    names = [f"sellers_{column}" for column in relation.columns]
    asked = F.col(_KEY) == F.col("sellers_seller_id")
    columns, table = list(pipeline.result_columns()), pipeline.outputs.directories["results"]

    def in_list(batch: DataFrame, number: int) -> None:
        batch.persist()
        keys = np.unique(batch.select(_KEY).toArrow()[_KEY].to_numpy())
        if len(keys):
            sellers = jdbc.of_keys(keys.tolist()).toDF(*names)
            known = batch.join(F.broadcast(sellers), asked)
            append(known.select(*columns), task.warehouse / table, number)
        batch.unpersist()

    if task.contender == IN_LIST:
        return in_list
    size = jdbc.largest_key()

    def full_read(batch: DataFrame, number: int) -> None:
        known = jdbc.whole(size).toDF(*names).join(F.broadcast(batch), asked)
        append(known.select(*columns), task.warehouse / table, number)

    return full_read


if __name__ == "__main__":
    run(bids, sink)

"""The auction pipeline as one would write it in Spark without endmark, in a process of its own.

Kafka's source, `from_json`, watermarks, the stream-stream join with its state in RocksDB; in `foreachBatch`
the lookup of what was joined, by lists of keys over JDBC, and Delta tables. Its groups are partial, a row for
each item and batch: Spark has no operator that knows when one is final, and to merge them would cost it more.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F  # noqa: N812

from endmark_benchmarks.contenders.kafka_spark import Task, append, rows_of, run
from endmark_benchmarks.contenders.lookup_spark import Jdbc

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

# Rows older than that against the newest are dropped, and partitions are not read in step.
_SLACK = "5 seconds"
_KEY = "bids_seller_id"
_PARTNERS = (
    "items_item_id = bids_item_id and bids_bid_at between items_listed_at - interval 10 seconds "
    "and items_listed_at + interval 60 seconds"
)


def joined(spark: SparkSession, task: Task) -> DataFrame:
    """Return the stream of pairs, with the columns of endmark's results as far as they are of the streams."""
    items, bids = (rows_of(spark, task, name) for name in task.pipeline.sides)
    return items.withWatermark("items_listed_at", _SLACK).join(
        bids.withWatermark("bids_bid_at", _SLACK), F.expr(_PARTNERS)
    )


def sink(spark: SparkSession, task: Task) -> Callable[[DataFrame, int], None]:
    """Return a sink for `foreachBatch` that looks sellers up, and writes both tables side by side."""
    pipeline = task.pipeline
    relation = pipeline.relations["sellers"]
    jdbc = Jdbc(spark, task.servers.relation_url, relation.table, "seller_id")
    results = list(pipeline.result_columns())
    # As `aggregate` of the pipeline file has it.
    measures = [F.count("*").alias("bids"), F.max("bids_price").alias("highest_bid")]

    def each(batch: DataFrame, number: int) -> None:
        batch.persist()
        keys = np.unique(batch.select(_KEY).toArrow()[_KEY].to_numpy())
        if len(keys):
            found = jdbc.of_keys(keys.tolist())
            named = found.toDF(*(f"sellers_{column}" for column in relation.columns))
            whole = batch.join(F.broadcast(named), F.col(_KEY) == F.col("sellers_seller_id"))
            whole = whole.select(*results).persist()
            groups = whole.groupBy(F.col("items_item_id").alias("item_id")).agg(*measures)
            tables = (
                (whole, pipeline.outputs.directories["results"]),
                (groups, pipeline.outputs.directories[pipeline.groups[0].final_role]),
            )
            with ThreadPoolExecutor(len(tables)) as writers:
                done = [
                    writers.submit(append, rows, task.warehouse / table, number) for rows, table in tables
                ]
                for each_done in done:
                    each_done.result()
            whole.unpersist()
        batch.unpersist()

    return each


if __name__ == "__main__":
    run(joined, sink)

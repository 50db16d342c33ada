"""The auction pipeline as one would write it in Spark without endmark, in a process of its own.

Kafka's source, `from_json`, watermarks, the stream-stream join with its state in RocksDB; in `foreachBatch`
the lookup of what was joined, by lists of keys over JDBC, and Delta tables. Its groups are partial, a row for
each item and batch: Spark has no operator that knows when one is final, and to merge them would cost it more.

Reads a task as JSON from standard input, and prints its batches as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pyspark.sql import functions as F  # noqa: N812

from endmark.engine.streams import arrow_schema, ddl
from endmark.spark.plan import PROMPT
from endmark_benchmarks.contenders import query
from endmark_benchmarks.contenders.lookup_spark import Jdbc
from endmark_benchmarks.contenders.query import progress_of
from endmark_benchmarks.workloads.auction import Servers

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from endmark.pipeline import Pipeline

# Rows older than that against the newest are dropped, and partitions are not read in step.
_SLACK = "5 seconds"
_KEY = "bids_seller_id"
_PARTNERS = (
    "items_item_id = bids_item_id and bids_bid_at between items_listed_at - interval 10 seconds "
    "and items_listed_at + interval 60 seconds"
)


def joined(spark: SparkSession, servers: Servers, at_once: dict[str, int]) -> DataFrame:
    """The stream of pairs, with the columns of endmark's results as far as they are of the streams.

    Args:
        spark: the session, with the jars of Spark's Kafka source.
        servers: the broker to read from, and the database of the sellers.
        at_once: the most records of a batch, by stream.
    """
    items, bids = (_stream(spark, servers, name, at_once[name]) for name in servers.pipeline.sides)
    return items.withWatermark("items_listed_at", _SLACK).join(
        bids.withWatermark("bids_bid_at", _SLACK), F.expr(_PARTNERS)
    )


def _stream(spark: SparkSession, servers: Servers, name: str, at_once: int) -> DataFrame:
    stream = servers.pipeline.streams[name]
    columns = list(stream.columns)
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers.bootstrap)
        .option("subscribe", stream.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(at_once))
        .options(**PROMPT)
        .load()
    )
    read = F.from_json(F.col("value").cast("string"), ddl(arrow_schema(stream.columns))).alias("row")
    rows = records.select(read, "partition", "offset").where(f"row.{columns[0]} is not null")
    return rows.select(
        *(F.col(f"row.{column}").alias(f"{name}_{column}") for column in columns),
        F.col("partition").cast("long").alias(f"{name}_kafka_partition"),
        F.col("offset").alias(f"{name}_kafka_offset"),
    )


def sink(pipeline: Pipeline, jdbc: Jdbc, warehouse: Path) -> Callable[[DataFrame, int], None]:
    """Return a sink for `foreachBatch` that looks sellers up, and writes both tables side by side.

    Args:
        pipeline: the pipeline.
        jdbc: reads the database.
        warehouse: the directory of the tables.
    """
    relation = pipeline.relations["sellers"]
    results = list(pipeline.result_columns())
    # As `aggregate` of the pipeline file has it.
    measures = [F.count("*").alias("bids"), F.max("bids_price").alias("highest_bid")]

    def write(rows: DataFrame, table: str, number: int) -> None:
        writer = rows.write.format("delta").mode("append").option("txnAppId", "bench")
        writer.option("txnVersion", number).save(str(warehouse / table))

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
                (whole, pipeline.directories["results"]),
                (groups, pipeline.directories["groups"]),
            )
            with ThreadPoolExecutor(len(tables)) as writers:
                for done in [writers.submit(write, rows, table, number) for rows, table in tables]:
                    done.result()
            whole.unpersist()
        batch.unpersist()

    return each


def batches(query: StreamingQuery) -> list[dict[str, float]]:
    """Records and seconds of each batch that read any."""
    found = []
    for progress in progress_of(query):
        read = sum(
            _offset(source["endOffset"]) - _offset(source["startOffset"]) for source in progress["sources"]
        )
        if read:
            found.append({"records": read, "seconds": progress["durationMs"]["triggerExecution"] / 1000})
    return found


def _offset(place: str | None) -> int:
    """Records before a place in a topic; the first batch begins at none."""
    ends = json.loads(place) if place and place.startswith("{") else {}
    return sum(end for partitions in ends.values() for end in partitions.values())


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    servers, directory = Servers(**task["servers"]), Path(task["directory"])
    spark = query.session(task["contender"], task["jars"], driver_memory=task["driver_memory"])
    try:
        pipeline = servers.pipeline
        jdbc = Jdbc(spark, servers.relation_url, pipeline.relations["sellers"].table, "seller_id")
        writer = joined(spark, servers, task["at_once"]).writeStream
        writer = writer.foreachBatch(sink(pipeline, jdbc, directory / "warehouse"))
        writer = writer.option("checkpointLocation", str(directory / "checkpoint"))
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        print(json.dumps({"batches": batches(running)}))
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

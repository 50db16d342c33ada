"""The auction pipeline in Flink SQL, in a process of its own.

It reads JSON from Kafka, looks sellers up by JDBC with a cache, and joins within an interval. It makes no
groups, since Flink SQL has no operator that knows when one is final. The module reads a task as JSON from
standard input, and prints its rate and the digests of its results as a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark_benchmarks.contenders import flink, lookup_flink
from endmark_benchmarks.contenders.stream_flink import STATE
from endmark_benchmarks.harness.delta import result_digests
from endmark_benchmarks.workloads.auction import figures_of
from endmark_benchmarks.workloads.lookup_input import in_memory
from endmark_benchmarks.workloads.measured import Measured

if TYPE_CHECKING:
    from endmark.pipeline import Pipeline
    from endmark_benchmarks.harness.contest import Digest

HEAP, FILES, ROCKSDB = "flink-counting", "flink-files", "flink-counting-rocksdb"
SETTINGS = {HEAP: STATE["flink-heap"], FILES: STATE["flink-heap"], ROCKSDB: STATE["flink-rocksdb"]}
_TYPES = {"long": "BIGINT", "double": "DOUBLE", "string": "STRING", "timestamp": "TIMESTAMP_LTZ(6)"}
# Partitions are not read in step, so rows come in another order than that of time; Spark has as much slack.
_STREAM = """
CREATE TABLE {name} ({columns}, kafka_partition INT METADATA FROM 'partition' VIRTUAL,
kafka_offset BIGINT METADATA FROM 'offset' VIRTUAL, now AS PROCTIME(),
t AS CAST({time} AS TIMESTAMP_LTZ(3)), WATERMARK FOR t AS t - INTERVAL '5' SECOND) WITH ({options})"""
# Flink's event time has milliseconds, so the condition on the columns themselves does the rest. Punctuations
# have no columns.
_MATCHED = """
CREATE TEMPORARY VIEW matched AS SELECT {columns} FROM
(SELECT * FROM items WHERE item_id IS NOT NULL) AS items JOIN
(SELECT asked.*, name, country, rating FROM (SELECT * FROM bids WHERE item_id IS NOT NULL) AS asked
JOIN relation FOR SYSTEM_TIME AS OF asked.now ON asked.seller_id = relation.seller_id) AS bids
ON items.item_id = bids.item_id
AND bids.t BETWEEN items.t - INTERVAL '10' SECOND AND items.t + INTERVAL '60' SECOND
AND bids.bid_at BETWEEN items.listed_at - INTERVAL '10' SECOND AND items.listed_at + INTERVAL '60' SECOND"""
_WRITTEN = """
SELECT count(*), epoch_ms(quantile_disc(written_at, 1 / 3)), epoch_ms(max(written_at))
FROM read_parquet($files)"""


def columns_of(columns: dict[str, Any]) -> str:
    """Return columns of a pipeline file as SQL defines them."""
    return ", ".join(f"{name} {_TYPES[str(kind)]}" for name, kind in columns.items())


def tables(pipeline: Pipeline, bootstrap: str, url: str) -> list[str]:
    """Return the statements that make both streams, R, and the view of the results.

    Args:
        pipeline: the auction.
        bootstrap: the address of the broker, as `host:port`.
        url: the SQLAlchemy URL of the database.
    """
    found = []
    for name, stream in pipeline.streams.items():
        options = {
            "connector": "kafka",
            "topic": stream.topic,
            "properties.bootstrap.servers": bootstrap,
            "scan.startup.mode": "earliest-offset",
            "scan.bounded.mode": "latest-offset",
            "format": "json",
            "json.timestamp-format.standard": "ISO-8601",
        }
        time = stream.event_time.column
        columns = columns_of(stream.columns)
        found.append(_STREAM.format(name=name, columns=columns, time=time, options=flink.spelt(options)))
    sellers = pipeline.relations["sellers"]
    of_r = f"{columns_of(sellers.columns)}, PRIMARY KEY (seller_id) NOT ENFORCED"
    cache = lookup_flink.CACHES["flink-lookup-cached"]
    return [
        *found,
        lookup_flink.relation(url, cache, sellers.table, of_r),
        _MATCHED.format(columns=", ".join(map(_result, pipeline.result_columns()))),
    ]


def _result(column: str) -> str:
    """Return a column of the results in terms of the joined inputs; sellers came with the bids."""
    of, name = column.split("_", 1)
    return f"{'bids' if of == 'sellers' else of}.{name} AS {column}"


def _micros(time: str) -> str:
    return f"EXTRACT(EPOCH FROM {time}) * 1000000 + EXTRACT(MICROSECOND FROM {time})"


def counted(task: dict[str, Any], statements: list[str]) -> tuple[list[Digest], float]:
    """Count the results in Flink; return their digest, and results a second after the first third."""
    sums = ", ".join(figures_of(lambda time: f"({_micros(time)})"))
    answers = f"SELECT CAST(0 AS BIGINT), {sums} FROM matched"  # noqa: S608  # of constants
    said = flink.run(task["flink_jars"], SETTINGS[task["contender"]], statements, answers)
    return [flink.total(said)], lookup_flink.rate(said, warm_up=1 / 3)


def written(task: dict[str, Any], pipeline: Pipeline, statements: list[str]) -> tuple[list[Digest], float]:
    """Write the results to files; return digests of these, and results a second after the first third.

    Each row has the time at which it was written, for the rate: files appear only with a checkpoint.
    """
    place = Path(task["directory"], "results")
    columns = f"{columns_of(pipeline.result_columns())}, written_at TIMESTAMP_LTZ(3)"
    insert = "INSERT INTO files SELECT *, CURRENT_TIMESTAMP FROM matched"
    statements = [*statements, flink.parquet("files", columns, place), insert]
    flink.execute(task["flink_jars"], SETTINGS[task["contender"]], statements)
    files = [str(file) for file in place.glob("part-*")]
    with in_memory() as connection:
        [(rows, first, last)] = connection.execute(_WRITTEN, {"files": files}).fetchall()
    lookup_flink.require_time(last - first)
    found = result_digests(pipeline, files, figures_of(lambda time: f"epoch_us({time})"))
    return found, rows * 2 / 3 * 1000 / (last - first)


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    servers = task["servers"]
    pipeline = Measured.of(task["measured"]).load(servers["relation_url"])
    statements = tables(pipeline, servers["bootstrap"], servers["relation_url"])
    if task["contender"] == FILES:
        given, rate = written(task, pipeline, statements)
    else:
        given, rate = counted(task, statements)
    print(json.dumps({"given": given, "rate": rate * task["records"] / given[0].rows}))


if __name__ == "__main__":
    main()

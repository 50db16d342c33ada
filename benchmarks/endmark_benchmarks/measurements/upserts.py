"""Time of an upsert of running groups, by how many groups are open and final, and by who does it.

It also measures the job's own upsert of a copy of a database's table, by the rows of the table. The changed
keys are spread over all rows, or are among the newest 2 %.

Each batch changes groups that are drawn from all open ones, so that every file of open groups has some. The
ways are the job's own (`TableLog`), delta-rs's MERGE, and the MERGE of Spark's Delta with and without
deletion vectors. The tables of all are partitioned by `final`, and every MERGE names `final = false`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
import typer
from deltalake import DeltaTable

from endmark.driver.checkpoint import claimed
from endmark.driver.table_log import TableLog
from endmark.embedded.jars import spark_jars
from endmark.engine.delta_files import write_files
from endmark.spark.session import start_session
from endmark.spark.tables import Target, prepare
from endmark_benchmarks.contenders.query import OPTIMIZED
from endmark_benchmarks.harness.origin import origin

RESULTS = Path(__file__).parents[2] / "results" / "upserts.json"
SCHEMA = pa.schema(
    [
        ("item_id", pa.int64()),
        ("bids", pa.int64()),
        ("highest_bid", pa.float64()),
        ("final", pa.bool_()),
        ("batch", pa.int64()),
    ]
)
COPY_SCHEMA = pa.schema(
    [
        ("order_id", pa.int64()),
        ("customer", pa.string()),
        ("total", pa.float64()),
        ("ordered_at", pa.timestamp("us", "UTC")),
        ("kafka_offset", pa.int64()),
    ]
)
COPY_FILE_ROWS = 500_000  # in a file of the table as it is filled
SAME = "old.final = false AND old.item_id = new.item_id"
Upsert = Callable[[pa.Table, int], None]


def groups(keys: Any, batch: int, *, final: bool = False) -> pa.Table:
    """Rows of groups by their keys, an array of whole numbers."""
    count = len(keys)
    columns = [keys, np.full(count, batch), keys * 1.5, np.full(count, final), np.full(count, batch)]
    return pa.table([pa.array(column) for column in columns], schema=SCHEMA)


def filled(directory: Path, still_open: int, final: int) -> Target:
    """Return a table with so many rows of open and of final groups."""
    target = Target(
        "running", directory / "t", SCHEMA, numbered=True, partition_by=("final",), key=("item_id",)
    )
    with claimed(directory / "checkpoint"):
        prepare({"running": target}, "app", directory / "checkpoint")
    rows = [
        groups(np.arange(still_open), 0),
        groups(np.arange(still_open, still_open + final), 0, final=True),
    ]
    files = [file for each in rows for file in write_files(target.files(), each)]
    TableLog(target.files(), (), "fill").commit(files, 0)
    return target


def orders(keys: Any, batch: int) -> pa.Table:
    """Rows of orders by their keys, an array of whole numbers."""
    names = pa.DictionaryArray.from_arrays(
        pa.array(keys % 10_000), pa.array([f"customer {number}" for number in range(10_000)])
    )
    times = pa.array(keys * 1_000_000).cast(pa.timestamp("us", "UTC"))
    columns = [pa.array(keys), names.cast(pa.string()), pa.array(keys * 1.5), times, pa.array(keys + batch)]
    return pa.table(columns, schema=COPY_SCHEMA)


def copied(directory: Path, rows: int) -> Target:
    """Return a copy of a database's table of so many orders."""
    target = Target("latest:orders", directory / "t", COPY_SCHEMA, key=("order_id",))
    with claimed(directory / "checkpoint"):
        prepare({"latest:orders": target}, "app", directory / "checkpoint")
    starts = range(0, rows, COPY_FILE_ROWS)
    pieces = (orders(np.arange(start, min(start + COPY_FILE_ROWS, rows)), 0) for start in starts)
    files = [file for piece in pieces for file in write_files(target.files(), piece)]
    TableLog(target.files(), (), "fill").commit(files, 0)
    return target


def by_files(target: Target) -> Upsert:
    """The job's way: two tasks write files, and the driver replaces files that have older rows."""
    log = TableLog(target.files(), target.key, "app")

    def upsert(rows: pa.Table, batch: int) -> None:
        half = rows.num_rows // 2
        written = [file for each in (rows[:half], rows[half:]) for file in write_files(target.files(), each)]
        log.commit(written, batch)

    return upsert


def by_delta_rs(target: Target) -> Upsert:
    """The MERGE of delta-rs."""
    delta = DeltaTable(str(target.path))

    def upsert(rows: pa.Table, _: int) -> None:
        delta.update_incremental()
        merge = delta.merge(rows, SAME, source_alias="new", target_alias="old")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    return upsert


def by_spark(spark: Any, target: Target, *, vectors: bool) -> Upsert:
    """The MERGE of Spark's Delta."""
    name = f"delta.`{target.path}`"
    spark.sql(
        f"ALTER TABLE {name} SET TBLPROPERTIES ('delta.enableDeletionVectors' = {str(vectors).lower()})"
    )

    def upsert(rows: pa.Table, _: int) -> None:
        spark.createDataFrame(rows).createOrReplaceTempView("new_rows")
        spark.sql(
            f"MERGE INTO {name} old USING new_rows new ON {SAME} "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    return upsert


def measured(
    upsert: Upsert,
    keys: int,
    changed: int,
    batches: int,
    *,
    oldest: int = 0,
    made: Callable[[Any, int], pa.Table] = groups,
) -> list[float]:
    """Return the seconds of batches that each change so many keys; the first one is not measured.

    Args:
        upsert: upserts the rows of a batch.
        keys: the number of keys of the table.
        changed: the number of keys that a batch changes.
        batches: the number of batches that are measured.
        oldest: the first key that may be changed.
        made: makes the rows of some keys.
    """
    chance = np.random.default_rng(7)
    found = []
    for batch in range(1, batches + 2):
        rows = made(oldest + chance.choice(keys - oldest, changed, replace=False), batch)
        started = time.perf_counter()
        upsert(rows, batch)
        found.append(time.perf_counter() - started)
    return found[1:]


def main(
    still_open: Annotated[list[int], typer.Option(default_factory=lambda: [10_000, 100_000, 1_000_000])],
    final: Annotated[list[int], typer.Option(default_factory=lambda: [0, 5_000_000])],
    copy: Annotated[list[int], typer.Option(default_factory=lambda: [1_000_000, 10_000_000])],
    changed: int = 2_000,
    copy_changed: int = 1_000,
    batches: int = 7,
    results: Path = RESULTS,
) -> None:
    """Measure each way on tables of each size, and the job's own on copies of a database's table.

    Args:
        still_open: numbers of open groups.
        final: numbers of final groups.
        copy: numbers of rows of a copy of a database's table.
        changed: groups that a batch changes.
        copy_changed: rows of a copy that a batch changes.
        batches: batches that are measured.
        results: the file of results.
    """
    options = {"changed": changed, "copy_changed": copy_changed, "batches": batches}
    report: dict[str, Any] = {"bench": "upserts", **origin(), "options": options, "copies": [], "tables": []}
    for rows, oldest in [(some, oldest) for some in copy for oldest in (0, some * 98 // 100)]:
        with tempfile.TemporaryDirectory() as directory:
            found = measured(
                by_files(copied(Path(directory), rows)),
                rows,
                copy_changed,
                batches,
                oldest=oldest,
                made=orders,
            )
        copies = {"rows": rows, "changed": "newest" if oldest else "spread", "seconds": median(found)}
        print(json.dumps(copies))
        report["copies"].append(copies)
    spark = start_session(
        "upserts",
        spark_jars(print),
        master="local[2]",
        shuffle_partitions=2,
        driver_memory="2g",
        more=OPTIMIZED,
    )
    ways: dict[str, Callable[[Target], Upsert]] = {
        "files": by_files,
        "delta-rs merge": by_delta_rs,
        "Spark merge": lambda target: by_spark(spark, target, vectors=False),
        "Spark merge with deletion vectors": lambda target: by_spark(spark, target, vectors=True),
    }
    for some, many in [(some, many) for some in still_open for many in final]:
        figures: dict[str, Any] = {"open": some, "final": many, "seconds": {}}
        for way, made in ways.items():
            with tempfile.TemporaryDirectory() as directory:
                target = filled(Path(directory), some, many)
                figures["seconds"][way] = median(measured(made(target), some, min(changed, some), batches))
        print(json.dumps(figures))
        report["tables"].append(figures)
    results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

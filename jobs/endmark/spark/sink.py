"""The sink: takes a batch's channels apart and writes each to its Delta table, exactly once.

Per batch (called by `foreachBatch`):
1. persist the batch in packed form, so that no write computes the stateful plan again;
2. collect the metrics channel, which also says which tables get rows;
3. append to those tables with (app id, batch id); Delta skips what an earlier attempt committed;
4. record the batch in the ops database, replacing what an earlier attempt recorded.
Spark commits the batch afterwards. A crash at any point repeats it from step 1.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812  # the name every Spark program gives it

from endmark.metrics import Samples, add, parse, sample
from endmark.spark import channels

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from endmark.opsdb import OpsDatabase
    from endmark.pipeline import Pipeline
    from endmark.spark.tables import Target


class Sink:
    """For `foreachBatch` over rows of (channel, blob)."""

    def __init__(
        self, pipeline: Pipeline, tables: list[Target], app_id: str, ops: OpsDatabase, run_id: str
    ) -> None:
        self._pipeline = pipeline
        self._tables = tables
        self._app_id = app_id
        self._ops = ops
        self._run_id = run_id
        self._writers = ThreadPoolExecutor(len(tables), thread_name_prefix="delta")

    def __call__(self, packed: DataFrame, batch_id: int) -> None:
        packed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            started = perf_counter()
            samples, offsets = self._reports(packed)
            samples[sample("compute_seconds")] = perf_counter() - started
            wanted = [table for table in self._tables if _has_rows(samples, table.counter)]
            # A commit is mostly waiting for the driver, so tables are written side by side.
            writes = [self._writers.submit(self._write, packed, table, batch_id) for table in wanted]
            for table, write in zip(wanted, writes, strict=True):
                samples[sample("write_seconds", table=table.channel)] = write.result()
            self._ops.record_batch(self._pipeline.name, batch_id, self._run_id, samples, offsets)
        finally:
            packed.unpersist()

    def _reports(self, packed: DataFrame) -> tuple[Samples, dict[str, dict[str, int]]]:
        blobs = packed.where(F.col("channel") == channels.METRICS).select("blob").collect()
        reports = [json.loads(bytes(row.blob)) for row in blobs]
        latest = self._ops.latest_batch(self._pipeline.name)
        offsets = {topic: dict(ends) for topic, ends in latest.offsets.items()} if latest else {}
        for report in reports:
            for topic, ends in report.get("offsets", {}).items():
                offsets.setdefault(topic, {}).update(ends)
        samples = add(report["samples"] for report in reports)
        for report in reports:
            samples |= report.get("alike", {})
        return samples, offsets

    def _write(self, packed: DataFrame, table: Target, batch_id: int) -> float:
        """Append the table's rows; returns the seconds it took."""
        started = perf_counter()
        blobs = packed.where(F.col("channel") == table.channel).select("blob")
        rows = blobs.mapInArrow(channels.unpack, table.ddl)
        writer = rows.write.format("delta").mode("append")
        writer.option("txnAppId", self._app_id).option("txnVersion", batch_id).save(str(table.path))
        return perf_counter() - started


def _has_rows(samples: Samples, counter: str) -> bool:
    return any(value > 0 for key, value in samples.items() if parse(key)[0] == counter)

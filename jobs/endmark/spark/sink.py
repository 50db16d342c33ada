"""The sink: takes a batch's channels apart and writes each to its Delta table, exactly once.

Per batch (called by `foreachBatch`):
1. persist the batch in packed form, so that no write computes the stateful plan again;
2. collect the metrics channel, which also says which tables get rows, and the patterns channel, which says
   what all buckets announce together;
3. append to those tables with (app id, batch id); Delta skips what an earlier attempt committed;
4. record the batch in the ops database, replacing what an earlier attempt recorded.
Spark commits the batch afterwards. A crash at any point repeats it from step 1.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812  # the name every Spark program gives it

from endmark.joins.announce import aligned
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
            samples, offsets, patterns = self._reports(packed)
            samples[sample("compute_seconds")] = perf_counter() - started
            wanted = [table for table in self._tables if _has_rows(samples, table.counter)]
            # A commit is mostly waiting for the driver, so tables are written side by side.
            rows = [self._rows(packed, table, patterns) for table in wanted]
            writes = [
                self._writers.submit(self._write, *each, batch_id) for each in zip(rows, wanted, strict=True)
            ]
            for table, write in zip(wanted, writes, strict=True):
                samples[sample("write_seconds", table=table.channel)] = write.result()
            self._ops.record_batch(self._pipeline.name, batch_id, self._run_id, samples, offsets)
        finally:
            packed.unpersist()

    def _reports(self, packed: DataFrame) -> tuple[Samples, dict[str, dict[str, int]], dict[str, str]]:
        """Samples, offsets by topic and partition, and the patterns that all buckets announce together."""
        blobs = packed.where(F.col("channel").isin(channels.METRICS, channels.PATTERNS)).collect()
        told: dict[str, list[Any]] = {channels.METRICS: [], channels.PATTERNS: []}
        for row in blobs:
            told[row.channel].append(json.loads(bytes(row.blob)))
        reports, patterns = told[channels.METRICS], aligned(told[channels.PATTERNS])
        latest = self._ops.latest_batch(self._pipeline.name)
        offsets = {topic: dict(ends) for topic, ends in latest.offsets.items()} if latest else {}
        for report in reports:
            for topic, ends in report.get("offsets", {}).items():
                offsets.setdefault(topic, {}).update(ends)
        samples = add(report["samples"] for report in reports)
        for report in reports:
            samples |= report.get("alike", {})
        for by in patterns.values():
            key = sample("propagated_punctuations_total", by=by)
            samples[key] = samples.get(key, 0) + 1
        return samples, offsets, patterns

    @staticmethod
    def _rows(packed: DataFrame, table: Target, patterns: dict[str, str]) -> DataFrame:
        blobs = packed.where(F.col("channel") == table.channel).select("blob")
        rows = blobs.mapInArrow(channels.unpack, table.ddl)
        if table.channel == channels.ANNOUNCED and patterns:
            rows = rows.union(packed.sparkSession.createDataFrame(list(patterns.items()), table.ddl))
        return rows

    def _write(self, rows: DataFrame, table: Target, batch_id: int) -> float:
        """Append the table's rows; returns the seconds it took."""
        started = perf_counter()
        writer = rows.write.format("delta").mode("append")
        writer.option("txnAppId", self._app_id).option("txnVersion", batch_id).save(str(table.path))
        return perf_counter() - started


def _has_rows(samples: Samples, counter: str) -> bool:
    return any(value > 0 for key, value in samples.items() if parse(key)[0] == counter)

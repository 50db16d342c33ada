"""The sink: takes a batch's channels apart and writes each to its Delta table, exactly once.

Per batch (called by `foreachBatch`):
1. persist the batch in packed form, so that no write computes the stateful plan again;
2. collect the metrics channel, which also says which tables get rows, and the patterns channel, which says
   what all buckets announce together;
3. append to those tables with (app id, batch id); Delta skips what an earlier attempt committed; and publish
   to the output topic, if there is one, which gets again what an earlier attempt has sent;
4. record the batch in the ops database, replacing what an earlier attempt recorded, and tell the pulse.
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
from endmark.ops.knobs import filed, steps_of
from endmark.spark.kafka import require_counted
from endmark.spark.packing import channels
from endmark.spark.tables import append

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from endmark.ops.database import OpsDatabase
    from endmark.ops.pulse import Pulse
    from endmark.pipeline import Pipeline
    from endmark.spark.publish import OutputTopic
    from endmark.spark.tables import Target


class Sink:
    """For `foreachBatch` over rows of (channel, blob).

    Args:
        pipeline, tables, topic, app_id, ops, run_id, pulse: of the job.
        partitions: by topic, as they were when the job started.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        tables: list[Target],
        topic: OutputTopic | None,
        app_id: str,
        ops: OpsDatabase,
        run_id: str,
        pulse: Pulse,
        partitions: Mapping[str, int],
    ) -> None:
        self._pipeline = pipeline
        self._partitions = partitions
        self._tables = tables
        self._topic = topic
        self._app_id = app_id
        self._ops = ops
        self._run_id = run_id
        self._pulse = pulse
        self._filed = filed(steps_of(pipeline))
        self._writers = ThreadPoolExecutor(len(tables) + 1, thread_name_prefix="sink")

    def __call__(self, packed: DataFrame, batch_id: int) -> None:
        packed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            started = perf_counter()
            reports, patterns = self._reports(packed)
            samples, offsets = self._told(reports, patterns, batch_id)
            for topic, ends in offsets.items():
                require_counted(topic, map(int, ends), self._partitions.get(topic, 0))
            samples[sample("compute_seconds")] = perf_counter() - started
            wanted = [table for table in self._tables if _has_rows(samples, table.counter)]
            rows = {table.channel: _rows(packed, table) for table in wanted}
            # A commit is mostly waiting for the driver, so tables are written side by side.
            writes = {
                sample("write_seconds", table=table.channel): self._writers.submit(
                    self._write, rows[table.channel], table, patterns, batch_id
                )
                for table in wanted
            }
            if self._topic is not None:
                found = rows.get(channels.RESULTS), rows.get(channels.ANNOUNCED), list(patterns)
                writes[sample("publish_seconds")] = self._writers.submit(
                    self._topic.publish, *found, batch_id
                )
            samples |= {key: write.result() for key, write in writes.items()}
            self._ops.record_batch(self._pipeline.name, batch_id, self._run_id, samples, offsets)
            turns = [turn for report in reports for turn in report.get("turns", [])]
            self._ops.record_turns(self._pipeline.name, batch_id, turns, self._filed)
            self._pulse.batch_done(samples, offsets)
        finally:
            packed.unpersist()

    def _reports(self, packed: DataFrame) -> tuple[list[dict[str, Any]], dict[str, str]]:
        """What tasks tell of the batch, and the patterns that all buckets announce together."""
        blobs = packed.where(F.col("channel").isin(channels.METRICS, channels.PATTERNS)).collect()
        told: dict[str, list[Any]] = {channels.METRICS: [], channels.PATTERNS: []}
        for row in blobs:
            told[row.channel].append(json.loads(bytes(row.blob)))
        return told[channels.METRICS], aligned(told[channels.PATTERNS])

    def _told(
        self, reports: list[dict[str, Any]], patterns: dict[str, str], batch_id: int
    ) -> tuple[Samples, dict[str, dict[str, int]]]:
        """Samples, and offsets by topic and partition."""
        offsets = self._ops.offsets_before(self._pipeline.name, batch_id)
        for report in reports:
            for topic, ends in report.get("offsets", {}).items():
                offsets.setdefault(topic, {}).update(ends)
        samples = add(report["samples"] for report in reports)
        for report in reports:
            samples |= report.get("alike", {})
            for key, value in report.get("greatest", {}).items():
                samples[key] = max(value, samples.get(key, value))
            for key, value in report.get("least", {}).items():
                samples[key] = min(value, samples.get(key, value))
        for by in patterns.values():
            key = sample("propagated_punctuations_total", by=by)
            samples[key] = samples.get(key, 0) + 1
        return samples, offsets

    def _write(self, rows: DataFrame, table: Target, patterns: dict[str, str], batch_id: int) -> float:
        """Append the table's rows; returns the seconds it took."""
        started = perf_counter()
        if table.channel == channels.ANNOUNCED and patterns:
            rows = rows.union(rows.sparkSession.createDataFrame(list(patterns.items()), table.ddl))
        if table.numbered:
            rows = rows.withColumn(table.schema.names[-1], F.lit(batch_id).cast("bigint"))
        append(rows, table.path, self._app_id, batch_id)
        return perf_counter() - started


def _rows(packed: DataFrame, table: Target) -> DataFrame:
    blobs = packed.where(F.col("channel") == table.channel).select("blob")
    return blobs.mapInArrow(channels.unpack, table.ddl)


def _has_rows(samples: Samples, counter: str) -> bool:
    return any(value > 0 for key, value in samples.items() if parse(key)[0] == counter)

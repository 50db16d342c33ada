"""The sink takes a batch's channels apart and writes each of them to its Delta table, exactly once.

Spark's `foreachBatch` calls the sink for each batch. The sink
1. runs the batch. Its tasks write files for the tables and report files, metrics and the patterns that all
   buckets announce together. With an output topic, the output of the tasks is persisted first, so that
   publishing does not compute the stateful plan again;
2. commits the files to their tables with (app id, batch id), unless an earlier attempt has done so. It
   publishes to the output topics, if there are any. A topic gets a repeated batch again;
3. records the batch in the ops database, where it replaces an earlier attempt's. It passes the batch on to
   the pulse, autotune, the pace and the quarantine.
Spark commits the batch afterwards. After a crash at any point, the batch is repeated from step 1. Files that
were not committed belong to no version of a table.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import functions as F  # noqa: N812  # the name every Spark program gives it

from endmark.control.tuning.knobs import filed, steps_of
from endmark.driver.table_log import TableLog
from endmark.driver.topics import require_counted
from endmark.engine import channels
from endmark.engine.delta_files import OutputFiles, write_files
from endmark.expressions.condition_failures import lines
from endmark.latency import latency_samples
from endmark.metrics import Samples, add, sample
from endmark.operators.stream_join.pattern_reports import aligned
from endmark.spark import query_log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from endmark.control.ops_database.database import OpsDatabase
    from endmark.control.pulse import Pulse
    from endmark.driver.pace import Pace
    from endmark.driver.quarantine import Quarantine
    from endmark.kafka.gaps import Gap
    from endmark.pipeline import Pipeline
    from endmark.spark.publish import OutputTopic
    from endmark.spark.tables import Target


@dataclass(frozen=True)
class JobRun:
    """One run of a job.

    Args:
        app_id: the id of the checkpoint.
        run_id: the id of the run in the ops database.
        tables: the Delta tables that batches are written to.
        topics: the output topics, by the channel whose rows they get.
        ops: the ops database.
        partitions: the number of partitions of each topic when the run started.
        say: called with lines for whoever runs the job.
        gaps: the offsets that batches of the checkpoint skip.
    """

    app_id: str
    run_id: str
    tables: list[Target]
    topics: Mapping[str, OutputTopic]
    ops: OpsDatabase
    partitions: Mapping[str, int]
    say: Callable[[str], None]
    gaps: tuple[Gap, ...] = ()


class Sink:
    """A sink for `foreachBatch` over rows of (channel, blob).

    Attributes:
        batches: the number of batches that the sink has written.

    Args:
        pipeline: the pipeline.
        run: the run of the job.
        pulse: gets each batch, and passes it to autotune.
        pace: makes the sink refuse a batch after a turn of `batch.*`.
        quarantine: makes the sink refuse a batch when too many records are dead letters.
    """

    def __init__(
        self, pipeline: Pipeline, run: JobRun, pulse: Pulse, pace: Pace, quarantine: Quarantine
    ) -> None:
        self.batches = 0
        self._pipeline = pipeline
        self._partitions = run.partitions
        self._tables = run.tables
        self._topics = run.topics
        self._ops = run.ops
        self._run_id = run.run_id
        self._gaps = run.gaps
        self._say = run.say
        self._pulse = pulse
        self._pace = pace
        self._quarantine = quarantine
        self._filed = filed(steps_of(pipeline))
        self._logs = {table.channel: TableLog(table.files(), table.key, run.app_id) for table in run.tables}

    def __call__(self, packed: DataFrame, batch_id: int) -> None:
        if self._pace.is_new or self._quarantine.is_full:
            query_log.mute(packed.sparkSession)
        self._quarantine.require_room()
        self._pace.require_same()
        if self._topics:
            packed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            started = perf_counter()
            output = self._run(packed)
            reports, patterns = output[channels.METRICS], aligned(output[channels.PATTERNS])
            samples, offsets = self._summed(reports, patterns, batch_id)
            for topic, ends in offsets.items():
                require_counted(topic, map(int, ends), self._partitions.get(topic, 0))
            samples[sample("compute_seconds")] = perf_counter() - started
            files = self._files(output[channels.FILES], patterns)
            # A batch that was planned before a later run began has the same offsets in both runs.
            self._ops.runs.require_last(self._run_id)
            samples |= self._commit(files, batch_id)
            samples |= latency_samples((report.get("times", {}) for report in reports), time.time())
            if self._topics:
                samples |= self._publish(packed, files, list(patterns), batch_id)
            self._ops.batches.record(self._pipeline.name, batch_id, self._run_id, samples, offsets)
            for line in lines(
                [failed for report in reports for failed in report.get("failures", [])], batch_id
            ):
                self._say(line)
            for why in {ignored: None for report in reports for ignored in report.get("ignored", [])}:
                self._say(f"batch {batch_id}: ignores a knob in state, as if it had never been turned: {why}")
            turns = [turn for report in reports for turn in report.get("turns", [])]
            self._ops.turns.record(self._pipeline.name, batch_id, turns, self._filed)
            answers = [answer for report in reports for answer in report.get("answers", [])]
            self._ops.answers.record(self._pipeline.name, batch_id, answers)
            self._pulse.batch_done(samples, offsets)
            self._pulse.tune(batch_id, samples, turns)
            self._pace.take(turns)
            self._quarantine.take(samples, reports)
            self.batches += 1
        finally:
            if self._topics:
                packed.unpersist()

    @property
    def files(self) -> OutputFiles:
        """The tables that the tasks of a batch write files for."""
        tables = {table.channel: table.files() for table in self._tables}
        for table in self._tables:
            tables |= table.deleted_files()
        announced = {channels.ANNOUNCED} if channels.RESULTS in self._topics else set()
        return OutputFiles(tables, frozenset(self._topics.keys() | announced))

    def _run(self, packed: DataFrame) -> dict[str, list[Any]]:
        """Run the batch's tasks, which write files for the tables; return their reports by channel."""
        output: dict[str, list[Any]] = {channels.METRICS: [], channels.PATTERNS: [], channels.FILES: []}
        reports = packed.where(F.col("channel").isin(list(output))) if self._topics else packed
        for row in reports.collect():
            output[row.channel].append(json.loads(bytes(row.blob)))
        return output

    def _files(
        self, written: list[dict[str, Any]], patterns: dict[str, str]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return files by channel: the files of tasks, and one with the patterns of all buckets together."""
        files: dict[str, list[dict[str, Any]]] = {}
        for file in written:
            files.setdefault(file["channel"], []).append(file)
        for table in self._tables:
            if table.channel == channels.ANNOUNCED and patterns:
                columns = [pa.array(column, pa.string()) for column in zip(*patterns.items(), strict=True)]
                rows = pa.table(columns, schema=table.schema)
                files.setdefault(table.channel, []).extend(write_files(table.files(), rows))
        return files

    def _commit(self, files: Mapping[str, list[dict[str, Any]]], batch_id: int) -> Samples:
        """Commit the files as a version of each table, results first; return the seconds by table."""
        samples: Samples = {}
        for table in self._tables:
            added, deleted = files.get(table.channel, []), files.get(table.deleted_channel or "", [])
            if added or deleted:
                started = perf_counter()
                self._logs[table.channel].commit(added, batch_id, deleted)
                samples[sample("write_seconds", table=table.channel)] = perf_counter() - started
        return samples

    def _publish(
        self, packed: DataFrame, files: Mapping[str, Any], patterns: Sequence[str], batch_id: int
    ) -> Samples:
        """Publish the rows of a batch and, behind results, its punctuations.

        Return the seconds, and the number of records left out by topic.

        Args:
            packed: the batch.
            files: the files of the batch by channel. A table without files has no rows to publish.
            patterns: the patterns that all buckets announce together.
            batch_id: the number of the batch.
        """
        started, written = perf_counter(), {table.channel: table for table in self._tables}
        samples: Samples = {}
        for channel, topic in self._topics.items():
            is_empty = channel in written and channel not in files
            rows = None if is_empty else _rows(packed, channel, topic.ddl)
            keys = None
            if channel == channels.RESULTS and channels.ANNOUNCED in files:
                keys = _rows(packed, channels.ANNOUNCED, written[channels.ANNOUNCED].ddl)
            if left_out := topic.publish(rows, keys, patterns, batch_id):
                samples[sample("unpublished_records_total", topic=topic.name)] = left_out
        samples[sample("publish_seconds")] = perf_counter() - started
        return samples

    def _summed(
        self, reports: list[dict[str, Any]], patterns: dict[str, str], batch_id: int
    ) -> tuple[Samples, dict[str, dict[str, int]]]:
        """Return the samples of a batch, and its first offsets that are not read, by topic and partition."""
        offsets = self._ops.batches.offsets_before(self._pipeline.name, batch_id)
        for gap in self._gaps:  # no report of a task has them, and each batch of this run is past them
            partitions, at = offsets.setdefault(gap.topic, {}), str(gap.partition)
            partitions[at] = max(gap.end, partitions.get(at, 0))
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


def _rows(packed: DataFrame, channel: str, ddl: str) -> DataFrame:
    return packed.where(F.col("channel") == channel).select("blob").mapInArrow(channels.unpack, ddl)

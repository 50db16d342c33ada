"""A pipeline in Spark itself, whose records come from files instead of Kafka, one batch after the other."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from endmark.engine import channels
from endmark.pipeline import Pipeline
from endmark.relation.sql import SqlRelation
from endmark.spark import plan
from endmark.spark.tables import targets
from endmark.state import codec
from support.bucket_tasks import (
    Located,
    Tables,
    announced_together,
    kafka_batch,
    number_running,
    partition_cutter,
)

if TYPE_CHECKING:
    from endmark.spark.kafka_source import Through

_DDL = (
    "topic string, partition int, offset long, value binary, timestamp timestamp, key binary, "
    "headers map<string, binary>"
)
_GONE = "the sink is gone"
_TOO_BUSY = "Python worker failed to connect back"


class End(StrEnum):
    """A choice of whether and how the query ends after a batch."""

    GO_ON = "go on"
    STOP = "stop"  # the next batch is of another query, from the checkpoint
    FAIL = "fail"  # after its state was written, before it is committed: another query repeats it


class SparkPipeline:
    """The plan that a job runs, in a session of its own; what it gives is collected instead of written.

    Args:
        spark: any session; its settings stay as they are.
        pipeline: whose relation is in a database that tasks can reach.
        partitions: counted by topic.
        buckets: fixed for the life of the directory.
        full_batch: as in `BucketPlan`.
        directory: of input files, checkpoint and local copies of segments.
    """

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        partitions: Mapping[str, int],
        buckets: int,
        full_batch: int | None,
        directory: Path,
    ) -> None:
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.shuffle.partitions", str(buckets))
        self._pipeline = pipeline
        self._partitions = dict(partitions)
        relations = {name: SqlRelation(relation) for name, relation in pipeline.relations.items()}
        self._pages = {name: relation.directory(page_rows=1) for name, relation in relations.items()}
        self._full_batch = full_batch
        self._directory = directory
        tables = targets(pipeline, directory)
        self._channels = {table.channel for table in tables}
        self._channels |= {table.deleted_channel for table in tables if table.deleted_channel}
        self._channels |= pipeline.outputs.roles
        self._attempts: dict[int, list[Tables]] = {}
        (directory / "records").mkdir()

    def run(self, batches: Sequence[tuple[Sequence[Located], End]]) -> list[Tables]:
        """The rows of each table, by channel, batch by batch. A batch that is repeated gives the same."""
        for number, (records, end) in enumerate(batches):
            self._write(number, records)
            if end is End.STOP:
                self._read_all()
            elif end is End.FAIL:
                with pytest.raises(StreamingQueryException, match=_GONE):
                    self._read_all(failing=number)
        self._read_all()
        assert sorted(self._attempts) == list(range(len(batches)))
        for (_, end), attempts in zip(batches, map(self._attempts.get, range(len(batches))), strict=True):
            assert attempts is not None
            assert len(attempts) == (2 if end is End.FAIL else 1)
            assert all(_as_set(attempt) == _as_set(attempts[0]) for attempt in attempts)
        return [self._attempts[number][-1] for number in range(len(batches))]

    def _write(self, number: int, records: Sequence[Located]) -> None:
        """One file for each partition, as a task of the Kafka source reads one."""
        for topic, partitions in self._partitions.items():
            for partition in range(partitions):
                mine = [record for record in records if record[:2] == (topic, partition)]
                file = self._directory / "records" / f"{number}-{topic}-{partition}.parquet"
                pq.write_table(pa.Table.from_batches([kafka_batch(mine)]), file)
                os.utime(file, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their age

    def _read_all(self, failing: int | None = None) -> None:
        """Start a query from the checkpoint, and let it read what it has not; once more, when the machine is
        too busy for Spark, which waits ten seconds for a Python process of a new query and then gives up."""
        for last in (False, False, True):
            try:
                self._query(failing).awaitTermination()
            except StreamingQueryException as error:
                if last or _TOO_BUSY not in str(error):
                    raise
            else:
                return

    def _query(self, failing: int | None) -> StreamingQuery:

        def collect(packed: DataFrame, number: int) -> None:
            found: Tables = {channel: [] for channel in self._channels}
            reports = []
            for row in packed.where(packed.channel != channels.METRICS).collect():
                if row.channel == channels.PATTERNS:
                    reports.append(json.loads(bytes(row.blob)))
                else:
                    found[row.channel] += codec.decode(bytes(row.blob)).to_pylist()
            found[channels.ANNOUNCED] += announced_together(reports)
            number_running(found, number)
            self._attempts.setdefault(number, []).append(found)
            if number == failing:
                raise ConnectionError(_GONE)

        reader = self._spark.readStream.schema(_DDL).option(
            "maxFilesPerTrigger", sum(self._partitions.values())
        )
        records = _Files(reader.parquet(str(self._directory / "records")))
        frame = plan.build(
            self._spark,
            self._pipeline,
            records,
            self._partitions,
            plan.Relations(self._pages, self._directory.name),
            self._full_batch,
        )
        return (
            frame.writeStream.foreachBatch(collect)
            .option("checkpointLocation", str(self._directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )


@dataclass(frozen=True)
class _Files:
    """A source of records that are in files."""

    records: DataFrame

    def stream(self, spark: SparkSession, through: Through, columns: str) -> DataFrame:
        cut = partition_cutter()
        return self.records.mapInArrow(lambda batches: through(cut(batches)), columns)


def _as_set(tables: Tables) -> dict[str, Counter[str]]:
    """Rows as they print, since those of groups may hold lists."""
    return {channel: Counter(repr(row) for row in rows) for channel, rows in tables.items()}

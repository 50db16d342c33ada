"""A pipeline's stages on Kafka records, without Spark: what a batch of them puts into the tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from endmark.engine import channels
from endmark.engine.bucket.lookup_levels import lookup_positions
from endmark.engine.bucket.lookup_plan import LookupPlan, lookup_plan, unpaged_lookups
from endmark.engine.bucket.task import BucketTask
from endmark.engine.channels import Buckets
from endmark.engine.groups.stage import GroupStage
from endmark.engine.groups.task import GroupTask
from endmark.engine.ingest.control_rows import ControlPlan
from endmark.engine.ingest.ingest import Ingest
from endmark.engine.stages import StagePlan, group_stages, stage_plans
from endmark.engine.streams import StreamPlan, arrow_schema, stream_plans
from endmark.kafka.ranges import HEADERS, KEY
from endmark.metrics import sample
from endmark.operators.stream_join.pattern_reports import aligned
from endmark.pipeline import Lookup, Pipeline, Relation
from endmark.pipeline.tables import deleted_role, is_latest_role, is_running_role, kind_of, step_of
from endmark.relation.contract import PageDirectory, PagedRelation
from endmark.spark.tables import targets
from endmark.state import codec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.memory_relation import MemoryRelation
from support.published_rows import with_published_rows
from support.verify_world import Placed

LABELS = (3, 5, 6, 9, 12)
BUCKETS = Buckets(LABELS[:2])
# Topic, partition, offset, value and timestamp in milliseconds; or a record with key and headers, too.
Located = tuple[str, int, int, bytes | None, int] | Placed
Blob = tuple[int, str, bytes]  # a packed row: the label of a bucket, the channel and the bytes
Tables = dict[str, list[dict[str, Any]]]


class Found(Tables):
    """The rows of tables by channel. `groups` and `running` stand for the one channel of this kind."""

    def __missing__(self, kind: str) -> list[dict[str, Any]]:
        found = [channel for channel in self if kind_of(channel) == kind]
        if len(found) != 1:
            raise KeyError(f"{kind}: {found}")
        return self[found[0]]


KAFKA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        KEY,
        HEADERS,
    ]
)


def kafka_batch(records: Sequence[Located]) -> pa.RecordBatch:
    """Records as tasks read them from Kafka, with keys and headers."""
    whole = [Placed(*record) for record in records]
    rows = [(*record[:4], 1000 * record.timestamp, record.key, record.headers) for record in whole]
    columns = list(zip(*rows, strict=True)) or [()] * len(KAFKA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, KAFKA, strict=True)]
    return pa.record_batch(arrays, schema=KAFKA)


def partition_cutter() -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make what cuts batches of records into those of one partition each, as tasks read them from Kafka.

    Spark pickles an inner function by its code. It would pickle another one by its module, and no worker has
    the modules of tests.
    """

    def of_one_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("topic", "partition"))
            places = list(zip(*columns, strict=True))
            for place in dict.fromkeys(places):
                yield batch.filter(pa.array([each == place for each in places]))

    return of_one_partition


def relation_in_memory(declared: Relation, rows: Iterable[tuple[Any, ...]]) -> MemoryRelation:
    schema = arrow_schema(dict(declared.columns))
    columns = list(zip(*rows, strict=True))
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return MemoryRelation(pa.record_batch(arrays, schema=schema), declared.key)


class BucketTasks:
    """One task for each bucket of each stage, restored from its snapshot before every batch.

    `relation` are rows of the one that `others` does not name, or where it is; `others` are by their name.
    `reports` are what the last batch told of itself, as the sink gets them, and `patterns` those that it
    announced. `partitions` are counted by topic, unless each has as many. `group_buckets` are those of a
    stage of groups.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        relation: Iterable[tuple[Any, ...]] | PagedRelation,
        partitions: int | Mapping[str, int],
        directory: Path,
        full_batch: int | None = None,
        others: Mapping[str, Iterable[tuple[Any, ...]]] = MappingProxyType({}),
        buckets: int = len(BUCKETS),
        group_buckets: int = 1,
    ) -> None:
        topics = [stream.topic for stream in pipeline.streams.values()]
        counts = dict.fromkeys(topics, partitions) if isinstance(partitions, int) else dict(partitions)
        self._buckets = Buckets(LABELS[:buckets])
        streams = stream_plans(pipeline, counts)
        places = lookup_positions(pipeline)

        directories: dict[str, PageDirectory] = {}

        def looking(declared: Lookup, stream: StreamPlan) -> LookupPlan:
            rows = others.get(declared.relation, relation)
            reader: PagedRelation
            page_rows = declared.page_rows
            if isinstance(rows, Iterable):
                reader, page_rows = relation_in_memory(pipeline.relations[declared.relation], rows), 2
            else:
                reader = rows
            directories[declared.relation] = reader.directory(page_rows)
            return lookup_plan(
                declared,
                places[declared.relation],
                stream,
                buckets,
                reader,
                directories[declared.relation],
                nullcontext,
                cache_name=str(directory),
            )

        groups = Buckets(LABELS[-group_buckets:])
        group_plans = group_stages(pipeline, self._buckets, groups)
        stages = stage_plans(pipeline, streams, looking, self._buckets, group_plans, full_batch)
        self._store = SegmentStore(MemoryBlobs(), directory)
        self._stages = [StageTasks(stage, self._buckets, self._store) for stage in stages]
        self.plans = stages
        self.plan = stages[0].bucket
        tables = targets(with_published_rows(pipeline), directory)
        self._schemas = {table.channel: table.brought for table in tables}
        self._schemas |= {
            table.deleted_channel: table.deleted_schema for table in tables if table.deleted_channel
        }
        self._groups = [
            GroupTasks(plan, directory, onward) for plan, onward in zip_longest(group_plans, group_plans[1:])
        ]
        self._batches = 0
        self._ingest = Ingest(
            streams, self._buckets, ControlPlan.of(pipeline, unpaged_lookups(pipeline, directories))
        )
        self.reports: list[dict[str, Any]] = []
        self.patterns: list[dict[str, Any]] = []

    def go_on_from(self, earlier: BucketTasks) -> None:
        """Take over the state of tasks whose pipeline had other columns."""
        for stage, before in zip(self._stages, earlier._stages, strict=True):
            stage.go_on_from(before)
        for groups, had in zip(self._groups, earlier._groups, strict=True):
            groups.go_on_from(had)
        self._batches = earlier._batches

    @property
    def snapshots(self) -> list[bytes]:
        """The snapshots of all buckets of the first stage."""
        return [task.snapshot() for task in self._stages[0].tasks.values()]

    def pack(self, records: Sequence[Located]) -> list[dict[str, Any]]:
        """The packed rows that reach the buckets."""
        batches = partition_cutter()([kafka_batch(records)])
        return [row for rows in self._ingest(batches) for row in rows.to_pylist()]

    def tell(self, channel: str, blob: bytes) -> None:
        """Give each bucket a batch of one blob."""
        for task in self._stages[0].tasks.values():
            for _ in task.run([(channel, blob)]):
                pass

    def batch(self, records: Sequence[Located]) -> Tables:
        """The rows that one batch of records adds to each table, by channel."""
        packed = self.pack(records)
        self.reports = []
        reports: list[dict[str, Any]] = []
        found: Tables = Found({channel: [] for channel in self._schemas})
        for channel, blob in self._run(packed):
            if channel == channels.METRICS:
                self.reports.append(json.loads(blob))
                continue
            if channel == channels.PATTERNS:
                reports.append(json.loads(blob))
                continue
            rows = codec.decode(blob)
            assert rows.schema == self._schemas[channel]
            found[channel] += rows.to_pylist()
        self.patterns = announced_together(reports)
        found[channels.ANNOUNCED] += self.patterns
        number_running(found, self._batches)
        self._batches += 1
        self.reports.append({"samples": self._store.profile.take()})
        require_apart(found)
        return found

    def _run(self, packed: list[dict[str, Any]]) -> Iterator[tuple[str, bytes]]:
        """Run the stages; yield what comes to the sink."""
        blobs: list[Blob] = [(row["bucket"], row["channel"], row["blob"]) for row in packed]
        for stage in self._stages:
            blobs = list(stage.run(blobs))
        for groups in self._groups:
            blobs = list(groups.run(blobs))
        yield from ((channel, blob) for _, channel, blob in blobs)


class StageTasks:
    """One task for each bucket of a stage, restored from its snapshot before every batch."""

    def __init__(self, plan: StagePlan, buckets: Buckets, store: SegmentStore) -> None:
        self._plan = plan
        self._store = store
        self.tasks = {label: BucketTask(plan.bucket, store, None) for label in buckets.labels}

    def go_on_from(self, earlier: StageTasks) -> None:
        """Restore each bucket from the snapshot of an earlier plan."""
        self._store = earlier._store
        for label, task in earlier.tasks.items():
            self.tasks[label] = BucketTask(self._plan.bucket, self._store, task.snapshot())

    def run(self, packed: list[Blob]) -> Iterator[Blob]:
        """Run one batch; yield what comes to the next stage, or to the sink."""
        for label, task in self.tasks.items():
            self.tasks[label] = BucketTask(self._plan.bucket, self._store, task.snapshot())
            output = self.tasks[label].run((channel, blob) for to, channel, blob in packed if to == label)
            if self._plan.onward is None:
                for channel, rows in output:
                    yield label, channel, rows if isinstance(rows, bytes) else codec.encode(rows)
            else:
                yield from self._plan.onward.hand_over(label, output)


def pauses(tasks: BucketTasks) -> Iterator[Tables]:
    """Batches without a record, until nothing waits for one."""
    waits = True
    while waits:
        yield tasks.batch([])
        due = sample("batch_due_time_seconds")
        waits = any(due in report.get("least", {}) for report in tasks.reports)


class GroupTasks:
    """One task for each bucket of a stage of groups, restored from its snapshot before every batch."""

    def __init__(self, stage: GroupStage, directory: Path, onward: GroupStage | None = None) -> None:
        self.stage = stage
        self._onward = onward
        self._store = SegmentStore(MemoryBlobs(), directory)
        self._snapshots: dict[int, bytes | None] = dict.fromkeys(stage.buckets.labels)

    def go_on_from(self, earlier: GroupTasks) -> None:
        """Take over the snapshots of an earlier plan."""
        self._store, self._snapshots = earlier._store, dict(earlier._snapshots)

    def run(self, packed: list[Blob]) -> Iterator[Blob]:
        """Run one batch; yield what comes to the next stage, or to the sink.

        A bucket without a blob does not run.
        """
        # What passes through may have a label that only the stages before have. In a job, all stages have the
        # same labels. Here the first bucket takes it.
        others = [channel for label, channel, _ in packed if label not in self._snapshots]
        assert all(map(channels.is_for_sink, others))
        first = next(iter(self._snapshots))
        for label in self._snapshots:
            mine = [
                (channel, blob)
                for bucket, channel, blob in packed
                if (bucket if bucket in self._snapshots else first) == label
            ]
            if mine:
                task = GroupTask(self.stage, self._store, self._snapshots[label])
                output = task.run(mine)
                if self._onward is not None:
                    yield from self._onward.hand_over(label, output)
                else:
                    yield from ((label, channel, blob) for channel, blob in output)
                self._snapshots[label] = task.snapshot()


def announced_together(reports: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the punctuations table: what the reports of all buckets of a batch say of patterns."""
    return [{"punctuation": text, "completed_by": by} for text, by in aligned(reports).items()]


def number_running(tables: Tables, batch: int) -> None:
    """Add the number of the batch to running groups, which the sink does in a job."""
    for channel in filter(is_running_role, tables):
        for row in tables[channel]:
            row["batch"] = batch


def total(batches: Iterable[Mapping[str, list[dict[str, Any]]]]) -> Tables:
    """The rows of all batches."""
    tables: Tables = Found()
    for batch in batches:
        for channel, rows in batch.items():
            tables.setdefault(channel, []).extend(rows)
    return tables


def require_apart(found: Tables) -> None:
    """Assert that a batch puts out no row of a key that it deletes: an upsert would keep it."""
    for role in filter(is_latest_role, found):
        deleted = found[deleted_role(step_of(role))]
        names = list(deleted[0]) if deleted else []
        gone = {tuple(row.values()) for row in deleted}
        assert not gone & {tuple(row[name] for name in names) for row in found[role]}


def upserted(pipeline: Pipeline, batches: Sequence[Tables]) -> Tables:
    """The rows of all tables after some batches. In an upserted one, the row of a batch replaces the older
    one of its key, and a deletion removes it."""
    found = total(batches)
    for role in pipeline.outputs.tables_by_role:
        if not (key := pipeline.outputs.key_of(role)):
            continue
        rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        deleted = deleted_role(step_of(role)) if is_latest_role(role) else None
        for batch in batches:
            for gone in batch.get(deleted, []) if deleted else []:
                rows.pop(tuple(gone.values()), None)
            rows |= {tuple(row[name] for name in key): row for row in batch.get(role, [])}
        found[role] = list(rows.values())
        found.pop(deleted or "", None)
    return found

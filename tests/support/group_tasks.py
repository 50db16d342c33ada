"""A group-by of frames without Spark: batches of rows in, batches of groups out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from endmark.engine import channels
from endmark.engine.bucket.task import BucketTask
from endmark.engine.channels import Buckets
from endmark.engine.ingest.frame_rows import UnpackFrame
from endmark.frame.grouping import Grouping, PackGroups, declared_groups
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.wire.renamed_punctuations import Renaming
from support.frame_tasks import COLUMN, Rows


class GroupTasks:
    """One task for each bucket, restored from its snapshot before every batch.

    `packing` tasks pack the frame.
    """

    def __init__(
        self,
        rows: pa.Schema,
        renaming: Renaming,
        directory: Path,
        by: tuple[str, ...],
        measures: dict[str, Any],
        ordered_by: tuple[str, ...] = (),
        buckets: int = 2,
        packing: int = 2,
        *,
        running: bool = False,
    ) -> None:
        self._packing = packing
        self._buckets = Buckets(tuple(range(3, 3 + buckets)))
        declared = declared_groups(by, measures, ordered_by, rows, running=running)
        self.grouping = Grouping.of(rows, declared, ordered_by, buckets, running=running)
        self._input = pa.schema([*rows, (COLUMN, pa.string())])
        self._pack = PackGroups(self.grouping.plan, self._buckets, len(rows), renaming)
        schema = self.grouping.schema.append(pa.field(COLUMN, pa.string()))
        self._kept = {self.grouping.channel, channels.ANNOUNCED, channels.PATTERNS, channels.REFUSED}
        self._unpack = UnpackFrame(schema, self.grouping.channel)
        self._store = SegmentStore(MemoryBlobs(), directory)
        self._tasks = {label: self._task(None) for label in self._buckets.labels}

    def _task(self, restored: Any) -> BucketTask:
        return BucketTask(self.grouping.plan, self._store, restored)

    def batch(self, rows: Rows) -> Rows:
        """Run one batch, and return the rows that it adds to the result; its texts name the columns of the
        join."""
        shares = [
            pa.RecordBatch.from_pylist(rows[at :: self._packing], self._input) for at in range(self._packing)
        ]
        packed = [row for share in shares for each in self._pack(iter([share])) for row in each.to_pylist()]
        moved = []
        for label, task in self._tasks.items():
            mine = [(row["channel"], row["blob"]) for row in packed if row["bucket"] == label]
            if mine:
                self._tasks[label] = self._task(task.snapshot())
                out = self._tasks[label].run(mine)
                moved += [
                    {"channel": channel, "blob": blob} for channel, blob in out if channel in self._kept
                ]
        schema = pa.schema([("channel", pa.string()), ("blob", pa.binary())])
        arrived = pa.RecordBatch.from_pylist(moved, schema)
        return [row for each in self._unpack(iter([arrived])) for row in each.to_pylist()]

"""A join of frames without Spark: batches of rows in, batches of rows out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from endmark.engine import channels
from endmark.engine.bucket.plan import BucketPlan
from endmark.engine.bucket.task import BucketTask
from endmark.engine.channels import Buckets
from endmark.engine.ingest.frame_rows import PackFrame, UnpackFrame
from endmark.expressions.condition import Condition
from endmark.operators.stream_join.presets import DEFAULT, Policy
from endmark.spark.frame_inputs import frame_stream
from endmark.state import codec
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.types import JoinType
from endmark.wire.renamed_punctuations import Renaming

COLUMN = "said"
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Frame:
    """One frame: its columns without that of punctuations, and how it is joined."""

    schema: pa.Schema
    on: tuple[str, ...]
    time: str
    window: timedelta | None = None
    punctuated: bool = True
    renaming: Renaming | None = None


def said(text: str | Mapping[str, Any]) -> dict[str, Any]:
    """A control row."""
    return {COLUMN: text if isinstance(text, str) else json.dumps(text)}


def arrow_rows(rows: Rows, schema: pa.Schema) -> pa.RecordBatch:
    """Rows as Spark hands them over: a string may be any bytes."""
    as_bytes = pa.schema(
        [field.with_type(pa.binary()) if field.type == pa.string() else field for field in schema]
    )
    columns = zip(pa.RecordBatch.from_pylist(rows, as_bytes).columns, schema.types, strict=True)
    viewed = [column.view(kind) if kind == pa.string() else column for column, kind in columns]
    return pa.record_batch(viewed, schema=schema)


class FrameTasks:
    """One task for each bucket, restored from its snapshot before every batch.

    `packing` tasks pack each frame.
    """

    def __init__(
        self,
        frames: Mapping[str, Frame],
        directory: Path,
        *,
        kind: JoinType = JoinType.INNER,
        buckets: int = 2,
        packing: int = 2,
        policy: Policy = DEFAULT,
        lateness: timedelta = timedelta(0),
        residual: Condition | None = None,
    ) -> None:
        self._buckets = Buckets(tuple(range(3, 3 + buckets)))
        self._frames = frames
        self._packing = packing
        self._streams = {
            side: frame_stream(
                side,
                pa.schema([field.with_name(f"{side}_{field.name}") for field in frame.schema]),
                frame.on,
                frame.time,
                frame.window,
                lateness,
                punctuated=frame.punctuated,
            )
            for side, frame in frames.items()
        }
        self._plan = BucketPlan(
            (self._streams["left"], self._streams["right"]), kind, residual, policy, (), in_band=True
        )
        shown = ["left"] if kind is JoinType.SEMI else ["left", "right"]
        fields = [field for side in shown for field in self._streams[side].side.schema]
        self.schema = pa.schema([*fields, (COLUMN, pa.string())])
        self._store = SegmentStore(MemoryBlobs(), directory)
        self._tasks = {label: BucketTask(self._plan, self._store, None) for label in self._buckets.labels}

    def batch(self, left: Rows = (), right: Rows = ()) -> Rows:  # type: ignore[assignment]
        """Run one batch of rows and control rows, in any order, and return the rows that it adds to the
        result."""
        packed = [row for side, rows in (("left", left), ("right", right)) for row in self._pack(side, rows)]
        moved = []
        for label in self._tasks:
            mine = [(row["channel"], row["blob"]) for row in packed if row["bucket"] == label]
            if not mine:
                continue  # as Spark has it
            self._tasks[label] = BucketTask(self._plan, self._store, self._tasks[label].snapshot())
            moved += [
                {"channel": channel, "blob": rows if isinstance(rows, bytes) else codec.encode(rows)}
                for channel, rows in self._tasks[label].run(mine)
                if channel != channels.METRICS
            ]
        schema = pa.schema([("channel", pa.string()), ("blob", pa.binary())])
        arrived = pa.RecordBatch.from_pylist(moved, schema)
        return [row for rows in UnpackFrame(self.schema)(iter([arrived])) for row in rows.to_pylist()]

    def _pack(self, side: str, rows: Rows) -> Rows:
        frame = self._frames[side]
        schema = pa.schema([*frame.schema, (COLUMN, pa.string())]) if frame.punctuated else frame.schema
        place = len(frame.schema) if frame.punctuated else None
        pack = PackFrame(self._streams[side], self._buckets, place, frame.renaming)
        tasks = [rows[at :: self._packing] for at in range(self._packing)]
        batches = [arrow_rows(share, schema) for share in tasks]
        return [row for each in batches for packed in pack(iter([each])) for row in packed.to_pylist()]

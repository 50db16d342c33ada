"""The engine's stream join on the streams of a paper, without Spark: its time, its results and its state.

All times of the figures come from here. The algorithms of `endmark_papers.algorithms` take one row at a time
in Python, and what that costs turns ratios of times over.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.presets import DEFAULT, Policy
from endmark.operators.stream_join.side import SideSpec
from endmark.punctuation.pattern import Equals
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark_papers.algorithms.contract import Closing, Element, Row, Side

MICROSECONDS = 1_000_000
Batch = tuple[StreamBatch, StreamBatch]
Windows = tuple[float | None, float | None]


class Course(NamedTuple):
    """One run of a join, after each of its batches.

    Args:
        seconds: seconds of work since the run began.
        results: results since the run began.
        held: rows in state.
        written: segments written since the run began; a segment is a sorted piece of rows or of closed keys.
    """

    seconds: list[float]
    results: list[int]
    held: list[int]
    written: list[int]


class _CountingBlobs(MemoryBlobs):
    """A store in memory that counts what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = 0

    def put(self, blob_id: str, data: bytes) -> None:
        self.written += 1
        super().put(blob_id, data)


class EngineJoin:
    """A stream join of the engine with the windows and the policy of one contender.

    Args:
        policy: how the join treats its state; `policy` of `endmark.operators.stream_join.presets` makes it.
        windows: seconds for which a left and a right row stay joinable; `None` is for ever.
        unique: a key comes at most once on the left, so that each left row closes its own.
    """

    def __init__(
        self, policy: Policy = DEFAULT, windows: Windows = (None, None), *, unique: bool = False
    ) -> None:
        self._policy = policy
        self._specs = _spec(Side.LEFT, windows[0], unique=unique), _spec(Side.RIGHT, windows[1])

    def batches(self, elements: Sequence[Element], size: int) -> list[Batch]:
        """Cut a join's input into batches of `size` elements."""
        left, right = self._specs
        return [
            (_batch(left, Side.LEFT, elements, at, size), _batch(right, Side.RIGHT, elements, at, size))
            for at in range(0, len(elements), size)
        ]

    def run(self, batches: Sequence[Batch]) -> Course:
        """Join the batches; each restores the join from its snapshot, as a task of a job does."""
        course = Course([], [], [], [])
        spent, results, snapshot = 0.0, 0, None
        with tempfile.TemporaryDirectory() as directory:
            blobs = _CountingBlobs()
            store = SegmentStore(blobs, Path(directory))
            for left, right in batches:
                started = time.perf_counter()
                join = StreamJoin(*self._specs, store, policy=self._policy, restored=snapshot)
                results += sum(piece.num_rows for piece in join.process(left, right))
                snapshot = join.snapshot()
                spent += time.perf_counter() - started
                course.seconds.append(spent)
                course.results.append(results)
                course.held.append(join.left.rows.rows + join.right.rows.rows)
                course.written.append(blobs.written)
        return course


def race(
    contenders: Mapping[str, tuple[EngineJoin, Sequence[Batch]]], repeats: int
) -> dict[str, list[Course]]:
    """Run every contender once, then all of them again, so that a busy minute of the machine hits all alike.

    Before that, each runs once untimed.
    """
    found: dict[str, list[Course]] = {name: [] for name in contenders}
    for repeat in range(repeats + 1):
        for name, (join, batches) in contenders.items():
            course = join.run(batches)
            if repeat:
                found[name].append(course)
    return found


def unpunctuated(batches: Sequence[Batch]) -> list[Batch]:
    """Return the batches without their punctuations."""
    return [(_rows(left), _rows(right)) for left, right in batches]


def _rows(batch: StreamBatch) -> StreamBatch:
    return StreamBatch(rows=batch.rows, newest=batch.newest)


def _spec(side: Side, window: float | None, *, unique: bool = False) -> SideSpec:
    moment = pa.timestamp("us", "UTC")
    kinds = {
        "key": pa.int64(),
        "serial": pa.int64(),
        "at": moment,
        "partition": pa.int64(),
        "offset": pa.int64(),
    }
    return SideSpec(
        name=side.value,
        key=KeySpec((f"{side}_key",)),
        time=f"{side}_at",
        schema=pa.schema([(f"{side}_{name}", kind) for name, kind in kinds.items()]),
        partition=f"{side}_partition",
        offset=f"{side}_offset",
        window=None if window is None else round(window * MICROSECONDS),
        unique=unique,
    )


def _batch(spec: SideSpec, side: Side, elements: Sequence[Element], first: int, size: int) -> StreamBatch:
    """Return a side's share of a batch. Offsets are places in the input of the whole join."""
    mine = [(at, each) for at, each in enumerate(elements[first : first + size], first) if each.side is side]
    rows = [(each.key, each.serial, _moment(each), 0, at) for at, each in mine if isinstance(each, Row)]
    closed = [(_key(each), 0, at) for at, each in mine if isinstance(each, Closing)]
    arrived = _table(spec.schema, rows)
    names = [*spec.key.shared.columns, "partition", "offset"]
    closings = _table(pa.schema([(name, pa.int64()) for name in names]), closed)
    return StreamBatch(
        rows=spec.key.sorted(arrived) if rows else None,
        closed_keys=closings if closed else None,
        newest={0: max(moment for _, _, moment, _, _ in rows)} if rows else {},
    )


def _key(closing: Closing) -> int:
    return cast("int", cast("Equals", closing.pattern).value)


def _moment(row: Row) -> int:
    return round(row.time * MICROSECONDS)


def _table(schema: pa.Schema, rows: Sequence[tuple[object, ...]]) -> pa.RecordBatch:
    columns = np.array(rows, np.int64).reshape(-1, len(schema)).T
    return pa.record_batch(
        [pa.array(column).cast(kind) for column, kind in zip(columns, schema.types, strict=True)],
        schema=schema,
    )

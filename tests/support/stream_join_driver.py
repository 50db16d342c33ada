"""Runs the segment engine over a history, batch by batch, restored from its own snapshot in between."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa

from endmark.joins.side import NEVER, SideInput, SideSpec, late_rows
from endmark.joins.stream_join import StreamJoin
from endmark.state.segment import sort_by_key
from endmark.state.store import SegmentStore
from support.memory_store import MemoryBlobs
from support.stream_join_world import PARTITIONS, SIDES, Event, History, SideName

Tagged = tuple[int, int, Event]


@dataclass
class Actual:
    results: Counter[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=Counter)
    violations: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    announced: list[int] = field(default_factory=list)
    too_late: list[int] = field(default_factory=list)  # keys with a result after their announcement
    state_rows: int = 0


def spec(history: History, side: SideName) -> SideSpec:
    return SideSpec(
        name=side,
        key=f"{side}_key",
        time=f"{side}_time",
        partition=f"{side}_partition",
        offset=f"{side}_offset",
        window=history.windows[side],
        lateness=history.lateness[side],
        partitions=PARTITIONS,
    )


def run(history: History, directory: Path, *, restart: bool) -> Actual:
    """Every batch in turn; with `restart`, a fresh operator continues from the snapshot each time."""
    blobs, actual = MemoryBlobs(), Actual()
    specs = [spec(history, side) for side in SIDES]
    join = StreamJoin(specs[0], specs[1], SegmentStore(blobs, directory))
    for batch in history.batches():
        if restart:
            for copy in directory.iterdir():
                copy.unlink()
            join = StreamJoin(specs[0], specs[1], SegmentStore(blobs, directory), join.snapshot())
        inputs = [_input(history, side, batch[side], actual) for side in SIDES]
        for result in join.process(*inputs):
            _collect(result, actual)
        for violation in join.output.violations:
            for partition, offset in _coordinates(violation.rows, violation.side):
                actual.violations[violation.side, violation.reason, partition, offset] += 1
        actual.announced += join.output.announced.tolist()
    actual.state_rows = join.left.rows.rows + join.right.rows.rows
    return actual


def _input(history: History, side: SideName, events: list[Tagged], actual: Actual) -> SideInput:
    good: list[Tagged] = []
    newest: dict[int, int] = {}
    for partition in range(PARTITIONS):
        rows = [tagged for tagged in events if tagged[0] == partition and tagged[2].time is not None]
        times = np.array([event.time for _, _, event in rows], np.int64)
        late, last = late_rows(times, NEVER, history.lateness[side])
        if rows:
            newest[partition] = last
        for tagged, is_late in zip(rows, late, strict=True):
            if is_late:
                actual.violations[side, "late", tagged[0], tagged[1]] += 1
            else:
                good.append(tagged)
    closing = [tagged for tagged in events if tagged[2].time is None]
    return SideInput(
        rows=sort_by_key(_rows(good, side), f"{side}_key") if good else None,
        punctuations=_punctuations(closing) if closing else None,
        newest=newest,
    )


def _rows(tagged: list[Tagged], side: SideName) -> pa.RecordBatch:
    return pa.record_batch(
        {
            f"{side}_key": pa.array([event.key for _, _, event in tagged], pa.int64()),
            f"{side}_time": pa.array([event.time for _, _, event in tagged], pa.timestamp("us", "UTC")),
            f"{side}_partition": pa.array([partition for partition, _, _ in tagged], pa.int64()),
            f"{side}_offset": pa.array([offset for _, offset, _ in tagged], pa.int64()),
        }
    )


def _punctuations(tagged: list[Tagged]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": pa.array([event.key for _, _, event in tagged], pa.int64()),
            "partition": pa.array([partition for partition, _, _ in tagged], pa.int64()),
            "offset": pa.array([offset for _, offset, _ in tagged], pa.int64()),
        }
    )


def _coordinates(rows: pa.RecordBatch, side: str) -> list[tuple[int, int]]:
    columns = [rows.column(f"{side}_{name}").to_pylist() for name in ("partition", "offset")]
    return list(zip(*columns, strict=True))


def _collect(result: pa.RecordBatch, actual: Actual) -> None:
    pairs = zip(_coordinates(result, "left"), _coordinates(result, "right"), strict=True)
    actual.results.update(pairs)
    announced = set(actual.announced)
    actual.too_late += [key for key in result.column("left_key").to_pylist() if key in announced]

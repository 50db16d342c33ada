"""Spilled segments: what they hold back, for how long, and what they may merge with."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.presets import Policy
from endmark.operators.stream_join.side import SideSpec
from endmark.state import segment_list
from endmark.state.keys import KeySpec
from endmark.state.segment_list import FANOUT, SegmentList
from endmark.state.store import MemoryBlobs, SegmentStore

EMPTY = StreamBatch()
KEY = KeySpec(("key",))


def side(name: str) -> SideSpec:
    schema = pa.schema([(f"{name}_key", pa.int64()), (f"{name}_at", pa.timestamp("us", "UTC"))])
    return SideSpec(name, KeySpec((f"{name}_key",)), f"{name}_at", schema, None, None, window=None)


def rows(name: str, *keys: int) -> StreamBatch:
    times = pa.array([0] * len(keys), pa.timestamp("us", "UTC"))
    return StreamBatch(rows=pa.record_batch([pa.array(sorted(keys)), times], schema=side(name).schema))


def closing(*keys: int) -> StreamBatch:
    nothing = pa.array([0] * len(keys))
    return StreamBatch(
        closed_keys=pa.record_batch([pa.array(keys), nothing, nothing], names=["key", "partition", "offset"])
    )


def operator(directory: Path, memory: int, purge_every: int = 1, restored: bytes | None = None) -> StreamJoin:
    store = SegmentStore(BLOBS, directory)
    policy = Policy(purge_every=purge_every, memory=memory)
    return StreamJoin(side("left"), side("right"), store, policy=policy, restored=restored)


BLOBS = MemoryBlobs()


def results(join: StreamJoin, left: StreamBatch = EMPTY, right: StreamBatch = EMPTY) -> list[int]:
    return sorted(key for piece in join.process(left, right) for key in piece.column("left_key").to_pylist())


def spilled(join: StreamJoin) -> int:
    return len(join.spiller.spilled)


def test_a_segment_larger_than_the_budget(tmp_path: Path) -> None:
    """Rows that do not fit at all meet what came since in a pause, once, also after a restart."""
    join = operator(tmp_path, memory=40)
    assert results(join, rows("left", *range(100))) == []
    assert spilled(join) == 1
    assert results(join, right=rows("right", 7, 8)) == []

    join = operator(tmp_path, memory=40, restored=join.snapshot())
    assert [one.live for one in join.spiller.owed(join.right)] == [2]
    assert results(join) == [7, 8]
    assert join.spiller.owed(join.right) == []
    assert results(join) == list(join.drain()) == []


def test_what_is_owed_is_bounded(tmp_path: Path) -> None:
    """Without any pause, spilled rows meet the others once those are over the budget."""
    join = operator(tmp_path, memory=100)
    results(join, rows("left", *range(100)))

    found = [results(join, right=rows("right", 2 * number, 2 * number + 1)) for number in range(5)]

    assert found == [[], [], [], [0, 1, 2, 3, 4, 5, 6, 7], []]


def test_rows_settle_before_they_die(tmp_path: Path) -> None:
    """A key is announced after the results that spilled rows of it were owed."""
    join = operator(tmp_path, memory=70)
    results(join, rows("left", 1, 2, 3, 4, 8))
    results(join, right=rows("right", 1, 2))

    other = rows("left", 5)
    closed = StreamBatch(rows=rows("right", 6).rows, closed_keys=closing(1).closed_keys)
    assert results(join, other, closed) == [1]
    assert (spilled(join), join.output.announced) == (1, None)
    assert results(join, StreamBatch(rows=rows("left", 7).rows, closed_keys=closing(1).closed_keys)) == []
    assert join.output.announced is not None
    assert join.output.announced.column("key").to_pylist() == [1]
    assert sorted(key for piece in join.drain() for key in piece.column("left_key").to_pylist()) == [2]


def test_memory_is_short_before_anything_is_spilled(tmp_path: Path) -> None:
    """What waits to be purged goes first; that may be enough."""
    join = operator(tmp_path, memory=100, purge_every=10)
    results(join, right=rows("right", 1, 2, 3, 4))
    results(join, closing(1, 2, 3, 4), rows("right", 5))
    assert join.right.rows.rows == 5

    results(join, right=rows("right", 6, 7))

    assert (join.right.rows.rows, spilled(join)) == (3, 0)


def test_segments_do_not_merge_across_a_barrier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that a spilled segment has met stay apart from those it has not, and spilled from resident ones;
    what merges is as new as its newest row."""
    monkeypatch.setattr(segment_list, "SMALL_ROWS", 0)
    segments = SegmentList(SegmentStore(MemoryBlobs(), tmp_path), KEY)
    for number in range(2 * FANOUT):
        segments.append(pa.record_batch({"key": pa.array([number])}), batch_number=number)
        segments.segments[-1].joined_to = 99 if number == 2 * FANOUT - 1 else None

    segments.maintain(barriers=[FANOUT - 1])

    assert [(one.rows, one.batch_number) for one in segments.segments[:2]] == [
        (FANOUT, FANOUT - 1),
        (1, FANOUT),
    ]
    assert len(segments.segments) == 1 + FANOUT
    segments.maintain()
    assert np.array([one.joined_to is None for one in segments.segments]).tolist() == [True] * FANOUT + [
        False
    ]

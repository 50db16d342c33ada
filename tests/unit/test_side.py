"""What one side of the stream join takes for a violation within a batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from endmark.joins.side import SideSpec, SideState
from endmark.state.store import SegmentStore
from support.memory_store import MemoryBlobs


def columns(**values: list[int]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(column, pa.int64()) for name, column in values.items()})


def test_only_its_own_partition_closes_a_row(tmp_path: Path) -> None:
    """A punctuation rules out later rows of its partition: not earlier ones, nor those of another partition,
    whose offsets say nothing about the order of the two."""
    spec = SideSpec("s", "key", "time", "partition", "offset", window=None)
    side = SideState(spec, SegmentStore(MemoryBlobs(), tmp_path))
    rows = columns(key=[5, 5, 5, 6], time=[0, 0, 0, 0], partition=[0, 0, 1, 0], offset=[1, 3, 9, 9])
    punctuations = columns(key=[5, 4, 5], partition=[0, 0, 2], offset=[2, 0, 0])

    late, closed = side.violations(rows, punctuations)

    assert late.tolist() == [False, False, False, False]
    assert closed.tolist() == [False, True, False, False]

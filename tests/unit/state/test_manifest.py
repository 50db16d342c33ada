"""The manifest: what an operator remembers beside its segments, over a restart and a change of format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from endmark.operators.stream_join.side import SideSpec
from endmark.state import codec, manifest
from endmark.state.keys import KeySpec
from endmark.state.segment_list import SegmentList
from endmark.state.store import MemoryBlobs, SegmentStore

# An inner join with left rows of keys 1, 2, 3 and right ones of 1, 5. Left has closed 2, which is held,
# and 6, which is announced; right has closed 4, which killed a left row.
KEY = KeySpec(("key",))


def side(name: str) -> SideSpec:
    columns = {
        "key": pa.int64(),
        "time": pa.timestamp("us", "UTC"),
        "partition": pa.int64(),
        "offset": pa.int64(),
    }
    return SideSpec(
        name=name,
        key=KeySpec((f"{name}_key",)),
        time=f"{name}_time",
        schema=pa.schema([(f"{name}_{column}", kind) for column, kind in columns.items()]),
        partition=f"{name}_partition",
        offset=f"{name}_offset",
        window=100,
    )


def rows(name: str, keys: list[int], times: list[int]) -> pa.RecordBatch:
    ends = [pa.array([0] * len(keys), pa.int64()), pa.array(range(50, 50 + len(keys)), pa.int64())]
    columns = [pa.array(keys, pa.int64()), pa.array(times, pa.timestamp("us", "UTC")), *ends]
    return pa.record_batch(columns, schema=side(name).schema)


def test_bits_of_rows_come_back(tmp_path: Path) -> None:
    """Rows that are dead and rows that have had a partner are restored, and segments without either."""
    store = SegmentStore(MemoryBlobs(), tmp_path)
    before, after = SegmentList(store, KEY), SegmentList(store, KEY)
    for _ in range(2):
        before.append(pa.record_batch({"key": pa.array(range(11), pa.int64())}))
    before.segments[1].match(np.array([2, 10]))
    before.segments[1].kill(np.array([0, 9]))

    notes = manifest.load(manifest.save({"rows": before}, {"a": [1]}), {"rows": after})

    assert notes == {"a": [1]}
    for old, new in zip(before.segments, after.segments, strict=True):
        assert (old.segment_id, old.rows, old.size, old.low) == (new.segment_id, new.rows, new.size, new.low)
    assert (after.segments[0].dead, after.segments[0].matched) == (None, None)
    for bits, expected in ((after.segments[1].dead, [0, 9]), (after.segments[1].matched, [2, 10])):
        assert bits is not None
        assert np.flatnonzero(bits).tolist() == expected


def test_another_version_is_refused(tmp_path: Path) -> None:
    """State in another format is not guessed at."""
    batch = codec.decode(manifest.save({}, {}))
    later = codec.encode(batch.replace_schema_metadata({"version": "2", "notes": "{}"}))

    with pytest.raises(ValueError, match="format version 2, this program reads version 1"):
        manifest.load(later, {})

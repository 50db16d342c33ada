"""The manifest: what an operator remembers beside its segments, over a restart and a change of format."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from endmark.joins.side import SideInput, SideSpec
from endmark.joins.stream_join import StreamJoin
from endmark.punctuation.pattern import Equals
from endmark.punctuation.punctuation import Punctuation
from endmark.state import codec, manifest
from endmark.state.keys import KeySpec
from endmark.state.segment_list import SegmentList
from endmark.state.store import MemoryBlobs, SegmentStore

# An inner join with left rows of keys 1, 2, 3 and right ones of 1, 5. Left has closed 2, which is held,
# and 6, which is announced; right has closed 4, which killed a left row.
DATA = Path(__file__).parent / "data"
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


@pytest.mark.parametrize("version", [1, 3])
def test_earlier_versions_go_on(tmp_path: Path, version: int) -> None:
    """State of an earlier version joins, rejects and announces as if nothing had happened, and is of the new
    version from then on."""
    blobs = MemoryBlobs()
    kept = json.loads((DATA / f"state-v{version}.json").read_text())
    blobs.blobs = {name: base64.b64decode(data) for name, data in kept["segments"].items()}
    store = SegmentStore(blobs, tmp_path)
    join = StreamJoin(side("left"), side("right"), store, restored=base64.b64decode(kept["manifest"]))
    closing = pa.record_batch({"key": [2], "partition": [0], "offset": [99]})

    results = list(
        join.process(
            SideInput(rows("left", [5, 6], [20, 20])),
            SideInput(rows("right", [1, 2, 4], [20, 21, 22]), punctuations=closing),
        )
    )

    joined = sorted((row["left_key"], row["right_key"]) for piece in results for row in piece.to_pylist())
    assert joined == [(1, 1), (2, 2), (5, 5)]
    found = [(one.side, one.rows.column(0).to_pylist(), one.promises) for one in join.output.violations]
    assert found == [
        ("left", [6], [Punctuation.of("left", {"key": Equals(6)})]),
        ("right", [4], [Punctuation.of("right", {"key": Equals(4)})]),
    ]
    assert join.output.announced is not None
    assert join.output.announced.column("key").to_pylist() == [2]
    assert codec.decode(join.snapshot()).schema.metadata[b"version"] == b"4"
    again = StreamJoin(side("left"), side("right"), store, restored=join.snapshot())
    assert (again.left.rows.rows, again.right.rows.rows) == (3, 3)


def test_bits_of_rows_come_back(tmp_path: Path) -> None:
    """Which rows are dead and which have had a partner, and that there are none of either."""
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


def test_version_to_come_is_refused(tmp_path: Path) -> None:
    """State of a later version is not guessed at."""
    batch = codec.decode(manifest.save({}, {}))
    later = codec.encode(batch.replace_schema_metadata({"version": "5", "notes": "{}"}))

    with pytest.raises(ValueError, match="format version 5, this program reads up to 4"):
        manifest.load(later, {})

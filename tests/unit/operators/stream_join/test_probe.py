"""Results of the stream join come in pieces."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.side import SideSpec
from endmark.state import row_bytes
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore


def side(name: str) -> SideSpec:
    at = (f"{name}_at", pa.timestamp("us", "UTC"))
    schema = pa.schema([(f"{name}_key", pa.int64()), (f"{name}_note", pa.string()), at])
    return SideSpec(name, KeySpec((f"{name}_key",)), f"{name}_at", schema, None, None, window=None)


def rows(spec: SideSpec, notes: list[str]) -> StreamBatch:
    columns = [[1] * len(notes), notes, [0] * len(notes)]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, spec.schema, strict=True)]
    return StreamBatch(rows=pa.record_batch(arrays, schema=spec.schema))


def test_a_long_row_with_many_partners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text of 1 MB with 2,200 partners was one piece. Arrow refuses a column with 2 GiB of text, so the job
    stopped at every attempt."""
    monkeypatch.setattr(row_bytes, "BYTES_AT_ONCE", 3_500)
    left, right = side("l"), side("r")
    join = StreamJoin(left, right, SegmentStore(MemoryBlobs(), tmp_path))

    pieces = list(join.process(rows(left, ["x" * 1_000]), rows(right, list("abcdefgh"))))

    assert [piece.num_rows for piece in pieces] == [3, 3, 2]
    notes = [note for piece in pieces for note in piece.column("r_note").to_pylist()]
    assert notes == list("abcdefgh")

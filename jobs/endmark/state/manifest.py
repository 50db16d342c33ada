"""The manifest: one small value that names an operator's segments, and marks the dead rows in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from endmark.state.search import Bools
    from endmark.state.segment_list import SegmentList

VERSION = 1

_SCHEMA = pa.schema(
    [
        ("list", pa.string()),
        ("segment_id", pa.string()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("low", pa.int64()),
        ("high", pa.int64()),
        ("dead", pa.binary()),  # one bit a row; null while all are alive
        ("matched", pa.binary()),  # one bit a row; null while none has had a partner
        ("memory", pa.int64()),
        ("batch_number", pa.int64()),
        ("joined_to", pa.int64()),  # null while not spilled
    ]
)


def save(lists: Mapping[str, SegmentList], notes: Mapping[str, Any]) -> bytes:
    """Return the manifest of an operator's lists of segments.

    Args:
        lists: the lists, by name.
        notes: anything else that the operator must remember, as JSON values by name.
    """
    entries = [
        {
            "list": name,
            "segment_id": segment.segment_id,
            "rows": segment.rows,
            "size": segment.size,
            "low": segment.low,
            "high": segment.high,
            "dead": _pack(segment.dead),
            "matched": _pack(segment.matched),
            "memory": segment.memory,
            "batch_number": segment.batch_number,
            "joined_to": segment.joined_to,
        }
        for name, segments in lists.items()
        for segment in segments.segments
    ]
    metadata = {"version": str(VERSION), "notes": json.dumps(dict(notes))}
    batch = pa.RecordBatch.from_pylist(entries, schema=_SCHEMA.with_metadata(metadata))
    return codec.encode(batch, compress=True)


def load(data: bytes, lists: Mapping[str, SegmentList]) -> dict[str, Any]:
    """Fill the empty `lists` from a manifest, and return its notes.

    Raises:
        ValueError: the manifest has a version that this program cannot read.
    """
    batch = codec.decode(data)
    version = int(batch.schema.metadata[b"version"])
    if version != VERSION:
        raise ValueError(
            f"state has format version {version}, this program reads version {VERSION}; "
            "run the version that wrote it, or start from a new checkpoint"
        )
    for entry in batch.to_pylist():
        rows = entry["rows"]
        lists[entry["list"]].restore(
            entry["segment_id"],
            rows=rows,
            size=entry["size"],
            low=entry["low"],
            high=entry["high"],
            dead=_unpack(entry["dead"], rows),
            matched=_unpack(entry["matched"], rows),
            memory=entry["memory"],
            batch_number=entry["batch_number"],
            joined_to=entry["joined_to"],
        )
    notes: dict[str, Any] = json.loads(batch.schema.metadata[b"notes"])
    return notes


def live_rows(data: bytes) -> int:
    """Return the number of live rows in the segments of a manifest."""
    segments = codec.decode(data).select(["rows", "dead"]).to_pylist()
    return sum(each["rows"] - int(_bits(each["dead"]).sum()) for each in segments)


def _pack(bits: Bools | None) -> bytes | None:
    return None if bits is None else np.packbits(bits).tobytes()


def _unpack(packed: bytes | None, rows: int) -> Bools | None:
    if packed is None:
        return None
    return _bits(packed)[:rows].astype(bool)


def _bits(packed: bytes | None) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.unpackbits(np.frombuffer(packed or b"", np.uint8))

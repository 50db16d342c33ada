"""The manifest: the one small value that names an operator's segments and says what died in them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    ]
)


def save(lists: Mapping[str, SegmentList], notes: Mapping[str, Any]) -> bytes:
    """Everything an operator must remember beside its segments. `notes` is any JSON value by name."""
    entries = [
        {
            "list": name,
            "segment_id": segment.segment_id,
            "rows": segment.rows,
            "size": segment.size,
            "low": segment.low,
            "high": segment.high,
            "dead": None if segment.dead is None else np.packbits(segment.dead).tobytes(),
        }
        for name, segments in lists.items()
        for segment in segments.segments
    ]
    metadata = {"version": str(VERSION), "notes": json.dumps(dict(notes))}
    batch = pa.RecordBatch.from_pylist(entries, schema=_SCHEMA.with_metadata(metadata))
    return codec.encode(batch, compress=True)


def load(data: bytes, lists: Mapping[str, SegmentList]) -> dict[str, Any]:
    """Fill `lists` from a manifest and return its notes.

    Raises:
        ValueError: the manifest is of a version this program cannot read.
    """
    batch = codec.decode(data)
    version = int(batch.schema.metadata[b"version"])
    if version != VERSION:
        raise ValueError(
            f"state has format version {version}, this program reads {VERSION}; "
            "run the version that wrote it, or start from a new checkpoint"
        )
    for entry in batch.to_pylist():
        name, dead, rows = entry.pop("list"), entry.pop("dead"), entry["rows"]
        bits = None if dead is None else np.unpackbits(np.frombuffer(dead, np.uint8), count=rows).astype(bool)
        lists[name].restore(**entry, dead=bits)
    notes: dict[str, Any] = json.loads(batch.schema.metadata[b"notes"])
    return notes

"""The snapshot of a bucket's task as bytes: the snapshots of its parts, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

GROUPS = "groups "  # begins the names of the parts of aggregates


def encode_parts(parts: Mapping[str, bytes | None]) -> bytes:
    """Return the parts as bytes for `decode_parts`."""
    data = pa.array(parts.values(), pa.binary())
    return codec.encode(pa.record_batch({"part": pa.array(parts, pa.string()), "data": data}))


def decode_parts(data: bytes) -> dict[str, bytes | None]:
    """Return the parts of which `encode_parts` has returned `data`."""
    names, parts = codec.decode(data).columns
    return dict(zip(names.to_pylist(), parts.to_pylist(), strict=True))


def with_prefix(prefix: str, parts: Mapping[str, bytes | None]) -> dict[str, bytes]:
    """Return the parts whose names have a prefix, by the rest of their names."""
    return {
        name.removeprefix(prefix): part
        for name, part in parts.items()
        if part is not None and name.startswith(prefix)
    }

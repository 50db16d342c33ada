"""The store of segments behind an operator, with a local copy that is never stale."""

from __future__ import annotations

import uuid
from pathlib import Path
from threading import Lock
from typing import Protocol

import pyarrow as pa

from endmark.profile import Profile
from endmark.state import codec


class BlobStore(Protocol):
    """Durable bytes by id. Spark's state store in a job."""

    def get(self, blob_id: str) -> bytes: ...
    def put(self, blob_id: str, data: bytes) -> None: ...
    def remove(self, blob_id: str) -> None: ...


class MemoryBlobs:
    """A store that lasts as long as it is needed, for trials and tests."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def get(self, blob_id: str) -> bytes:
        return self.blobs[blob_id]

    def put(self, blob_id: str, data: bytes) -> None:
        self.blobs[blob_id] = data

    def remove(self, blob_id: str) -> None:
        del self.blobs[blob_id]


class SegmentStore:
    """Segments by id, memory-mapped from a local directory when it holds a copy.

    A segment never changes, so a copy needs no invalidation: crash, retry and relocation of a task
    only ever cost a read of the durable store. `profile` is that of the task whose segments these are.
    Threads take turns, since Spark's state store answers one at a time.
    """

    def __init__(self, blobs: BlobStore, directory: Path) -> None:
        self.profile = Profile()
        self._turn = Lock()
        self._blobs = blobs
        self._directory = directory

    def add(self, batch: pa.RecordBatch) -> tuple[str, int]:
        """Store a segment; returns its new id and its size in durable bytes."""
        segment_id = uuid.uuid4().hex
        with self._turn, self.profile.phase("store"):
            data = codec.encode(batch, compress=True)
            self._blobs.put(segment_id, data)
            self._copy(segment_id, batch)
        return segment_id, len(data)

    def load(self, segment_id: str) -> pa.RecordBatch:
        with self._turn, self.profile.phase("load"):
            try:
                return codec.decode(pa.memory_map(str(self._directory / segment_id)).read_buffer())
            except FileNotFoundError:
                batch = codec.decode(self._blobs.get(segment_id))
                self._copy(segment_id, batch)
                return batch

    def remove(self, segment_id: str) -> None:
        with self._turn, self.profile.phase("store"):
            self._blobs.remove(segment_id)
            (self._directory / segment_id).unlink(missing_ok=True)

    def _copy(self, segment_id: str, batch: pa.RecordBatch) -> None:
        # Written aside and renamed, since another worker may map it at any time. Uncompressed, so that
        # mapping it costs no decoding.
        partial = self._directory / f"{segment_id}.{uuid.uuid4().hex}.part"
        codec.write(batch, partial)
        partial.rename(self._directory / segment_id)

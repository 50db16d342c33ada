"""The store of an operator's segments, with local copies that are never stale."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Protocol

import pyarrow as pa

from endmark.profile import Profile
from endmark.state import codec

# A copy that is older is removed; if it is still needed, that costs one read of the durable store a day.
_KEPT_SECONDS = 86_400
_LOOKED_SECONDS = 3_600
_LOOKED = "looked-through"  # a file that was made when the directory was last looked through


class BlobStore(Protocol):
    """Durable bytes by id. In a job, this is Spark's state store."""

    def get(self, blob_id: str) -> bytes: ...
    def put(self, blob_id: str, data: bytes) -> None: ...
    def remove(self, blob_id: str) -> None: ...


class MemoryBlobs:
    """A store in memory, for trials and tests."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def get(self, blob_id: str) -> bytes:
        return self.blobs[blob_id]

    def put(self, blob_id: str, data: bytes) -> None:
        self.blobs[blob_id] = data

    def remove(self, blob_id: str) -> None:
        del self.blobs[blob_id]


class SegmentStore:
    """Segments by id. A segment is memory-mapped if a local directory has a copy of it.

    A segment never changes, so its copy is always valid. The crash, retry or relocation of a task only costs
    reads of the durable store. Threads take turns, since Spark's state store answers one at a time.

    Attributes:
        profile: collects the seconds of the task.

    Args:
        blobs: the durable store.
        directory: the directory of the copies.
    """

    def __init__(self, blobs: BlobStore, directory: Path) -> None:
        self.profile = Profile()
        self._turn = Lock()
        self._blobs = blobs
        self._directory = directory

    def add(self, batch: pa.RecordBatch) -> tuple[str, int]:
        """Store a segment; return its new id, and its bytes in the durable store."""
        segment_id = uuid.uuid4().hex
        with self._turn, self.profile.phase("store"):
            data = codec.encode(batch, compress=True)
            self._blobs.put(segment_id, data)
            self._copy(segment_id, batch)
        return segment_id, len(data)

    def load(self, segment_id: str) -> pa.RecordBatch:
        """Return the rows of a segment. If there is no local copy, one is made from the durable store."""
        with self._turn, self.profile.phase("load"):
            try:
                return codec.decode(pa.memory_map(str(self._directory / segment_id)).read_buffer())
            except FileNotFoundError:
                batch = codec.decode(self._blobs.get(segment_id))
                self._copy(segment_id, batch)
                return batch

    def remove(self, segment_id: str) -> None:
        """Remove a segment and its local copy."""
        with self._turn, self.profile.phase("store"):
            self._blobs.remove(segment_id)
            (self._directory / segment_id).unlink(missing_ok=True)

    def remove_old_copies(self, now: float) -> None:
        """Remove the copies that are older than a day, at most once an hour.

        A task on another machine removes a segment with the copy there alone. So a bucket that moves leaves
        copies behind, as an attempt that fails does, and they would stay for as long as the daemon lives.

        Args:
            now: the present time, in Unix seconds.
        """
        looked = self._directory / _LOOKED
        if looked.exists() and now - looked.stat().st_mtime < _LOOKED_SECONDS:
            return
        looked.touch()
        os.utime(looked, (now, now))
        for entry in os.scandir(self._directory):
            with suppress(FileNotFoundError):  # another task may remove it at the same time
                if now - entry.stat().st_mtime > _KEPT_SECONDS and entry.is_file():
                    Path(entry).unlink()

    def _copy(self, segment_id: str, batch: pa.RecordBatch) -> None:
        # The copy is written aside and renamed, since another worker may map it at any time. It is not
        # compressed, so mapping it costs no decoding.
        partial = self._directory / f"{segment_id}.{uuid.uuid4().hex}.part"
        codec.write(batch, partial)
        partial.rename(self._directory / segment_id)

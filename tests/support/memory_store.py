"""A blob store in memory, for operators without Spark."""

from __future__ import annotations


class MemoryBlobs:
    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def get(self, blob_id: str) -> bytes:
        return self.blobs[blob_id]

    def put(self, blob_id: str, data: bytes) -> None:
        self.blobs[blob_id] = data

    def remove(self, blob_id: str) -> None:
        del self.blobs[blob_id]

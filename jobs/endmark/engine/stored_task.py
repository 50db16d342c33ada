"""The task of a bucket, of either stage, with its state in Spark's state store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from endmark.engine import channels
from endmark.engine.bucket.task import BucketSnapshot, BucketTask
from endmark.engine.groups.task import GroupTask
from endmark.state.store import SegmentStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from endmark.engine.bucket.plan import BucketPlan
    from endmark.engine.groups.stage import GroupStage
    from endmark.profile import Profile

# The snapshot of a task lies among its segments, under a name that no segment has. A second variable of
# Spark's state would take 11 ms of each task until Spark has made it, and each further call 5 ms.
_SNAPSHOT = "snapshot"


class StateBlobs:
    """Spark's map state as a `BlobStore`.

    Args:
        state: the map state.
    """

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, blob_id: str) -> bytes:
        return bytes(self._state.getValue((blob_id,))[0])

    def find(self, blob_id: str) -> bytes | None:
        """Return the bytes of an id; `None` if there are none."""
        found = self._state.getValue((blob_id,))
        return None if found is None else bytes(found[0])

    def put(self, blob_id: str, data: bytes) -> None:
        self._state.updateValue((blob_id,), (data,))

    def remove(self, blob_id: str) -> None:
        self._state.removeKey((blob_id,))


class StoredBucket:
    """The task of a bucket with its state in Spark's state store.

    Args:
        plan: the plan of all buckets.
        state: Spark's map state with the snapshot and the segments by id.
        cache: the directory for local copies of segments.
    """

    def __init__(self, plan: BucketPlan, state: Any, cache: Path) -> None:
        self._plan = plan
        self._blobs = StateBlobs(state)
        self._store = SegmentStore(self._blobs, cache)

    @property
    def profile(self) -> Profile:
        """The profile of the task."""
        return self._store.profile

    def run(self, packed: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes | pa.RecordBatch]]:
        """Run a batch and keep its state. It takes and yields the same as `BucketTask.run`."""
        profile = self._store.profile
        with profile.phase("load"):
            found = self._blobs.find(_SNAPSHOT)
            restored = None if found is None else BucketSnapshot.decoded(found)
            task = BucketTask(self._plan, self._store, restored)
        for output in task.run(profile.each("shuffle", packed)):
            with profile.phase("hand_over"):
                yield output
        with profile.phase("store"):
            self._blobs.put(_SNAPSHOT, task.snapshot().encoded())
        yield channels.METRICS, json.dumps({"samples": profile.take()}).encode()


class StoredGroups:
    """The task of a bucket of groups with its state in Spark's state store.

    Args:
        stage: the plan of the second stage.
        state: Spark's map state with the snapshot and the segments by id.
        cache: the directory for local copies of segments.
    """

    def __init__(self, stage: GroupStage, state: Any, cache: Path) -> None:
        self._stage = stage
        self._blobs = StateBlobs(state)
        self._store = SegmentStore(self._blobs, cache)

    @property
    def profile(self) -> Profile:
        """The profile of the task."""
        return self._store.profile

    def run(self, packed: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Run a batch and keep its state. It takes and yields the same as `GroupTask.run`."""
        profile = self._store.profile
        with profile.phase("load"):
            task = GroupTask(self._stage, self._store, self._blobs.find(_SNAPSHOT))
        for output in task.run(profile.each("shuffle", packed)):
            with profile.phase("hand_over"):
                yield output
        with profile.phase("store"):
            self._blobs.put(_SNAPSHOT, task.snapshot())
        yield channels.METRICS, json.dumps({"samples": profile.take()}).encode()

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

# The state of lookups and knobs is kept among the segments, under names that no segment has. It has no
# columns of its own, since the columns of a checkpoint's state cannot change.
_KNOBS = "knobs"


def _lookup_name(relation: str) -> str:
    """Return the name under which the state of a relation's lookup is kept."""
    return f"lookup {relation}"


class StateBlobs:
    """Spark's map state as a `BlobStore`."""

    def __init__(self, segments: Any) -> None:
        self._segments = segments

    def get(self, blob_id: str) -> bytes:
        return bytes(self._segments.getValue((blob_id,))[0])

    def find(self, blob_id: str) -> bytes | None:
        """Return the bytes of an id; `None` if there are none."""
        found = self._segments.getValue((blob_id,))
        return None if found is None else bytes(found[0])

    def put(self, blob_id: str, data: bytes) -> None:
        self._segments.updateValue((blob_id,), (data,))

    def remove(self, blob_id: str) -> None:
        self._segments.removeKey((blob_id,))


class StoredBucket:
    """The task of a bucket with its state in Spark's state store.

    Args:
        plan: the plan of all buckets.
        manifest: Spark's value state with the snapshots of the join and of the group-by.
        segments: Spark's map state with segments by id.
        cache: the directory for local copies of segments.
    """

    def __init__(self, plan: BucketPlan, manifest: Any, segments: Any, cache: Path) -> None:
        self._plan = plan
        self._manifest = manifest
        self._blobs = StateBlobs(segments)
        self._store = SegmentStore(self._blobs, cache)

    @property
    def profile(self) -> Profile:
        """The profile of the task."""
        return self._store.profile

    def run(self, packed: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes | pa.RecordBatch]]:
        """Run a batch and keep its state. It takes and yields the same as `BucketTask.run`."""
        profile = self._store.profile
        with profile.phase("load"):
            found = self._manifest.get()
            restored = None
            if found is not None:
                join, grouping = found
                relations = [lookup.relation for lookup in self._plan.lookups]
                lookups = {relation: self._blobs.find(_lookup_name(relation)) for relation in relations}
                restored = BucketSnapshot(
                    bytes(join),
                    None if grouping is None else bytes(grouping),
                    {relation: data for relation, data in lookups.items() if data is not None},
                    self._blobs.find(_KNOBS),
                )
            task = BucketTask(self._plan, self._store, restored)
        for output in task.run(profile.each("shuffle", packed)):
            with profile.phase("hand_over"):
                yield output
        with profile.phase("store"):
            snapshot = task.snapshot()
            self._manifest.update((snapshot.join, snapshot.group))
            for relation, data in snapshot.lookups.items():
                self._blobs.put(_lookup_name(relation), data)
            if snapshot.knobs is not None:
                self._blobs.put(_KNOBS, snapshot.knobs)
        yield channels.METRICS, json.dumps({"samples": profile.take()}).encode()


class StoredGroups:
    """The task of a bucket of groups with its state in Spark's state store.

    Args:
        stage: the plan of the second stage.
        manifest: Spark's value state, of which only the snapshot of the group-by is used.
        segments: Spark's map state with segments by id.
        cache: the directory for local copies of segments.
    """

    def __init__(self, stage: GroupStage, manifest: Any, segments: Any, cache: Path) -> None:
        self._stage = stage
        self._manifest = manifest
        self._store = SegmentStore(StateBlobs(segments), cache)

    @property
    def profile(self) -> Profile:
        """The profile of the task."""
        return self._store.profile

    def run(self, packed: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """Run a batch and keep its state. It takes and yields the same as `GroupTask.run`."""
        profile = self._store.profile
        with profile.phase("load"):
            found = self._manifest.get()
            task = GroupTask(self._stage, self._store, None if found is None else bytes(found[1]))
        for output in task.run(profile.each("shuffle", packed)):
            with profile.phase("hand_over"):
                yield output
        with profile.phase("store"):
            self._manifest.update((None, task.snapshot()))
        yield channels.METRICS, json.dumps({"samples": profile.take()}).encode()

"""The task of a bucket, of any stage, with its state in Spark's state store."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from endmark.engine import channels
from endmark.engine.bucket.task import LOOKUP, BucketTask
from endmark.engine.groups.stage import GroupStage
from endmark.engine.groups.task import GroupTask
from endmark.engine.snapshot_parts import decode_parts, with_prefix
from endmark.state import manifest
from endmark.state.store import SegmentStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pyarrow as pa

    from endmark.engine.bucket.plan import BucketPlan
    from endmark.engine.earlier_buckets import TakenOver
    from endmark.profile import Profile

# The snapshot of a task lies among its segments, under a name that no segment has. A second variable of
# Spark's state would take 11 ms of each task until Spark has made it, and each further call 5 ms.
SNAPSHOT = "snapshot"


def is_idle(snapshot: bytes) -> bool:
    """Return whether no row waits in a lookup of the bucket that has a snapshot."""
    return not any(map(manifest.live_rows, with_prefix(LOOKUP, decode_parts(snapshot)).values()))


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


class StoredTask:
    """The task of a bucket with its state in Spark's state store.

    Args:
        plan: the plan of the stage.
        state: Spark's map state with the snapshot and the segments by id.
        cache: the directory for local copies of segments.
        taken_over: the bucket's keys, and the state of the bucket that had them before; `None` if the number
            of buckets never changes.
    """

    def __init__(
        self, plan: BucketPlan | GroupStage, state: Any, cache: Path, taken_over: TakenOver | None = None
    ) -> None:
        self._plan = plan
        self._taken_over = taken_over
        self._blobs = StateBlobs(state)
        self._store = SegmentStore(self._blobs, cache)

    @property
    def profile(self) -> Profile:
        """The profile of the task."""
        return self._store.profile

    def run(self, packed: Iterator[tuple[str, bytes]]) -> Iterator[tuple[str, bytes | pa.RecordBatch]]:
        """Run a batch and keep its state.

        It takes and yields the same as `BucketTask.run` and `GroupTask.run`.
        """
        profile, plan = self._store.profile, self._plan
        with profile.phase("load"):
            self._store.remove_old_copies(time.time())
            found = self._snapshot()
            task = (
                GroupTask(plan, self._store, found)
                if isinstance(plan, GroupStage)
                else BucketTask(plan, self._store, found)
            )
            if self._taken_over is not None:
                task.keep(self._taken_over.share)
        for output in task.run(profile.each("shuffle", packed)):
            with profile.phase("hand_over"):
                yield output
        with profile.phase("store"):
            self._blobs.put(SNAPSHOT, task.snapshot())
        yield channels.METRICS, json.dumps({"samples": profile.take()}).encode()

    def _snapshot(self) -> bytes | None:
        """Return the snapshot of the bucket; one without a state takes over that of an earlier bucket."""
        found = self._blobs.find(SNAPSHOT)
        if found is None and self._taken_over is not None and self._taken_over.state is not None:
            for blob_id, data in self._taken_over.state.blobs():
                self._blobs.put(blob_id, data)
            found = self._blobs.find(SNAPSHOT)
        return found

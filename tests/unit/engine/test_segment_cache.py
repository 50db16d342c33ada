"""Local copies of segments whose bucket has moved to another machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa

from endmark.engine.stored_task import StoredTask
from endmark.pipeline import Pipeline
from endmark.state.store import MemoryBlobs, SegmentStore
from simulation.state_store import Handle, State
from support.bucket_tasks import BucketTasks
from support.shops import CARDS, DOCUMENT

DAY = 86_400


def names(directory: Path) -> set[str]:
    return {each.name for each in directory.iterdir()}


def test_copies_that_nobody_removes_are_gone_after_a_day(tmp_path: Path) -> None:
    """The segments of these copies were removed by tasks on another machine. Their copies stayed for ever."""
    (tmp_path / "left").write_bytes(b"an old segment")
    (tmp_path / "torn.part").write_bytes(b"a half")
    for name in ("left", "torn.part"):
        os.utime(tmp_path / name, (0, time.time() - 2 * DAY))
    (tmp_path / "fresh").write_bytes(b"a segment")
    plan = BucketTasks(Pipeline.model_validate(DOCUMENT), CARDS, 1, tmp_path / "tasks").plan
    state = Handle(State(), lambda: None).getMapState("state", None, None)
    list(StoredTask(plan, state, tmp_path).run(iter([])))

    assert names(tmp_path) & {"left", "torn.part", "fresh"} == {"fresh"}


def test_a_copy_that_is_still_needed_is_made_again(tmp_path: Path) -> None:
    store = SegmentStore(MemoryBlobs(), tmp_path)
    segment, _ = store.add(pa.record_batch({"key": [1]}))
    os.utime(tmp_path / segment, (0, 0))
    store.remove_old_copies(time.time())
    left = segment in names(tmp_path)

    assert store.load(segment).to_pydict() == {"key": [1]}
    assert (left, segment in names(tmp_path)) == (False, True)


def test_a_directory_is_looked_through_once_an_hour(tmp_path: Path) -> None:
    store, now = SegmentStore(MemoryBlobs(), tmp_path), time.time()
    gone = []
    for minutes in (0, 59, 61):
        (tmp_path / "old").write_bytes(b"")
        os.utime(tmp_path / "old", (0, 0))
        store.remove_old_copies(now + 60 * minutes)
        gone.append("old" not in names(tmp_path))

    assert gone == [True, False, True]

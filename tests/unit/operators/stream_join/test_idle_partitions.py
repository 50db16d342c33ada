"""Partitions that fall silent: when they are idle, and what becomes of progress and of their rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.admit import violations
from endmark.operators.stream_join.event_times import NEVER
from endmark.operators.stream_join.idle_partitions import IdlePartitions
from endmark.operators.stream_join.members import Member
from endmark.operators.stream_join.side import SideSpec, SideState
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore


def test_a_partition_is_idle_beside_a_newer_one() -> None:
    """By more than what is allowed, and until it is heard again; a silent topic has no idle partition."""
    partitions = IdlePartitions(10)
    partitions.hear({0: (100, 100), 1: (100, 105)})
    partitions.hear({1: (108, 110)})
    assert not partitions.is_idle(0)
    partitions.hear({1: (111, 111)})
    assert [partitions.is_idle(partition) for partition in (0, 1)] == [True, False]
    partitions.hear({0: (104, 104)})
    assert not partitions.is_idle(0)


def test_a_partition_never_heard_is_silent_since_the_first_record() -> None:
    """Which need not be the first that is read."""
    partitions = IdlePartitions(10)
    partitions.hear({0: (100, 110)})
    assert not partitions.is_idle(1)
    partitions.hear({2: (99, 99)})
    assert partitions.is_idle(1)


def test_nothing_is_idle_unless_declared() -> None:
    """However long it is silent."""
    partitions = IdlePartitions(None)
    partitions.hear({0: (0, 0), 1: (1 << 60, 1 << 60)})
    assert not partitions.is_idle(0)


@pytest.fixture
def side(tmp_path: Path) -> SideState:
    return new_side(tmp_path)


def new_side(directory: Path) -> SideState:
    schema = pa.schema([("key", pa.int64())])
    spec = SideSpec("s", KeySpec(("key",)), "time", schema, "p", "o", None, lateness=1, partitions=2, idle=10)
    return SideState(spec, SegmentStore(MemoryBlobs(), directory))


def test_progress_leaves_an_idle_partition_behind(side: SideState) -> None:
    """It never goes back for one that returns, whose older rows are overtaken then."""
    side.advance(StreamBatch(newest={0: 50}, heard={0: (100, 105)}))
    assert side.progress == NEVER
    side.advance(StreamBatch(newest={0: 60}, heard={0: (111, 111)}))
    assert side.progress == 59
    side.advance(StreamBatch(newest={1: 40}, heard={1: (111, 111)}))
    assert side.progress == 59
    rows = {"key": [0, 0], "time": [58, 59], "p": [1, 1], "o": [0, 1]}
    assert violations(side, pa.record_batch(rows), StreamBatch())["idle"].tolist() == [True, False]
    side.advance(StreamBatch(newest={0: 70, 1: 65}))
    assert side.progress == 64


def test_progress_outlives_a_restart(side: SideState, tmp_path: Path) -> None:
    """With what it was made of, as JSON keeps it."""
    side.advance(StreamBatch(newest={0: 60}, heard={0: (100, 111)}))
    side.advance(StreamBatch(newest={1: 40}, heard={1: (111, 111)}))
    restored = new_side(tmp_path)

    restored.restore(json.loads(json.dumps(side.snapshot())))

    assert restored.progress == 59
    restored.advance(StreamBatch(newest={1: 90}, heard={1: (122, 122)}))
    assert restored.progress == 89


def test_each_member_of_a_union_has_idle_partitions_of_its_own(tmp_path: Path) -> None:
    """Partitions 0 and 2 are of the first member, which alone lets them be idle; 1 and 3 are of the second.
    Silence is measured within a topic, and outlives a restart."""
    members = (Member("web", 2, place=0, of=2, idle=10), Member("stores", 2, place=1, of=2))
    spec = replace(new_side(tmp_path).spec, partitions=4, idle=None, members=members)
    side, restored = (SideState(spec, SegmentStore(MemoryBlobs(), tmp_path)) for _ in range(2))

    side.advance(StreamBatch(newest={0: 60, 1: 50, 3: 55}, heard={0: (100, 110), 1: (0, 200), 3: (0, 0)}))
    assert side.progress == NEVER
    side.advance(StreamBatch(heard={0: (111, 111)}))
    assert [side.is_idle(partition) for partition in range(4)] == [False, False, True, False]
    assert side.progress == 49
    restored.restore(json.loads(json.dumps(side.snapshot())))
    assert restored.is_idle(2)
    restored.advance(StreamBatch(newest={2: 40}, heard={2: (111, 111)}))
    assert restored.progress == 49

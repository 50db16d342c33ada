"""Keys that a side closes by name: for how long each kind of them is remembered."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from endmark.operators.stream_join.closed_keys import ClosedKeys
from endmark.operators.stream_join.key_promises import KeyPromises
from endmark.operators.stream_join.members import Member
from endmark.state.keys import Keys, KeySpec
from endmark.state.segment import int64
from endmark.state.store import MemoryBlobs, SegmentStore

KEY = KeySpec(("key",))


def named(key: int) -> pa.RecordBatch:
    """The punctuations of two partitions that name a key."""
    columns = [[key, key], [0, 1], [key, key], [0, 0]]
    arrays = [pa.array(column, pa.int64()) for column in columns]
    return pa.record_batch(arrays, names=["key", "partition", "offset", "by_row"])


def test_scattered_keys_are_forgotten_in_time(tmp_path: Path) -> None:
    """Rows close some of these keys, so that no range holds them. They once stayed for ever."""
    promises = KeyPromises("s", KEY, [pa.int64()], 2)
    closed = ClosedKeys(
        SegmentStore(MemoryBlobs(), tmp_path), KEY, promises, [Member("s", 2, keyed=False)], by_rows=True
    )
    for time in range(40):
        found = closed.take(named(time), widened=False, time=time)
        assert found is not None
        assert int64(found.column("key")).tolist() == [time]
        closed.close()
        closed.expire(time - 9)
        closed.maintain()

    keys = Keys(pa.array(range(40), pa.int64()).to_numpy())
    assert closed.contain(keys).nonzero()[0].tolist() == list(range(30, 40))
    assert closed.rows == 20

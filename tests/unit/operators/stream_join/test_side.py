"""What one side of the stream join takes for a violation, and what it remembers of rows that went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.admit import admit, broken, violations
from endmark.operators.stream_join.event_times import NEVER
from endmark.operators.stream_join.side import SideSpec, SideState
from endmark.punctuation.pattern import Between, Equals
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.keys import KeySpec
from endmark.state.segment_list import FANOUT, SegmentRows
from endmark.state.store import MemoryBlobs, SegmentStore


def columns(**values: list[int]) -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(column, pa.int64()) for name, column in values.items()})


def test_only_its_own_partition_closes_a_row(tmp_path: Path) -> None:
    """A punctuation rules out later rows of its partition: not earlier ones, nor those of another partition,
    whose offsets say nothing about the order of the two."""
    schema = pa.schema([("key", pa.int64())])
    spec = SideSpec("s", KeySpec(("key",)), "time", schema, "partition", "offset", window=None)
    side = SideState(spec, SegmentStore(MemoryBlobs(), tmp_path))
    rows = columns(key=[5, 5, 5, 6], time=[0, 0, 0, 0], partition=[0, 0, 1, 0], offset=[1, 3, 9, 9])
    punctuations = columns(key=[5, 4, 5], partition=[0, 0, 2], offset=[2, 0, 0])

    found = violations(side, rows, StreamBatch(closed_keys=punctuations))

    assert found["late"].tolist() == [False, False, False, False]
    assert found["closed"].tolist() == [False, True, False, False]


def test_a_pattern_behind_all_rows_is_not_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each promise of a batch was held against all of its rows, even those of another partition."""
    schema = pa.schema([("key", pa.int64()), ("time", pa.int64()), ("shop", pa.int64())])
    spec = SideSpec(
        "s", KeySpec(("key",)), "time", schema, "partition", "offset", window=None, punctuated_on=("shop",)
    )
    side = SideState(spec, SegmentStore(MemoryBlobs(), tmp_path))
    rows = columns(key=[5, 6], time=[0, 0], shop=[1, 1], partition=[0, 0], offset=[1, 3])
    promises = [
        Punctuation.of("s", {"shop": Equals(shop)}, Origin(partition, offset))
        for shop, partition, offset in [(1, 0, 2), (2, 0, 3), (1, 0, 9), (1, 1, 0)]
    ]
    compared: list[int] = []
    broken_within = side.promises.broken_within

    def counted(given: list[Punctuation], *beside: Any) -> Any:
        compared.append(len(given))
        return broken_within(given, *beside)

    monkeypatch.setattr(side.promises, "broken_within", counted)
    found = violations(side, rows, StreamBatch(promises=promises))

    assert found["closed"].tolist() == [False, True]
    assert compared == [1]


def test_lost_columns_do_not_enter_state(tmp_path: Path) -> None:
    """Tables of earlier steps get them from the complete rows."""
    schema = pa.schema([("key", pa.int64()), ("time", pa.int64())])
    spec = SideSpec(
        "s", KeySpec(("key",)), "time", schema, "partition", "offset", window=None, lost=("natural",)
    )
    side = SideState(spec, SegmentStore(MemoryBlobs(), tmp_path))
    rows = columns(key=[5], time=[0], natural=[9], partition=[0], offset=[1])

    found = admit(side, StreamBatch(rows=rows))

    assert found.rows is not None
    assert "natural" not in found.rows.batch.schema.names
    assert found.complete == rows


def test_traces_of_rows_that_went(tmp_path: Path) -> None:
    """Rows that go piece by piece leave keys and times that can be searched; a key keeps its newest."""
    schema = pa.schema([("s_key", pa.int64()), ("s_time", pa.timestamp("us", "UTC"))])
    side = SideState(
        SideSpec("s", KeySpec(("s_key",)), "s_time", schema, "p", "o", window=None),
        SegmentStore(MemoryBlobs(), tmp_path),
    )
    for number in range(FANOUT):
        for keys, times in (([1, 5], [number, 30 - number]), ([2, 3], [number, number])):
            rows = [pa.array(keys), pa.array(times, pa.timestamp("us", "UTC"))]
            side.rows.append(pa.record_batch(rows, schema=schema))
        gone = [SegmentRows(segment, np.array([0, 1])) for segment in side.rows.segments[-2:]]
        side.spent.append(side.traces(gone))
    first = side.spent.segments[0].batch.to_pydict()

    side.spent.maintain()

    assert first == {"key": [1, 2, 3, 5], "time": [0, 0, 0, 30]}
    newest = side.spent.segments[0].batch.to_pydict()
    assert newest == {"key": [1, 2, 3, 5], "time": [FANOUT - 1, FANOUT - 1, FANOUT - 1, 30]}
    wanted = KeySpec(("key",)).keys(columns(key=[4, 5]))
    assert side.last_times(wanted).tolist() == [NEVER, 30]


def test_a_scattered_key_is_closed_once_every_partition_promised_it(tmp_path: Path) -> None:
    """By its name or by a pattern; its names stay known, and who broke which is by partition."""
    schema = pa.schema([("key", pa.int64())])
    spec = SideSpec(
        "s", KeySpec(("key",)), "time", schema, "partition", "offset", window=None, partitions=2, keyed=False
    )
    side = SideState(spec, SegmentStore(MemoryBlobs(), tmp_path))
    up_to_six = Punctuation.of("s", {"key": Between(high=6)}, Origin(1, 5))

    def names(**values: list[int]) -> StreamBatch:
        return StreamBatch(closed_keys=columns(**values))

    batches = [
        names(key=[5, 7, 5, 8], partition=[0, 0, 0, 1], offset=[1, 2, 3, 1]),
        names(key=[7, 5], partition=[0, 0], offset=[4, 5]),
        StreamBatch(key_promises=[up_to_six]),
        names(key=[8, 4, 3], partition=[0, 0, 1], offset=[6, 7, 6]),
    ]
    closed = []
    for given in batches:
        closed_keys, _ = side.take(given)
        side.closed_keys.close()
        closed.append([] if closed_keys is None else closed_keys.column("key").to_pylist())

    assert closed == [[], [], [5], [4, 8]]
    assert (side.closed_keys.rows, side.closed_keys.promised.rows) == (4, 2)
    rows = columns(key=[5, 5, 7, 7, 8], time=[0] * 5, partition=[0, 1, 0, 1, 1], offset=[9] * 5)
    bad = violations(side, rows, StreamBatch())["closed"]
    assert bad.tolist() == [True, True, True, False, True]
    told = broken(side, rows.filter(pa.array(bad)), StreamBatch(), "closed")
    assert [promise and promise.origin for promise in told] == [
        Origin(0, 1),
        Origin(1, 5),
        Origin(0, 2),
        Origin(1, 1),
    ]
    up_to_seven = Punctuation.of("s", {"key": Between(high=7)}, Origin(0, 9))
    side.take(StreamBatch(key_promises=[up_to_seven]))
    side.closed_keys.forget()
    assert (side.closed_keys.rows, side.closed_keys.promised.rows) == (2, 1)

"""Segments in time order: found by key, dropped by time, and no bit lost when they are rewritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from endmark.state import manifest, segment_list
from endmark.state.keys import KeySpec
from endmark.state.segment import completed
from endmark.state.segment_list import FANOUT, FANOUT_OF_SMALL, SMALL_ROWS, SegmentList
from endmark.state.store import MemoryBlobs, SegmentStore

TEXT = KeySpec.of(["key"], [pa.string()])


def rows(keys: list[str], times: list[int]) -> pa.RecordBatch:
    plain = pa.record_batch({"key": pa.array(keys), "time": pa.array(times, pa.int64())})
    return TEXT.sorted(TEXT.coded(plain))


@pytest.fixture
def segments(tmp_path: Path) -> SegmentList:
    return SegmentList(SegmentStore(MemoryBlobs(), tmp_path), TEXT, "time")


def live(segments: SegmentList) -> dict[str, bool]:
    """Keys of live rows, and whether they have had a partner."""
    found: dict[str, bool] = {}
    for segment in segments.segments:
        keys = segment.live_batch().column("key").to_pylist()
        found |= dict(zip(keys, segment.live_matched().tolist(), strict=True))
    return found


def test_a_few_small_segments_merge(segments: SegmentList) -> None:
    """Four segments merge while they are small, and sixteen when they have more rows together."""
    for size, many in (SMALL_ROWS // FANOUT_OF_SMALL, FANOUT_OF_SMALL), (SMALL_ROWS // 2 + 1, FANOUT):
        segments.clear()
        for number in range(many - 1):
            segments.append(rows(["a"] * size, [number] * size))
        segments.maintain()
        assert len(segments.segments) == many - 1
        segments.append(rows(["a"] * size, [many] * size))
        segments.maintain()
        assert len(segments.segments) == 1


def test_merging_keeps_what_is_known_of_rows(segments: SegmentList) -> None:
    """Rows of merged segments stay dead, and matched or not, each by itself."""
    for number in range(FANOUT):
        segments.append(rows([f"{name}{number}" for name in "abcd"], [number] * 4))
    matched = rows([f"b{number}" for number in range(0, FANOUT, 2)], [0] * (FANOUT // 2))
    for segment, _, j in segments.find(TEXT.keys(matched)):
        segment.match(j)
    segments.remove(TEXT.keys(rows(["c0", "c1"], [0, 0])))

    segments.maintain()

    assert len(segments.segments) < FANOUT / 2
    assert live(segments) == {
        f"{name}{number}": name == "b" and number % 2 == 0
        for name in "abcd"
        for number in range(FANOUT)
        if f"{name}{number}" not in ("c0", "c1")
    }


def test_merging_is_bounded(segments: SegmentList, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is held, no merge takes more rows than its limit, and segments stay few."""
    monkeypatch.setattr(segment_list, "MERGED_ROWS", 100)
    monkeypatch.setattr(segment_list, "SMALL_ROWS", 10)
    for number in range(20 * FANOUT):
        segments.append(rows([f"a{number}", f"b{number}"], [number] * 2))
        segments.maintain()

    sizes = [segment.rows for segment in segments.segments]
    assert max(sizes) <= 100
    assert sum(sizes) == 40 * FANOUT == len(live(segments))
    assert len(sizes) < 2 * 40 * FANOUT / 100 + FANOUT


def test_merging_of_long_rows_is_bounded(segments: SegmentList, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge was bounded by rows alone: four segments of 600 MB of text stopped the job at every attempt."""
    long = 1 << 10
    monkeypatch.setattr(segment_list, "MERGED_BYTES", 8 * long)
    for number in range(4 * FANOUT):
        segments.append(rows([f"{number:02}" * (long // 2)], [number]))
        segments.maintain()

    sizes = [segment.memory for segment in segments.segments]
    assert max(sizes) <= 8 * long
    assert len(sizes) <= FANOUT
    assert len(live(segments)) == 4 * FANOUT


def test_rewriting_keeps_what_is_known_of_rows(segments: SegmentList) -> None:
    """A segment that is mostly dead is written anew without its dead rows."""
    segments.append(rows(["a", "b", "c", "d", "e"], [1, 2, 3, 4, 5]))
    for segment, _, j in segments.find(TEXT.keys(rows(["d"], [0]))):
        segment.match(j)
    gone = segments.expire(4)

    segments.maintain()

    assert sorted(gone[0].batch.column("key").to_pylist()) == ["a", "b", "c"]
    assert [segment.rows for segment in segments.segments] == [2]
    assert live(segments) == {"d": True, "e": False}


def test_what_goes_says_who_had_no_partner(segments: SegmentList) -> None:
    """Rows that are removed are handed back, those without a partner apart."""
    segments.append(rows(["a", "b", "c"], [1, 2, 3]), np.zeros(3, bool))
    for segment, _, j in segments.find(TEXT.keys(rows(["b"], [0]))):
        segment.match(j)

    (gone,) = segments.remove(TEXT.keys(rows(["a", "b"], [0, 0])))

    assert sorted(gone.batch.column("key").to_pylist()) == ["a", "b"]
    assert gone.unmatched.column("key").to_pylist() == ["a"]
    assert segments.contains(TEXT.keys(rows(["a", "c"], [0, 0]))).sum() == 1


def test_segments_of_fewer_columns(tmp_path: Path) -> None:
    """A later list has a column more, and another order. Earlier rows have null there, and merge with later
    ones."""
    store = SegmentStore(MemoryBlobs(), tmp_path)
    earlier = SegmentList(store, TEXT, "time")
    earlier.append(rows(["a", "b"], [1, 2]))
    saved = manifest.save({"rows": earlier}, {})
    columns = pa.schema([("time", pa.int64()), ("note", pa.string()), ("key", pa.string())])
    later = SegmentList(store, TEXT, "time", columns=columns)
    manifest.load(saved, {"rows": later})

    for number in range(FANOUT):
        noted = rows([f"c{number}"], [3]).append_column("note", pa.array(["new"]))
        later.append(completed(noted, columns))
    later.maintain()

    assert len(later.segments) < FANOUT
    found = [row for segment in later.segments for row in segment.live_batch().to_pylist()]
    assert [list(row)[:3] for row in found] == [["time", "note", "key"]] * len(found)
    notes = {row["key"]: row["note"] for row in found}
    assert (notes["a"], notes["b"], notes["c0"], len(notes)) == (None, None, "new", FANOUT + 2)

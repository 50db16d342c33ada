"""Knobs of how a relation is read and what is kept of it at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from endmark.operators.lookup.costs import ReadCosts
from endmark.operators.lookup.join import LookupJoin, LookupSpec, Source
from endmark.state import codec
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.knob_turns import Turning, keys_of
from support.memory_relation import MemoryRelation, UnpagedRelation
from support.verify_world import bid


def test_pages_become_larger_and_smaller(tmp_path: Path) -> None:
    """From the batch after, for all buckets of a process, whose directory is made once."""
    keys = keys_of(0)[:8]
    sellers = [(key, f"{key}", 1.0) for key in keys]

    def read(**knobs: Any) -> tuple[float, float]:
        rows = [bid(seller, 1, seller) for seller in keys]
        samples = turning.batch(*rows, **knobs)
        pages = samples["lookup_reads_total{by=page,relation=sellers}"]
        return pages, samples["lookup_read_rows_total{relation=sellers}"]

    with patch.object(
        MemoryRelation, "directory", autospec=True, side_effect=MemoryRelation.directory
    ) as cut:
        turning = Turning(tmp_path, sellers, looking={"strategy": "scan"})
        told = [read(lookup__page_rows=size) for size in (1, 3, 500)]
        told += [read(), read()]

    assert told == [(4, 8), (8, 8), (3, 8), (4, 8), (4, 8)]  # those of the file are of two rows
    assert [call.args[1:] for call in cut.call_args_list][1:] == [(1,), (3,)]


def test_pages_are_cut_anew_once_a_relation_outgrows_them(tmp_path: Path) -> None:
    """All new rows are on the last page, which is read whole only until its pages are cut."""
    few, many = keys_of(0)[:2], keys_of(0)[:20]
    relation = MemoryRelation(_sellers(few), ("seller_id",))

    def read(seller: int) -> float:
        return turning.batch(bid(seller, 1, seller))["lookup_read_rows_total{relation=sellers}"]

    with patch.object(
        MemoryRelation, "directory", autospec=True, side_effect=MemoryRelation.directory
    ) as cut:
        turning = Turning(tmp_path, relation, looking={"strategy": "hybrid", "page_rows": 2})
        before = [read(few[-1]), read(few[-1])]
        relation.__init__(_sellers(many), relation.key)  # type: ignore[misc]
        after = [read(many[-1]), read(many[-1]), read(many[0]), read(many[5])]

    assert (before, after) == ([2, 2], [20, 2, 2, 2])
    assert [call.args[1:] for call in cut.call_args_list] == [(2,), (2,)]


def test_pages_stay_as_they_are_if_a_key_has_many_rows(tmp_path: Path) -> None:
    """No other pages would have fewer rows of this key."""
    key = keys_of(0)[0]
    looking = {"strategy": "hybrid", "page_rows": 2, "cardinality": "many_to_many"}
    with patch.object(
        MemoryRelation, "directory", autospec=True, side_effect=MemoryRelation.directory
    ) as cut:
        turning = Turning(tmp_path, MemoryRelation(_sellers([key] * 30), ("seller_id",)), looking=looking)
        batches = [turning.batch(bid(key, 1, key)) for _ in range(3)]

    assert [batch["lookup_read_rows_total{relation=sellers}"] for batch in batches] == [30, 30, 30]
    assert len(cut.call_args_list) == 1


def _sellers(keys: list[int]) -> pa.RecordBatch:
    names, ratings = [f"{key}" for key in keys], [1.0] * len(keys)
    return pa.record_batch({"seller_id": pa.array(keys), "name": names, "rating": ratings})


def test_pages_of_another_size_cost_as_much_more(tmp_path: Path) -> None:
    """What reads have cost is kept, by the rows that they read."""
    relation = MemoryRelation(pa.record_batch({"k": range(64), "v": range(64)}), ("k",))
    spec = LookupSpec(pa.schema([("n", pa.int64())]), KeySpec.of(["n"], [pa.int64()]), {"v": "v"})
    store = SegmentStore(MemoryBlobs(), tmp_path)

    def costs(pages: int, measured: ReadCosts, restored: bytes | None) -> tuple[dict[str, float], bytes]:
        source = Source(relation, relation.directory(64 // pages), "hybrid", measured)
        snapshot = LookupJoin(spec, source, store, restored=restored).snapshot()
        return json.loads(codec.decode(snapshot).schema.metadata[b"notes"])["costs"], snapshot

    first, snapshot = costs(16, ReadCosts(1, 2, 3, 4), None)
    same, snapshot = costs(16, ReadCosts(5, 5, 5, 5), snapshot)
    larger, snapshot = costs(4, ReadCosts(5, 5, 5, 5), snapshot)
    smaller, _ = costs(32, ReadCosts(5, 5, 5, 5), snapshot)

    assert first == same == vars(ReadCosts(1, 2, 3, 4))
    assert (larger, smaller) == (first | {"page": 8}, first | {"page": 1})


def test_without_pages_a_strategy_that_reads_them_is_ignored(tmp_path: Path) -> None:
    """The turn is refused with its reason, and is no dead letter. A turn in state is ignored, too."""
    rows = pa.record_batch({"seller_id": [1], "name": ["Ann"], "rating": [4.5]})
    turning = Turning(tmp_path, UnpagedRelation(rows, ("seller_id",)), looking={"strategy": "auto"})

    def read(**knobs: Any) -> tuple[float, ...]:
        samples = turning.batch(bid(0, 1), **knobs)
        names = ("lookup_reads_total{by=page,", "lookup_reads_total{by=list,", "dead_letters_total{")
        return tuple(sum(samples[key] for key in samples if key.startswith(name)) for name in names)

    assert read(lookup__strategy="scan") == (0, 1, 0)
    [turn] = [turn for report in turning.reports for turn in report.get("turns", [])]
    assert turn["refused"].startswith("steps.known.lookup.strategy: 'scan' reads pages, but it is a view; or")
    turning.spoil("steps.known.lookup.strategy", "mesh")
    assert read(lookup__page_rows=7) == (0, 1, 0)
    [turn] = [turn for report in turning.reports for turn in report.get("turns", [])]
    assert turn["refused"] == "steps.known.lookup.page_rows would change nothing: it is a view"
    assert read() == (0, 1, 0)
    assert read(lookup__strategy="inlj") == (0, 1, 0)
    assert not [turn for report in turning.reports for turn in report.get("turns", []) if turn["refused"]]


def test_costs_are_measured_anew_once_a_relation_gets_pages_or_loses_them(tmp_path: Path) -> None:
    """The pages of a relation without any cost nothing, so what a snapshot has of them is no measure."""
    rows = pa.record_batch({"k": range(64), "v": range(64)})
    paged, unpaged = MemoryRelation(rows, ("k",)), UnpagedRelation(rows, ("k",))
    spec = LookupSpec(pa.schema([("n", pa.int64())]), KeySpec.of(["n"], [pa.int64()]), {"v": "v"})
    store, measured = SegmentStore(MemoryBlobs(), tmp_path), ReadCosts(5, 5, 5, 5)

    def costs(relation: MemoryRelation, restored: bytes) -> dict[str, float]:
        join = LookupJoin(
            spec, Source(relation, relation.directory(4), "auto", measured), store, None, restored
        )
        return join.process(None, 0).costs

    for before in (paged, unpaged):
        source = Source(before, before.directory(4), "auto", ReadCosts(1, 2, 3, 4))
        snapshot = LookupJoin(spec, source, store).snapshot()
        for now in (paged, unpaged):
            assert costs(now, snapshot) == vars(ReadCosts(1, 2, 3, 4) if before is now is paged else measured)


def test_the_cache_may_take_more_or_less_and_believe_for_longer(tmp_path: Path) -> None:
    """In all buckets, from the batch after; less lets go of what it has, more makes room."""
    turning = Turning(tmp_path, looking={"strategy": "batched", "cache": {"memory": "1MB"}})

    def cached(seller: int = 1, **knobs: Any) -> float:
        return turning.batch(bid(0, 1, seller), **knobs)["lookup_cached_rows_total{relation=sellers}"]

    assert [cached(), cached(), cached(lookup__cache__memory=1)] == [0, 1, 1]
    assert [cached(), cached(lookup__cache__memory="1MB"), cached(), cached()] == [0, 0, 0, 1]
    assert [cached(lookup__cache__lifetime="0s"), cached(), cached(lookup__cache__lifetime="5m")] == [1, 0, 0]
    assert [cached(2), cached(2, lookup__cache__absent_lifetime="0s"), cached(2), cached(2)] == [0, 1, 0, 0]
    assert cached() == 1

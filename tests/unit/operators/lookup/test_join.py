"""The lookup join from batch to batch: what waits, what is asked again, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest

from endmark.operators.lookup import reader, strategies
from endmark.operators.lookup.cache import CacheSpec, FrontCache
from endmark.operators.lookup.costs import ReadCosts
from endmark.operators.lookup.join import Fate, LookupJoin, LookupOutput, LookupSpec, Misses, Source
from endmark.operators.lookup.reader import Budget, DuplicateKeyError
from endmark.operators.lookup.strategies import Name
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.memory_relation import MemoryRelation

KEY = KeySpec.of(["item"], [pa.int64()])
SCHEMA = pa.schema([("item", pa.int64())])


class Bench:
    """An operator on a relation of the keys 0 to 99, ten to a page, without 13."""

    def __init__(self, tmp_path: Path, strategy: Name = "hybrid", extra: int | None = None) -> None:
        keys = [key for key in range(100) if key != 13] + ([] if extra is None else [extra])
        columns = {"id": pa.array(keys, pa.int64()), "name": pa.array([f"n{key}" for key in keys])}
        self.relation = MemoryRelation(pa.record_batch(columns), ("id",))
        self.blobs = MemoryBlobs()
        self._store = SegmentStore(self.blobs, tmp_path)
        self._strategy: Name = strategy

    def join(
        self,
        misses: Misses | None = None,
        budget: Budget | None = None,
        capacity: int | None = None,
        *,
        unique: bool = False,
        cache: FrontCache | None = None,
        restored: bytes | None = None,
    ) -> LookupJoin:
        spec = LookupSpec(
            SCHEMA, KEY, {"name": "item_name"}, misses or Misses(), budget or Budget(), capacity
        )
        directory, costs = self.relation.directory(10), ReadCosts(0.1, 1.0, 1.0, 0.1)
        source = Source(self.relation, directory, self._strategy, costs, unique)
        return LookupJoin(spec, source, self._store, cache, restored)


def _rows(keys: Sequence[int | None]) -> pa.RecordBatch:
    return pa.record_batch({"item": pa.array(keys, pa.int64())})


def _joined(output: LookupOutput) -> list[str]:
    return [name for batch in output.joined for name in batch.column("item_name").to_pylist()]


def test_rows_beyond_the_budget_wait_for_the_next_batch(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    join = bench.join(budget=Budget(reads=1))
    assert _joined(join.process(_rows([55, 12, 57, 91]), now=0)) == ["n55", "n57"]
    assert (join.output.pending_rows, join.output.oldest) == (2, 2)
    join = bench.join(budget=Budget(reads=1), restored=join.snapshot())
    assert _joined(join.process(_rows([33]), now=1)) == ["n12"], "rows from before a restart are older"
    assert _joined(join.process(None, now=2)) == ["n91"]
    assert _joined(join.process(_rows([34]), now=3)) == ["n33", "n34"]
    assert join.output.pending_rows == 0
    assert not bench.blobs.blobs


def test_a_full_set_is_read_until_it_fits(tmp_path: Path) -> None:
    """Nothing is lost: the batch takes longer, and the pressure says why."""
    join = Bench(tmp_path).join(budget=Budget(reads=1), capacity=60)
    with patch.object(reader, "PAGES_AT_ONCE", 2):
        output = join.process(_rows([5, 15, 25, 35, 45, 55, 65]), now=0)
    assert output.pressure > 1
    assert 0 < output.pending_bytes <= 60
    assert output.figures.reads > 1
    assert len(_joined(output)) + output.pending_rows == 7


def test_seconds_end_a_batch_too(tmp_path: Path) -> None:
    output = Bench(tmp_path).join(budget=Budget(seconds=0.0)).process(_rows([5, 15]), now=0)
    assert (output.pending_rows, output.figures.reads) == (2, 0)


def test_a_parked_row_is_asked_for_again_when_it_is_due(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    join = bench.join(Misses("dead_letter", attempts=3, delay=10))
    assert join.process(_rows([13]), now=0).parked_rows == 1
    assert join.process(None, now=9).figures.reads == 0
    assert join.process(None, now=10).figures.reads == 1
    join = bench.join(Misses("dead_letter", attempts=3, delay=10), restored=join.snapshot())
    assert join.process(None, now=19).figures.reads == 0
    output = join.process(None, now=20)
    assert [batch.to_pylist() for batch in output.missed] == [[{"item": 13}]]
    assert (output.parked_rows, output.misses) == (0, 1)


def test_a_parked_row_finds_what_came_to_r_since(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    join = bench.join(Misses("drop", attempts=2, delay=10))
    join.process(_rows([13]), now=0)
    bench.relation = MemoryRelation(
        pa.record_batch({"id": pa.array([13], pa.int64()), "name": ["n13"]}), ("id",)
    )
    join = bench.join(Misses("drop", attempts=2, delay=10), restored=join.snapshot())
    assert _joined(join.process(None, now=10)) == ["n13"]


@pytest.mark.parametrize("fate", ["drop", "nulls", "dead_letter"])
def test_a_null_has_no_match_and_is_not_asked_for(tmp_path: Path, fate: Fate) -> None:
    """R never has it, so it neither waits for the budget nor is it parked."""
    bench = Bench(tmp_path)
    join = bench.join(Misses(fate, attempts=3, delay=10), Budget(reads=0))

    output = join.process(_rows([None, 5, None]), now=0)

    assert (output.misses, output.pending_rows, output.parked_rows, output.figures.reads) == (2, 1, 0, 0)
    nulls = [{"item": None, "item_name": None}] * 2 if fate == "nulls" else []
    assert [row for batch in output.joined for row in batch.to_pylist()] == nulls
    missed = [] if fate == "nulls" else [{"item": None}] * 2
    assert [row for batch in output.missed for row in batch.to_pylist()] == missed
    assert (join.pending.arrived_rows, join.pending.answered_rows) == (3, 1)
    assert _joined(bench.join(restored=join.snapshot()).process(None, now=1)) == ["n5"]


@pytest.mark.parametrize("key", [(1, None), (None, "a"), (None, None)])
def test_a_null_in_one_of_several_columns_is_no_key(tmp_path: Path, key: tuple[Any, ...]) -> None:
    schema = pa.schema([("n", pa.int64()), ("s", pa.string())])
    held = pa.RecordBatch.from_pylist([{"n": 1, "s": "a"}], schema)
    relation = MemoryRelation(held.append_column("v", pa.array(["found"])), ("n", "s"))
    spec = LookupSpec(schema, KeySpec.of(schema.names, schema.types), {"v": "v"}, Misses("nulls"))
    source = Source(relation, relation.directory(1), "hybrid", ReadCosts(0.1, 1.0, 1.0, 0.1))
    join = LookupJoin(spec, source, SegmentStore(MemoryBlobs(), tmp_path))

    came = [dict(zip(schema.names, each, strict=True)) for each in (key, (1, "a"))]
    output = join.process(pa.RecordBatch.from_pylist(came, schema), now=0)

    found = [row for batch in output.joined for row in batch.to_pylist()]
    assert sorted(found, key=repr) == sorted([{**came[0], "v": None}, {**came[1], "v": "found"}], key=repr)


def test_a_cached_answer_costs_no_read(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    cache = FrontCache(
        CacheSpec(10_000, 100, 100),
        KeySpec.of(["id"], [pa.int64()]),
        bench.relation.schema,
    )
    join = bench.join(Misses("nulls"), cache=cache)
    join.process(_rows([12, 13]), now=0)
    output = join.process(_rows([12, 13, 13]), now=1)
    assert (output.cached_rows, output.figures.reads, output.misses) == (3, 0, 2)
    assert sorted(map(str, _joined(output))) == ["None", "None", "n12"]
    cache.evict(_rows([12]))
    assert join.process(_rows([12, 13]), now=2).figures.reads == 1


@pytest.mark.parametrize("strategy", ["hybrid", "batched", "scan"])
def test_a_second_row_of_a_key_is_refused_where_one_was_declared(tmp_path: Path, strategy: Name) -> None:
    bench = Bench(tmp_path, strategy, extra=42)
    with pytest.raises(DuplicateKeyError, match="several rows of id = 42"):
        bench.join(unique=True).process(_rows([42]), now=0)
    assert _joined(bench.join().process(_rows([42]), now=0)) == ["n42", "n42"]


def test_draining_ignores_the_budget(tmp_path: Path) -> None:
    output = Bench(tmp_path).join(budget=Budget(reads=0)).process(_rows([5, 15]), now=0, drain=True)
    assert output.pending_rows == 0


def test_neighbouring_pages_are_one_range(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.join().process(_rows([5, 15, 45, 55, 95]), now=0)
    assert bench.relation.ranges == [(None, (21,)), ((41,), (61,)), ((91,), None)]


def test_mesh_goes_on_where_it_was_after_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path, "mesh")
    with patch.object(strategies, "PAGES_AT_ONCE", 4):
        join = bench.join(budget=Budget(reads=1))
        assert join.process(_rows([5, 45]), now=0).pending_rows == 1
        again = bench.join(budget=Budget(reads=1), restored=join.snapshot())
        assert again.process(None, now=1).pending_rows == 0
    assert bench.relation.ranges == [(None, (41,)), ((41,), (81,))]


def test_costs_outlive_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    join = bench.join()
    join.process(_rows([5]), now=0)
    assert bench.join(restored=join.snapshot()).snapshot() == join.snapshot() != bench.join().snapshot()


def test_auto_tells_what_it_expected(tmp_path: Path) -> None:
    output = Bench(tmp_path, "auto").join().process(_rows([5, 15]), now=0)
    assert output.predicted.keys() == {"hybrid", "batched", "inlj", "scan", "auto"}

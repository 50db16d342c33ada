"""Runs the lookup join over a history: after every batch nothing is lost, doubled or invented."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

from endmark.operators.lookup import cache
from endmark.operators.lookup.cache import CacheSpec, FrontCache
from endmark.operators.lookup.join import LookupJoin, LookupOutput, LookupSpec, Misses, Source
from endmark.operators.lookup.reader import Budget
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark_benchmarks.contenders.meshjoin import MeshJoin
from support.lookup_world import Arrive, Evict, History, Restart
from support.memory_relation import MemoryRelation
from support.small_reads import small_reads

_DELAY = 10
_STEP = 6  # a parked row sits out one batch
# The last batch within a lifetime is in its last quarter.
_LIFETIME, _ABSENT_LIFETIME = 3 * _STEP + 2, 2 * _STEP + 2


class OperatorRun:
    """One operator, restarted as the history wants it."""

    def __init__(self, history: History, directory: Path) -> None:
        self._history = history
        self._relation = MemoryRelation(history.relation(), tuple(history.names("r")))
        stream = history.stream([], 0)
        self._key = KeySpec.of(
            history.names("s"), [stream.schema.field(name).type for name in history.names("s")]
        )
        self._spec = LookupSpec(
            schema=stream.schema,
            key=self._key,
            renamed={"v": "v"},
            misses=Misses(history.fate, history.attempts, _DELAY),
            budget=Budget(reads=history.reads),
            capacity=history.capacity,
        )
        self._store = SegmentStore(MemoryBlobs(), directory)
        self._cache = self._new_cache()
        self._offered = [stream]
        self._now = 0
        self._found: Counter[tuple[int, str | None]] = Counter()

    def check(self) -> None:
        """Raise AssertionError when the results are not the definition's."""
        small = self._history.small
        with small_reads(small), patch.object(cache, "OFTEN", small):
            self._join = self._new_join(None)
            for move in self._history.moves:
                match move:
                    case Arrive():
                        self._arrive(move)
                    case Restart():
                        self._cache = self._new_cache() if move.lose_cache else self._cache
                        self._join = self._new_join(self._join.snapshot())
                    case Evict():
                        self._evict(move)
            for _ in range(2 * self._history.attempts):
                self._arrive(Arrive([], drain=True))
        assert self._join.output.pending_rows == self._join.output.parked_rows == 0
        assert self._found == Counter(self._history.definition(self._stream()))

    def _arrive(self, move: Arrive) -> None:
        rows = self._history.stream(move.keys, sum(batch.num_rows for batch in self._offered))
        self._offered.append(rows)
        self._now += _STEP
        oldest = min(set(range(self._stream().num_rows)) - self._answered, default=None)
        output = self._join.process(rows if move.keys else None, self._now, drain=move.drain)
        self._note(output)
        assert len(self._answered) + output.pending_rows + output.parked_rows == self._stream().num_rows
        assert not move.drain or output.pending_rows == 0
        if self._history.capacity is not None:
            assert output.pending_bytes <= self._history.capacity
        if self._cache is not None:
            assert len(self._cache) == 0 or self._cache.size <= (self._history.cache or 0)
        budget = self._history.reads
        if budget is not None and self._history.capacity is None and not move.drain:
            assert self._history.strategy in ("mesh", "scan") or output.figures.reads <= budget
        if self._history.strategy == "hybrid" and budget != 0 and self._history.attempts == 1:
            assert oldest is None or oldest in self._answered, "the oldest row was passed over"

    @property
    def _answered(self) -> set[int]:
        return {n for n, _ in self._found}

    def _note(self, output: LookupOutput) -> None:
        for batch in output.joined:
            assert batch.schema.names == [*self._spec.schema.names, "v"]
            self._found.update(zip(batch["n"].to_pylist(), batch["v"].to_pylist(), strict=True))
        for batch in output.missed:
            assert batch.schema == self._spec.schema
            assert self._spec.misses.fate != "nulls"
            self._found.update((n, None) for n in batch["n"].to_pylist())
        nulls = sum(batch["v"].null_count for batch in output.joined)
        assert nulls == (output.misses if self._spec.misses.fate == "nulls" else 0)
        definition = Counter(self._history.definition(self._stream()))
        assert self._found <= definition, "an answer that is wrong, or comes twice"

    def _evict(self, move: Evict) -> None:
        if self._cache is not None:
            rows = self._key.coded(self._history.stream([move.key], 0))
            self._cache.evict(rows.select(list(self._key.columns)))
            assert not len(self._cache.lookup(self._key.keys(rows), self._now).rows)

    def _stream(self) -> pa.RecordBatch:
        return pa.concat_batches(self._offered)

    def _new_cache(self) -> FrontCache | None:
        if self._history.cache is None:
            return None
        kinds = [self._relation.schema.field(name).type for name in self._relation.key]
        spec = CacheSpec(self._history.cache, _LIFETIME, _ABSENT_LIFETIME)
        return FrontCache(spec, KeySpec.of(self._relation.key, kinds), self._relation.schema)

    def _new_join(self, restored: bytes | None) -> LookupJoin:
        return LookupJoin(self._spec, self._source(), self._store, self._cache, restored)

    def _source(self) -> Source:
        return Source(
            self._relation,
            self._relation.directory(self._history.page_rows),
            self._history.strategy,
            self._history.costs,
        )


class MeshJoinRun(OperatorRun):
    """The benchmark's MESHJOIN, which has no cache and its own memory of `memory_rows` rows."""

    def __init__(self, history: History, directory: Path, memory_rows: int) -> None:
        super().__init__(history._replace(strategy="mesh", cache=None, capacity=None), directory)
        self._memory_rows = memory_rows

    def _new_join(self, restored: bytes | None) -> LookupJoin:
        return MeshJoin(self._spec, self._source(), self._store, self._memory_rows, restored)

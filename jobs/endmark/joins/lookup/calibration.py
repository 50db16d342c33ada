"""The unit costs of the cost model, measured: reads on R itself, and the join on a sample of R in memory."""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.joins.lookup.cost_model import Costs
from endmark.joins.lookup.costs import ReadCosts, measure
from endmark.joins.lookup.operator import LookupJoin, LookupSpec, Misses, Source
from endmark.joins.lookup.resolve import Budget
from endmark.relation.contract import PageDirectory
from endmark.state import codec
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.joins.lookup.strategies import Name
    from endmark.relation.contract import KeyRange, KeyValues, RelationReader

_SAMPLED_PAGES = 64
_BATCH_ROWS = 50_000
_FEW_ROWS = 5_000
_SINGLE_ROWS = 200
_BATCHES = 8
_TIMES = 3
_READS = 15


def calibrate(reader: RelationReader, directory: PageDirectory, page_rows: int, payload: int) -> Costs:
    """Measure; takes some seconds.

    Args:
        reader, directory: R, in pages of `page_rows`.
        page_rows: of `directory`.
        payload: bytes of a stream row beside its key.

    Raises:
        ValueError: R is empty.
    """
    reads = measure(reader, directory, times=_READS)
    sample = _Sample.of(reader, directory, page_rows)
    with _Trial.on(sample, payload) as trial:
        large, small = trial.answered(_BATCH_ROWS, "hybrid"), trial.answered(_FEW_ROWS, "hybrid")
        row = max(0.0, large - small) / (_BATCH_ROWS - _FEW_ROWS)
        match = max(0.0, small - _FEW_ROWS * row) / sample.rows.num_rows
        loop = max(0.0, trial.answered(_SINGLE_ROWS, "inlj") / _SINGLE_ROWS - row)
        store, wait = trial.waited()
    row_bytes = int(sample.rows.nbytes) / sample.rows.num_rows
    byte = reads.page / page_rows / row_bytes
    return Costs(reads.seek, byte, match, row, reads.trip, reads.key, loop, store, wait)


class _Sample:
    """Some pages of R as a relation of its own, which costs nothing to read."""

    def __init__(self, rows: pa.RecordBatch, key: tuple[str, ...], page_rows: int) -> None:
        self.rows = rows
        self.key = key
        self.schema = rows.schema
        lower = rows.select(list(key)).take(pa.array(np.arange(0, rows.num_rows, page_rows)))
        self.directory = PageDirectory(lower)
        firsts = zip(*(column.to_pylist() for column in rows.select(list(key)).columns), strict=True)
        self._at: dict[KeyValues, int] = {}
        for at, values in enumerate(firsts):
            self._at.setdefault(values, at)

    @classmethod
    def of(cls, reader: RelationReader, directory: PageDirectory, page_rows: int) -> _Sample:
        numbers = np.unique(np.linspace(0, len(directory) - 1, _SAMPLED_PAGES).astype(np.int64))
        rows = reader.pages([directory.range_of(int(number)) for number in numbers])
        if not rows.num_rows:
            raise ValueError("the relation is empty")
        return cls(rows, reader.key, page_rows)

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        bounds = [
            (0 if low is None else self._at[low], self.rows.num_rows if high is None else self._at[high])
            for low, high in ranges
        ]
        return codec.concat([self.rows.slice(start, stop - start) for start, stop in bounds])

    def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        wanted = zip(*(column.to_pylist() for column in keys.columns), strict=True)
        return self.rows.take(pa.array(sorted(self._at[values] for values in wanted)))


class _Trial:
    """The lookup join of a sample with stream rows of random keys in it; no read costs anything."""

    def __init__(self, sample: _Sample, payload: int, store: SegmentStore) -> None:
        self._sample = sample
        self._store = store
        fields = [sample.schema.field(name) for name in sample.key]
        others = [field.name for field in sample.schema if field.name not in sample.key]
        self._spec = LookupSpec(
            pa.schema([*(field.with_name(f"s_{field.name}") for field in fields), ("s", pa.binary())]),
            KeySpec.of([f"s_{field.name}" for field in fields], [field.type for field in fields]),
            {name: name for name in others},
            Misses("dead_letter"),
        )
        self._payload = b"x" * payload
        self._random = np.random.default_rng(0)

    @classmethod
    @contextmanager
    def on(cls, sample: _Sample, payload: int) -> Iterator[_Trial]:
        with tempfile.TemporaryDirectory(prefix="endmark-trial-") as folder:
            yield cls(sample, payload, SegmentStore(MemoryBlobs(), Path(folder)))

    def answered(self, rows: int, strategy: Name) -> float:
        """Seconds to answer rows in the batch in which they come."""
        return min(self._seconds(self._join(strategy), self._stream(rows)) for _ in range(_TIMES))

    def waited(self) -> tuple[float, float]:
        """Seconds to store a row, and of one that waits, in each batch."""
        found = []
        for _ in range(_TIMES):
            join = self._join("hybrid", Budget(reads=0))
            found.append([self._seconds(join, self._stream(_BATCH_ROWS)) for _ in range(_BATCHES)])
        seconds = np.median(found, axis=0)
        waiting = np.arange(1, _BATCHES + 1) * _BATCH_ROWS
        parts = np.column_stack([np.full(_BATCHES, _BATCH_ROWS), waiting])
        store, wait = np.linalg.lstsq(parts, seconds, rcond=None)[0]
        return max(0.0, float(store)), max(0.0, float(wait))

    def _join(self, strategy: Name, budget: Budget | None = None) -> LookupJoin:
        spec = LookupSpec(
            self._spec.schema, self._spec.key, self._spec.renamed, self._spec.misses, budget or Budget()
        )
        costs = ReadCosts(1.0, 1.0, 1.0, 1.0)
        return LookupJoin(spec, Source(self._sample, self._sample.directory, strategy, costs), self._store)

    def _stream(self, rows: int) -> pa.RecordBatch:
        at = self._random.integers(0, self._sample.rows.num_rows, rows)
        keys = self._sample.rows.select(list(self._sample.key)).take(pa.array(at))
        payload = pa.repeat(pa.scalar(self._payload), rows)
        return pa.record_batch([*keys.columns, payload], schema=self._spec.schema)

    @staticmethod
    def _seconds(join: LookupJoin, rows: pa.RecordBatch) -> float:
        started = time.perf_counter()
        join.process(rows, 0)
        return time.perf_counter() - started

"""Measures the unit costs of the cost model by small joins with R.

The costs are those of whole joins that read R. Reads alone would be too fast: without a join between them,
pages took nine tenths of the time, and lone keys three quarters. Joins alone would be too fast, too: with
rows in memory they took two thirds of the time that they take behind a read of a key. Only the costs of
waiting rows are measured on a part of R in memory.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.lookup.costs import JoinCosts
from endmark.operators.lookup.join import LookupJoin, LookupSpec, Misses, Source
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.reader import Budget
from endmark.operators.lookup.reads import PAGES_AT_ONCE
from endmark.relation.contract import PageDirectory
from endmark.state import codec
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from endmark.operators.lookup.join import LookupOutput
    from endmark.operators.lookup.strategies import Name
    from endmark.relation.contract import KeyRange, KeyValues, RelationReader

_BATCH_ROWS = 50_000
_FEW_ROWS = 5_000
_SINGLE_ROWS = 200
_HELD_BATCHES = 5
_BATCHES = 20
_SLICES = 4_096  # pages of the sample, so that a read takes as small a share of it as of a large R
_TIMES = 5
_READS = 15


def calibrate(reader: RelationReader, directory: PageDirectory, payload: int) -> JoinCosts:
    """Measure the unit costs of lookups in R, which takes some seconds.

    Args:
        reader: the reader of R.
        directory: the pages of R.
        payload: bytes of a stream row beside its key.

    Raises:
        ValueError: R is empty.
    """
    apart = _pages_apart(reader, directory)
    together = _neighbours(reader, directory) or apart
    if not apart:
        raise ValueError("the relation is empty")
    reads = measure(reader, directory, times=_READS)
    source = Source(reader, directory, "hybrid", replace(reads))  # a copy, since joins correct their costs
    with _Trial.on(source, payload, _rows_of_a_key(apart[0], reader.key)) as trial:
        trial.answered(apart, _BATCH_ROWS)  # a process's first joins took up to three times as long
        large, small = trial.answered(apart, _BATCH_ROWS), trial.answered(apart, _FEW_ROWS)
        near, single = trial.answered(together, _FEW_ROWS), trial.answered(apart, _SINGLE_ROWS, "inlj")
        row = max(0.0, large.joining - small.joining) / max(1, large.rows - small.rows)
        match = max(0.0, small.joining - small.rows * row) / apart[0].num_rows
        store, wait = trial.waited(apart[0], large.row_bytes, row, match)
    pages = min(PAGES_AT_ONCE, len(directory))
    seek = max(0.0, small.reading - near.reading) / max(1, pages - 1)
    return JoinCosts(
        seek=seek,
        page=(max(0.0, near.reading - seek) + together[0].num_rows * match) / pages,
        trip=max(0.0, single.reading / single.rows - reads.key),
        key=reads.key + match,
        row=row,
        loop=max(0.0, single.joining / single.rows - row - match),
        store=store,
        wait=wait,
    )


def _pages_apart(reader: RelationReader, directory: PageDirectory) -> list[pa.RecordBatch]:
    """Read pages all over R, several times.

    Each time reads other pages if R has enough, since a page is read faster the second time.
    """
    some = min(PAGES_AT_ONCE, len(directory))
    numbers = np.linspace(0, len(directory) - 1, some * _TIMES).astype(np.int64)
    if len(directory) < len(numbers):
        numbers = np.repeat(np.arange(some) * len(directory) // some, _TIMES)
    ranges = [directory.range_of(number) for number in numbers.tolist()]
    return [found for t in range(_TIMES) if (found := reader.pages(ranges[t::_TIMES])).num_rows]


def _neighbours(reader: RelationReader, directory: PageDirectory) -> list[pa.RecordBatch]:
    """Read as many pages side by side, several times. Each time reads other pages if R has enough."""
    some = min(PAGES_AT_ONCE, len(directory))
    firsts = np.linspace(0, len(directory) - some, _TIMES).astype(np.int64).tolist()
    ranges = [directory.range_of(first, first + some - 1) for first in firsts]
    return [found for each in ranges if (found := reader.pages([each])).num_rows]


class _Sample:
    """A part of R's rows as a relation in memory, which costs nothing to read."""

    def __init__(self, rows: pa.RecordBatch, key: tuple[str, ...]) -> None:
        self.key = key
        self.schema = rows.schema
        self._rows = rows
        self._at: dict[KeyValues, int] = {}
        for at, values in enumerate(_values(rows.select(list(key)))):
            self._at.setdefault(values, at)
        lower = list(self._at.values())[:: -(-len(self._at) // _SLICES)]
        self.directory = PageDirectory(rows.select(list(key)).take(pa.array(lower)))

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        bounds = [
            (0 if low is None else self._at[low], self._rows.num_rows if high is None else self._at[high])
            for low, high in ranges
        ]
        return codec.concat([self._rows.slice(start, stop - start) for start, stop in bounds])

    def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        return self._rows.take(pa.array(sorted(self._at[values] for values in _values(keys))))


def _rows_of_a_key(rows: pa.RecordBatch, key: tuple[str, ...]) -> int:
    """Return the mean number of rows of a key, rounded down."""
    keys = pa.Table.from_batches([rows.select(list(key))])
    return int(rows.num_rows // keys.group_by(list(key)).aggregate([]).num_rows)


def _values(keys: pa.RecordBatch) -> Iterator[KeyValues]:
    return zip(*(column.to_pylist() for column in keys.columns), strict=True)


@dataclass(frozen=True)
class _TrialFigures:
    """The figures of one trial batch.

    Args:
        rows: its stream rows.
        reading: the seconds that it read R.
        joining: all its other seconds.
        row_bytes: the bytes of a row that waits.
    """

    rows: int
    reading: float
    joining: float
    row_bytes: float


class _Trial:
    """Runs lookup joins of stream rows with random keys.

    Args:
        source: R.
        payload: bytes of a stream row beside its key.
        alike: the number of R's rows for each key. A batch has fewer stream rows by this factor.
        store: the store of waiting rows.
    """

    def __init__(self, source: Source, payload: int, alike: int, store: SegmentStore) -> None:
        self._source = source
        self._alike = alike
        self._store = store
        relation = source.reader
        fields = [relation.schema.field(name) for name in relation.key]
        others = [field.name for field in relation.schema if field.name not in relation.key]
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
    def on(cls, source: Source, payload: int, alike: int) -> Iterator[_Trial]:
        """Open a trial with a store of its own, which is removed at the end.

        Args:
            source: R.
            payload: bytes of a stream row beside its key.
            alike: the number of R's rows for each key.
        """
        with tempfile.TemporaryDirectory(prefix="endmark-trial-") as folder:
            yield cls(source, payload, alike, SegmentStore(MemoryBlobs(), Path(folder)))

    def answered(
        self, partners: list[pa.RecordBatch], results: int, strategy: Name = "hybrid"
    ) -> _TrialFigures:
        """Run one batch for each item of `partners`, and return the medians of their figures.

        Args:
            partners: rows of R. The keys of a batch are drawn from one item.
            results: the number of results of a batch.
            strategy: the strategy that reads R.
        """
        found = []
        rows = max(1, results // self._alike)
        for some in partners:
            join = LookupJoin(self._spec, replace(self._source, strategy=strategy), self._store)
            seconds, output = _timed(join, self._stream(some, rows))
            reading = output.figures.seconds
            found.append((reading, seconds - reading, output.ordered_bytes / output.ordered_rows))
        return _TrialFigures(rows, *np.median(found, axis=0).tolist())

    def waited(
        self, partners: pa.RecordBatch, row_bytes: float, row: float, match: float
    ) -> tuple[float, float]:
        """Measure the seconds to store a row that waits, and the seconds that it costs in each further batch.

        Args:
            partners: rows of R that are the partners of waiting rows.
            row_bytes: bytes of a waiting row.
            row: seconds to answer a row.
            match: seconds to look for the partners of a row of R.
        """
        sample = _Sample(partners, self._source.reader.key)
        source = Source(sample, sample.directory, "hybrid", self._source.costs)
        rows = max(1, _BATCH_ROWS // self._alike)
        held = int(_HELD_BATCHES * rows * row_bytes)
        spec = replace(self._spec, budget=Budget(reads=0), capacity=held)
        found = []
        for _ in range(_TIMES):
            join = LookupJoin(spec, source, self._store)
            batches = (self._stream(partners, rows) for _ in range(_BATCHES))
            found.append([_kept(join, batch, row, match) for batch in batches])
        seconds, waiting = np.median(found, axis=0).T
        parts = np.column_stack([np.full(_BATCHES, rows), waiting])
        store, wait = np.linalg.lstsq(parts, seconds, rcond=None)[0]
        return max(0.0, float(store)), max(0.0, float(wait))

    def _stream(self, partners: pa.RecordBatch, rows: int) -> pa.RecordBatch:
        at = self._random.integers(0, partners.num_rows, rows)
        keys = partners.select(list(self._source.reader.key)).take(pa.array(at))
        payload = pa.repeat(pa.scalar(self._payload), rows)
        return pa.record_batch([*keys.columns, payload], schema=self._spec.schema)


def _kept(join: LookupJoin, rows: pa.RecordBatch, row: float, match: float) -> tuple[float, int]:
    """Run a batch, and return the seconds that its waiting rows cost, and the number of rows that it ordered.

    Args:
        join: the lookup join.
        rows: stream rows of the batch.
        row: seconds to answer a row.
        match: seconds to look for the partners of a row of R.
    """
    seconds, output = _timed(join, rows)
    answered = output.ordered_rows - output.pending_rows
    known = output.figures.seconds + answered * row + output.figures.rows * match
    return seconds - known, output.ordered_rows


def _timed(join: LookupJoin, rows: pa.RecordBatch) -> tuple[float, LookupOutput]:
    """Run a batch, and return its seconds and its output."""
    started = time.perf_counter()
    output = join.process(rows, 0)
    return time.perf_counter() - started, output

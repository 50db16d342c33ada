"""The stream join alone, without Spark: each batch restores it from its snapshot, as a task does."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.presets import DEFAULT, Policy
from endmark.operators.stream_join.side import SideSpec
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.punctuation.punctuation import Punctuation

BATCH = 100_000
SECOND = 1_000_000
NOBODY = np.array([-1])
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def _side(name: str, window: int | None) -> SideSpec:
    kinds = [("k", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("p", pa.string())]
    return SideSpec(
        name=name,
        key=KeySpec((f"{name}_k",)),
        time=f"{name}_at",
        schema=pa.schema([(f"{name}_{column}", kind) for column, kind in kinds]),
        partition=None,
        offset=None,
        window=window,
    )


class Bench:
    """A join of left and right, a second of event time a batch.

    Args:
        directory: for local copies of state; several may share it.
        policy: how the join treats its state.
        window: seconds that a row of left and of right stays joinable; `None` is for ever.
    """

    def __init__(
        self,
        directory: Path,
        policy: Policy = DEFAULT,
        window: tuple[int | None, int | None] = (None, None),
    ) -> None:
        self._policy = policy
        self._store = SegmentStore(MemoryBlobs(), directory)
        left, right = (None if seconds is None else seconds * SECOND for seconds in window)
        self._specs = _side("left", left), _side("right", right)
        self._snapshot: bytes | None = None
        self._second = 0
        self._payloads = pa.array([f"payload-{n:020d}" for n in range(1000)])
        self.random = np.random.default_rng(1)
        self.results = 0

    def batch(
        self,
        left: Ints = NOBODY,
        right: Ints = NOBODY - 1,
        closed: Ints | None = None,
        promises: Sequence[Punctuation] = (),
    ) -> tuple[float, StreamJoin]:
        """Run one batch; return its seconds, and the join.

        Args:
            left, right: the keys of the rows of each side.
            closed: keys that the left side closes behind its rows.
            promises: patterns that it promises behind its rows.
        """
        self._second += 1
        inputs = self._input(0, left, closed, promises), self._input(1, right, None, ())
        started = time.perf_counter()
        join = StreamJoin(*self._specs, self._store, policy=self._policy, restored=self._snapshot)
        for result in join.process(*inputs):
            self.results += result.num_rows
        self._snapshot = join.snapshot()
        return time.perf_counter() - started, join

    def _input(
        self, number: int, keys: Ints, closed: Ints | None, promises: Sequence[Punctuation]
    ) -> StreamBatch:
        spec = self._specs[number]
        at = self._second * SECOND + np.arange(len(keys))
        payloads = self._payloads.take(pa.array(self.random.integers(0, 1000, len(keys))))
        columns = [pa.array(keys), pa.array(at, pa.timestamp("us", "UTC")), pa.array(at), payloads]
        rows = spec.key.sorted(pa.record_batch(columns, schema=spec.schema))
        named = None
        if closed is not None:
            nothing = pa.array(np.zeros(len(closed), np.int64))
            names = [*spec.key.shared.columns, "partition", "offset"]
            named = pa.record_batch([pa.array(closed), nothing, nothing], names=names)
        newest = {0: int(at[-1])}
        return StreamBatch(rows=rows, closed_keys=named, key_promises=promises, newest=newest)

    def fill(self, rows: int, first: int = 0) -> StreamJoin:
        """Put right rows of keys counting up from `first` into state."""
        for start in range(first, first + rows, BATCH):
            _, join = self.batch(right=np.arange(start, start + BATCH))
        return join

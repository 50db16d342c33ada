"""The stream join where it could break: much state, a hot key, a million closings, too little memory.

The operator alone, without Spark, on one core: each batch restores it from its snapshot, as a task does, and
reads state from local copies. A scenario runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

from endmark.joins.presets import DEFAULT, Policy
from endmark.joins.side import SideInput, SideSpec
from endmark.joins.stream_join import StreamJoin
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore

RESULTS = Path(__file__).parent / "results" / "extremes.json"
BATCH = 100_000
SECOND = 1_000_000
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def side(name: str) -> SideSpec:
    kinds = [("k", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("p", pa.string())]
    return SideSpec(
        name=name,
        key=KeySpec((f"{name}_k",)),
        time=f"{name}_at",
        schema=pa.schema([(f"{name}_{column}", kind) for column, kind in kinds]),
        partition=None,
        offset=None,
        window=None,
    )


class Bench:
    """A join of left and right, batch by batch."""

    def __init__(self, directory: Path, policy: Policy = DEFAULT) -> None:
        self._policy = policy
        self._store = SegmentStore(MemoryBlobs(), directory)
        self.directory = directory
        self._specs = side("left"), side("right")
        self._snapshot: bytes | None = None
        self._second = 0
        self._payloads = pa.array([f"payload-{n:020d}" for n in range(1000)])
        self.random = np.random.default_rng(1)
        self.results = 0

    def batch(self, left: Ints, right: Ints, closed: Ints | None = None) -> tuple[float, StreamJoin]:
        """Seconds of one batch: rows of these keys, and keys that the left side closes after them."""
        self._second += 1
        inputs = self._input(0, left, closed), self._input(1, right, None)
        started = time.perf_counter()
        join = StreamJoin(*self._specs, self._store, policy=self._policy, restored=self._snapshot)
        for result in join.process(*inputs):
            self.results += result.num_rows
        self._snapshot = join.snapshot()
        return time.perf_counter() - started, join

    def _input(self, number: int, keys: Ints, closed: Ints | None) -> SideInput:
        spec = self._specs[number]
        at = self._second * SECOND + np.arange(len(keys))
        payloads = self._payloads.take(pa.array(self.random.integers(0, 1000, len(keys))))
        columns = [pa.array(keys), pa.array(at, pa.timestamp("us", "UTC")), pa.array(at), payloads]
        rows = spec.key.sorted(pa.record_batch(columns, schema=spec.schema))
        promises = None
        if closed is not None:
            nothing = pa.array(np.zeros(len(closed), np.int64))
            names = [*spec.key.shared.columns, "partition", "offset"]
            promises = pa.record_batch([pa.array(closed), nothing, nothing], names=names)
        return SideInput(rows=rows if len(keys) else None, punctuations=promises, newest={0: int(at[-1])})

    def fill(self, rows: int, first: int = 0) -> StreamJoin:
        """Put right rows of keys counting up from `first` into state."""
        for start in range(first, first + rows, BATCH):
            _, join = self.batch(np.array([-1]), np.arange(start, start + BATCH))
        return join


def live_rows(bench: Bench) -> Iterator[dict[str, Any]]:
    """Time of a batch of 2 x 100,000 rows, and of 10,000 closings, as live state grows."""
    filled = 0
    for live in (100_000, 1_000_000, 10_000_000):
        join = bench.fill(live - filled, filled)
        filled = live
        probes, closings = [], []
        for _ in range(5):
            keys = bench.random.integers(0, live, BATCH)
            probes.append(bench.batch(keys, bench.random.integers(0, live, BATCH) - 2 * live)[0])
            closed = bench.random.integers(0, live, 10_000)
            seconds, join = bench.batch(np.array([-1]), np.array([-2]), np.unique(closed))
            closings.append(seconds)
        held = join.right.rows
        yield {
            "live_rows": live,
            "batch_seconds": statistics.median(probes),
            "microseconds_per_closing": statistics.median(closings) * 1e6 / 10_000,
            "segments": len(held.segments),
            "durable_bytes_per_row": held.size / held.rows,
        }


def hot_key(bench: Bench) -> Iterator[dict[str, Any]]:
    """Half of a million rows have one key, and a thousand rows arrive of which ten have it too."""
    for _ in range(10):
        cold = bench.random.integers(1, 1_000_000, BATCH // 2)
        bench.batch(np.array([-1]), np.concatenate([np.zeros(BATCH // 2, np.int64), cold]))
    before = bench.results
    probe = np.concatenate([np.zeros(10, np.int64), bench.random.integers(1, 1_000_000, 990)])
    seconds, _ = bench.batch(probe, np.array([-2]))
    results = bench.results - before
    yield {"seconds": seconds, "results": results, "results_per_second": results / seconds}


def a_million_closings(bench: Bench) -> Iterator[dict[str, Any]]:
    """One batch closes a million keys of two million rows."""
    bench.fill(2_000_000)
    seconds, join = bench.batch(np.array([-1]), np.array([-2]), np.arange(1_000_000))
    yield {
        "seconds": seconds,
        "microseconds_per_closing": seconds * 1e6 / 1_000_000,
        "rows_left": join.right.rows.rows,
        "announced": 0 if join.output.announced is None else join.output.announced.num_rows,
    }


def more_than_memory(bench: Bench) -> Iterator[dict[str, Any]]:
    """One segment of two million rows against a budget of 16 MB: it is spilled, and rows that come later meet
    it when they are over the budget."""
    budget = 16_000_000
    small = Bench(bench.directory, Policy(memory=budget))
    _, join = small.batch(np.array([-1]), np.arange(2_000_000))
    spilled = sum(segment.memory for segment in join.deferral.spilled)
    batches, most = [], 0
    for _ in range(10):
        keys = small.random.integers(0, 2_000_000, BATCH)
        seconds, join = small.batch(keys, np.array([-2]))
        batches.append(seconds)
        most = max(most, sum(one.memory for one in join.left.rows.resident + join.right.rows.resident))
    started = time.perf_counter()
    small.results += sum(piece.num_rows for piece in join.drain())
    yield {
        "budget_bytes": budget,
        "spilled_bytes": spilled,
        "most_resident_bytes": most,
        "batch_seconds": statistics.median(batches),
        "longest_batch_seconds": max(batches),
        "drain_seconds": time.perf_counter() - started,
        "results": small.results,
    }


SCENARIOS: dict[str, Callable[[Bench], Iterator[dict[str, Any]]]] = {
    scenario.__name__: scenario for scenario in (live_rows, hot_key, a_million_closings, more_than_memory)
}


def run(scenario: str) -> None:
    """One scenario in this process; prints its figures."""
    with tempfile.TemporaryDirectory() as directory:
        figures = list(SCENARIOS[scenario](Bench(Path(directory))))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"figures": figures, "peak_resident_mb": round(peak)}))


def main(scenario: str = "", keep: bool = True) -> None:
    """All scenarios in turn; `keep` writes the result file."""
    if scenario:
        run(scenario)
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    report: dict[str, Any] = {
        "commit": commit.strip(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        "pyarrow": pa.__version__,
    }
    for name in SCENARIOS:
        command = [sys.executable, __file__, "--scenario", name]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        report[name] = json.loads(done.stdout)
        print(name, json.dumps(report[name], indent=1))
    if keep:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

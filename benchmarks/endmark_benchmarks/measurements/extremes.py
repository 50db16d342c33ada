"""The stream join alone where it could break: much state, a hot key, many closings, too little memory.

A scenario runs in a process of its own, so that its memory is its own.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import typer

from endmark.operators.stream_join.presets import Policy
from endmark.punctuation.pattern import Between
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads.join_alone import BATCH, Bench

RESULTS = Path(__file__).parents[2] / "results" / "extremes.json"
CLOSED = 10_000  # keys a batch


def live_rows(directory: Path) -> Iterator[dict[str, Any]]:
    """Time of a batch of 100,000 rows with a partner each, and of 10,000 closings, against rows in state."""
    for live in (100_000, 1_000_000, 10_000_000):
        bench = Bench(directory, window=(1, None))
        bench.fill(live)
        probes = [bench.batch(bench.random.integers(0, live, BATCH))[0] for _ in range(9)]
        closings = []
        for _ in range(9):
            seconds, join = bench.batch(closed=np.unique(bench.random.integers(0, live, CLOSED)))
            closings.append(seconds)
        held = join.right.rows
        yield {
            "live rows": live,
            "segments": len(held.segments),
            "ms a batch": 1e3 * median(probes[2:]),
            "us a closing": 1e6 * median(closings[2:]) / CLOSED,
            "durable bytes a row": held.size / held.rows,
        }


def an_interval(directory: Path) -> Iterator[dict[str, Any]]:
    """One punctuation closes an interval of keys, with a million live rows."""
    bench = Bench(directory)
    found = []
    for number in range(5):
        first = number * 1_000_000
        bench.fill(1_000_000, first)
        pattern = Between(first, first + 999_999)
        promise = Punctuation.of("left", {"key": pattern}, Origin(0, number))
        seconds, join = bench.batch(promises=[promise])
        found.append(seconds)
    yield {"rows closed": 1_000_000, "ms": 1e3 * median(found), "rows left": join.right.rows.rows}


def purging_at_once(directory: Path) -> Iterator[dict[str, Any]]:
    """Closings of 10,000 keys a batch among a million rows, purged at once or all 10 batches."""
    eager, lazy = Bench(directory), Bench(directory, Policy(purge_every=10 * CLOSED))
    seconds = {eager: 0.0, lazy: 0.0}
    for bench in seconds:
        bench.fill(1_000_000)
    order = eager.random.permutation(1_000_000)
    for first in range(0, 40 * CLOSED, CLOSED):
        for bench in seconds:
            seconds[bench] += bench.batch(closed=np.sort(order[first : first + CLOSED]))[0]
    yield {"eager s": seconds[eager], "lazy s": seconds[lazy], "eager / lazy": seconds[eager] / seconds[lazy]}


def closing_nothing(directory: Path) -> Iterator[dict[str, Any]]:
    """2 x 100,000 rows a batch, of even keys, in a window of 5 s, with and without 1,000 punctuations of odd
    keys a batch."""
    window = (5, 5)
    punctuated, plain = Bench(directory, window=window), Bench(directory, window=window)
    seconds = {punctuated: 0.0, plain: 0.0}
    odd = 2 * plain.random.permutation(1_000_000) + 1
    for number in range(45):
        closed = {punctuated: np.sort(odd[1000 * number :][:1000]), plain: None}
        for bench in (punctuated, plain) if number % 2 else (plain, punctuated):
            left, right = (2 * bench.random.integers(0, 1_000_000, BATCH) for _ in range(2))
            spent, _ = bench.batch(left, right, closed[bench])
            seconds[bench] += spent if number >= 5 else 0.0  # once the window is full
    yield {
        "rows/s with": 40 * 2 * BATCH / seconds[punctuated],
        "rows/s without": 40 * 2 * BATCH / seconds[plain],
        "with / without": seconds[plain] / seconds[punctuated],
    }


def a_million_closings(directory: Path) -> Iterator[dict[str, Any]]:
    """One batch closes a million keys of two million rows."""
    bench = Bench(directory)
    bench.fill(2_000_000)
    seconds, join = bench.batch(closed=np.arange(1_000_000))
    yield {
        "s": seconds,
        "us a closing": seconds * 1e6 / 1_000_000,
        "rows left": join.right.rows.rows,
        "announced": 0 if join.output.announced is None else join.output.announced.num_rows,
    }


def a_hot_key(directory: Path) -> Iterator[dict[str, Any]]:
    """Half of a million rows have one key, and a thousand rows arrive of which ten have it too."""
    bench = Bench(directory)
    for _ in range(10):
        cold = bench.random.integers(1, 1_000_000, BATCH // 2)
        bench.batch(right=np.concatenate([np.zeros(BATCH // 2, np.int64), cold]))
    before = bench.results
    probe = np.concatenate([np.zeros(10, np.int64), bench.random.integers(1, 1_000_000, 990)])
    seconds, _ = bench.batch(probe)
    results = bench.results - before
    yield {"results": results, "s": seconds, "results/s": results / seconds}


def more_than_memory(directory: Path) -> Iterator[dict[str, Any]]:
    """One segment of two million rows against 16 MB: it is spilled, and later rows meet it when they are over
    the budget."""
    small = Bench(directory, Policy(memory=16_000_000))
    _, join = small.batch(right=np.arange(2_000_000))
    spilled = sum(segment.memory for segment in join.spiller.spilled)
    batches, most = [], 0
    for _ in range(10):
        seconds, join = small.batch(small.random.integers(0, 2_000_000, BATCH))
        batches.append(seconds)
        most = max(most, sum(one.memory for one in join.left.rows.resident + join.right.rows.resident))
    results = small.results + sum(piece.num_rows for piece in join.drain())
    yield {
        "spilled MB": spilled / 1e6,
        "most resident MB": most / 1e6,
        "ms a batch": 1e3 * median(batches),
        "longest": 1e3 * max(batches),
        "results": results,
    }


SCENARIOS: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    scenario.__name__.replace("_", " "): scenario
    for scenario in (
        live_rows,
        an_interval,
        purging_at_once,
        closing_nothing,
        a_million_closings,
        a_hot_key,
        more_than_memory,
    )
}


def run(name: str) -> None:
    """One scenario in this process; prints its figures."""
    scenario = SCENARIOS[name]
    with tempfile.TemporaryDirectory() as directory:
        figures = list(scenario(Path(directory)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    says = " ".join((scenario.__doc__ or "").split())
    print(json.dumps({"says": says, "figures": figures, "peak_mb": round(peak)}))


def main(scenario: str = "", results: Path = RESULTS) -> None:
    """All scenarios in turn, or one of them without keeping what it found."""
    if scenario:
        run(scenario)
        return
    report = {"bench": "extremes", **origin(), "options": {}, "scenarios": {}}
    for name in SCENARIOS:
        command = [sys.executable, "-m", "endmark_benchmarks.measurements.extremes", "--scenario", name]
        found = json.loads(subprocess.check_output(command, text=True))
        report["scenarios"][name] = found
        print(name, json.dumps(found, indent=1))
    results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

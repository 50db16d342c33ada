"""Memory of a process that looks up, against its budget, as R grows; each size in a process of its own.

R lies in a local MariaDB. Rows wait in the budget; results are thrown away, as the next operator would.
"""

from __future__ import annotations

import json
import multiprocessing
import resource
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from endmark.embedded.mariadb import MariaDb
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.strategies import Name
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.measurements.lookup_map import BATCH_ROWS, PAGE_ROWS, Bench, Cell, Stream
from endmark_benchmarks.workloads import lookup_input

RESULTS = Path(__file__).parents[2] / "results" / "lookup_memory.json"
STRATEGIES: tuple[Name, ...] = ("auto", "hybrid", "scan")


def peak() -> int:
    """Megabytes of this process at most so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def look_up(url: str, rows: int, strategy: Name, memory: int, seconds: float) -> dict[str, Any]:
    """Look up a stream in one process and return its figures.

    Args:
        url: the database with R.
        rows: rows of R.
        strategy: the strategy.
        memory: MB of rows that may wait.
        seconds: the length of the measurement.
    """
    reader = lookup_input.relation(url, f"r_{rows}")
    directory = reader.directory(PAGE_ROWS)
    costs = measure(reader, directory)
    before = peak()
    with tempfile.TemporaryDirectory() as folder:
        join = Bench(reader, directory, costs, seconds).join(strategy, memory, Path(folder))
        started, answered = time.perf_counter(), 0
        for number, batch in enumerate(Stream(Cell(rows, 0.0, 0.0)).batches(BATCH_ROWS)):
            output = join.process(batch, number)
            answered += sum(each.num_rows for each in output.joined)
            if time.perf_counter() - started > seconds and output.figures.reads:
                break
    return {"rows": rows, "strategy": strategy, "memory": memory, "before_mb": before, "peak_mb": peak(),
            "answered_rows": answered, "waiting_mb": round(output.pending_bytes / 1e6)}  # fmt: skip


def main(
    rows: Annotated[list[int], typer.Option(default_factory=lambda: [500_000, 2_000_000, 8_000_000])],
    memory: Annotated[list[int], typer.Option(default_factory=lambda: [50])],
    seconds: float = 15.0,
    keep: bool = True,
) -> None:
    """Measure the memory of a lookup, and keep the figures.

    Args:
        rows: sizes of R in rows.
        memory: sizes of memory for waiting rows in MB.
        seconds: the length of each run.
        keep: write the figures to the file of results.
    """
    found = []
    with tempfile.TemporaryDirectory() as folder, MariaDb(Path(folder), memory="3G") as server:
        for size in rows:
            lookup_input.fill(server.url, size, f"r_{size}")
        for megabytes, strategy, size in product(memory, STRATEGIES, rows):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                found.append(pool.apply(look_up, (server.url, size, strategy, megabytes, seconds)))
            print(found[-1], flush=True)
    if keep:
        RESULTS.write_text(json.dumps({**origin(), "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

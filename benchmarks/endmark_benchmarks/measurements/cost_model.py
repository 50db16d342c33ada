"""The cost model against the join: seconds of a read with all that belongs to it, predicted and measured.

R lies in a local MariaDB. Each strategy runs with its memory full, one read after the other as in the papers
(reading ahead is off), and its seconds are shared out among its reads; unit costs are measured before and
after. Of several turns the middle one counts.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import typer

from endmark.embedded.mariadb import MariaDb
from endmark.operators.lookup import reader as lookup_reader
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.strategies import Name
from endmark.operators.lookup.workload import Setup
from endmark.planning.calibration import calibrate
from endmark.planning.lookup_model import predict
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.measurements.lookup_map import BATCH_ROWS, SINGLE_ROWS, Bench, Cell, Stream
from endmark_benchmarks.workloads import lookup_input
from endmark_benchmarks.workloads.lookup_input import SERVER_MEMORY

RESULTS = Path(__file__).parents[2] / "results" / "costs.json"
STRATEGIES: tuple[Name, ...] = ("hybrid", "mesh", "inlj")


@dataclass(frozen=True)
class Loop:
    """One strategy in one setting."""

    strategy: str
    relation_rows: int
    page_rows: int
    memory: int
    exponent: float
    predicted_seconds: float
    measured_seconds: float
    predicted_rows: float
    measured_rows: float

    @property
    def ratio(self) -> float:
        return self.predicted_seconds / self.measured_seconds


def one_after_the_other(reads: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """`read_ahead` without reading ahead."""
    return (read() for read in reads)


@dataclass(frozen=True)
class Table:
    """R in pages, and the bench that joins with it."""

    bench: Bench
    rows: int
    page_rows: int

    def loop(self, strategy: Name, memory: int, exponent: float) -> Loop:
        """Run a strategy between two measurements of the unit costs, since the machine changes by the minute.

        Args:
            strategy: the strategy.
            memory: the memory in MB.
            exponent: the exponent of the keys' Zipf distribution.
        """
        bench = self.bench
        before = calibrate(bench.reader, bench.directory, payload=110)
        stream = Stream(Cell(self.rows, exponent, 0.0))
        run, _ = bench.run(strategy, 0 if strategy == "inlj" else memory, stream, lambda _: None)
        after = calibrate(bench.reader, bench.directory, payload=110)
        four_pages = bench.reader.pages([bench.directory.range_of(0, 3)])
        row_bytes = int(four_pages.nbytes) / four_pages.num_rows
        setup = Setup(
            self.rows,
            self.page_rows,
            round(row_bytes),
            round(run.row_bytes),
            memory * 1_000_000,
            exponent,
            SINGLE_ROWS if strategy == "inlj" else BATCH_ROWS,
            scattered=True,
        )
        found = [
            next(each for each in predict(costs, setup) if each.strategy == strategy)
            for costs in (before, after)
        ]
        seconds = sum(each.read_seconds for each in found) / 2
        measured = run.rows_per_read / run.rate
        loop = Loop(
            strategy, self.rows, self.page_rows, memory, exponent, seconds, measured, found[0].rows_per_read,
            run.rows_per_read,
        )  # fmt: skip
        print(f"{loop} ratio {loop.ratio:.2f}", flush=True)
        print({name: f"{cost:.2e}" for name, cost in vars(after).items()}, flush=True)
        return loop


def loops(table: Table, memories: list[int], exponents: list[float], turns: int) -> list[Loop]:
    """Measure each strategy in each setting; return the median of its turns, by its ratio.

    Args:
        table: the relation.
        memories: sizes of memory in MB.
        exponents: exponents of the keys' Zipf distribution.
        turns: the number of turns.
    """
    cells = list(product(STRATEGIES, memories, exponents))
    found = [[table.loop(*cell) for cell in cells] for _ in range(turns)]
    return [sorted(each, key=lambda loop: loop.ratio)[turns // 2] for each in zip(*found, strict=True)]


def main(
    rows: Annotated[list[int], typer.Option(default_factory=lambda: [500_000, 2_000_000])],
    page_rows: Annotated[list[int], typer.Option(default_factory=lambda: [500, 2_000])],
    memory: Annotated[list[int], typer.Option(default_factory=lambda: [50])],
    exponent: Annotated[list[float], typer.Option(default_factory=lambda: [0.0, 1.0])],
    turns: int = 3,
    driver: str = "pymysql",
    keep: bool = True,
) -> None:
    """Measure the cost model against real reads, and keep the figures.

    Args:
        rows: sizes of R in rows.
        page_rows: sizes of a page in rows.
        memory: sizes of memory for waiting rows in MB.
        exponent: exponents of the keys' Zipf distribution.
        turns: how often each cell is measured; the median counts.
        driver: SQLAlchemy's name of the driver for MariaDB.
        keep: write the figures to the file of results.
    """
    found: list[Loop] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        MariaDb(Path(folder), memory=SERVER_MEMORY) as server,
        patch.object(lookup_reader, "read_ahead", one_after_the_other),
    ):
        for size in rows:
            lookup_input.fill(server.url, size, f"r_{size}")
            reader = lookup_input.relation(server.url.replace("pymysql", driver), f"r_{size}")
            for per_page in page_rows:
                directory = reader.directory(per_page)
                bench = Bench(reader, directory, measure(reader, directory), seconds=3.0)
                found += loops(Table(bench, size, per_page), memory, exponent, turns)
    if keep:
        report = {
            "bench": "costs",
            **origin(),
            "options": {"driver": driver, "turns": turns},
            "loops": [asdict(loop) for loop in found],
        }
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

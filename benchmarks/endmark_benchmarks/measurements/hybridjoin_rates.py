"""HYBRIDJOIN beside MESHJOIN and INLJ, as its paper compares them (UoA-SE-2010-2, section 6), on one core.

R lies in a local MariaDB, sorted by popularity as in the paper, or with the keys that are asked for often all
over it. All contenders that read pages read 64 of them at once and have the same memory. Rows wait until they
fill it. `meshjoin` is MESHJOIN by its rules; `mesh` is ours, which lets a row go once its page is read.

A contender first reads as many pages as R has. These do not count: they fill the memory and take a scan round
R once. Then contenders take turns. A reading takes some seconds, and ends when as many pages as R has are
read a whole number of times. Its rate is that of the rows that came. The memory is full all the time, so as
many rows leave. The answers would say less: a scan answers half of a round's rows on the few pages asked for
most, and a reading of one round passed them twice or not at all (a third reading of MESHJOIN on sorted R had
a quarter of the first one's answers). All answers are compared with DuckDB's.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby, product
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endmark.embedded.mariadb import MariaDb
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.workload import Setup
from endmark.planning.calibration import calibrate
from endmark.planning.lookup_model import predict
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark_benchmarks.contenders.meshjoin import MeshJoin
from endmark_benchmarks.harness.contest import DisagreementError, interleaved
from endmark_benchmarks.harness.lookup_answers import Answers, Digest, Expected
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.measurements.lookup_map import (
    BATCH_ROWS,
    PAGE_ROWS,
    PAYLOAD,
    SINGLE_ROWS,
    Bench,
    Cell,
    Stream,
)
from endmark_benchmarks.workloads import lookup_input

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from endmark.operators.lookup.costs import JoinCosts
    from endmark.operators.lookup.join import LookupJoin
    from endmark.operators.lookup.strategies import Name

RESULTS = Path(__file__).parents[2] / "results" / "hybridjoin_rates.json"
WAITING: tuple[Name, ...] = ("hybrid", "mesh", "best_page")
CONTENDERS = ("hybrid", "meshjoin", "mesh", "best_page", "inlj")
SORTED, SCATTERED = "sorted", "scattered"
PAPER_MEMORY, PAPER_ROWS = 50, 2_000_000
POINTS = (
    *((rows, PAPER_MEMORY) for rows in (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)),
    *((PAPER_ROWS, memory) for memory in (100, 150, 200, 250)),
)
"""Rows of R and MB of memory, as in the paper's figures 10c and 10d."""


@dataclass(frozen=True)
class Point:
    """A point of the figures: rows of R, MB of memory, the keys' exponent, and how R is laid out."""

    relation_rows: int
    memory: int
    exponent: float
    layout: str


@dataclass
class Run:
    """One contender at one point.

    Args:
        join: the contender.
        batches: what it is given.
        pages: the number of R's pages; 0 for a contender that reads keys.
    """

    join: LookupJoin
    batches: Iterator[pa.RecordBatch]
    pages: int
    digest: Digest = field(default_factory=Digest)
    came: int = 0
    read: int = 0
    rates: list[float] = field(default_factory=list)
    rows_per_read: list[float] = field(default_factory=list)

    def reading(self, seconds: float) -> None:
        """Run for some seconds, and until as many pages as R has are read a whole number of times."""
        spent, came, first, whole = 0.0, self.came, self.read, False
        while spent < seconds or not whole or self.read == first:
            batch, before = next(self.batches), self.read
            started = time.perf_counter()
            output = self.join.process(batch, 0)
            spent += time.perf_counter() - started
            self.digest.take(output.joined)
            self.came += batch.num_rows
            self.read += output.figures.reads
            whole = not self.pages or self.read // self.pages > before // self.pages
        self.rates.append((self.came - came) / spent)
        self.rows_per_read.append((self.came - came) / (self.read - first))


@dataclass(frozen=True)
class Relation:
    """R, cut into pages, with what reads of it and joins with it cost, and DuckDB's answers."""

    bench: Bench
    costs: JoinCosts
    answers: Answers
    waiting_bytes: float

    @classmethod
    def of(cls, url: str, rows: int) -> Relation:
        """Make R in a MariaDB and measure its costs.

        Args:
            url: the database.
            rows: rows of R.
        """
        lookup_input.fill(url, rows, f"r_{rows}")
        reader = lookup_input.relation(url, f"r_{rows}")
        directory = reader.directory(PAGE_ROWS)
        bench = Bench(reader, directory, measure(reader, directory), 0.0)
        with tempfile.TemporaryDirectory() as folder:
            some = next(Stream(Cell(rows, 0.0, 0.0)).batches(BATCH_ROWS))
            output = bench.join("hybrid", 1, Path(folder)).process(some, 0)
        costs = calibrate(reader, directory, PAYLOAD)
        answers = Answers(lookup_input.made(rows))
        return cls(bench, costs, answers, output.ordered_bytes / output.ordered_rows)

    def measured(self, point: Point, seconds: float, repeats: int) -> dict[str, Any]:
        """Measure all contenders at a point by turns.

        Args:
            point: the point.
            seconds: the least seconds of a reading.
            repeats: the number of readings of each contender.

        Raises:
            DisagreementError: a contender gave other answers than DuckDB.
        """
        stream = Stream(Cell(point.relation_rows, point.exponent, 0.0), scattered=point.layout == SCATTERED)
        expected = Expected(self.answers, stream.batches(BATCH_ROWS))
        with ExitStack() as folders:
            runs = {
                name: self._run(
                    name, point, stream, Path(folders.enter_context(tempfile.TemporaryDirectory()))
                )
                for name in CONTENDERS
            }
            for run in runs.values():
                run.reading(0.0)
                run.rates.clear()
                run.rows_per_read.clear()
            for _, name in interleaved(CONTENDERS, repeats):
                runs[name].reading(seconds)
            for name, run in runs.items():
                for rows in run.join.pending.waiting():
                    run.digest.take(self.answers.to(rows.select(["key", "id"])))
                if run.digest != expected.to_first(run.came):
                    raise DisagreementError(f"{name} gave other answers at {point} than DuckDB")
        predicted = self._predicted(point)
        return asdict(point) | {
            "contenders": {
                name: {
                    "rates": [round(rate, 1) for rate in run.rates],
                    "rows_per_read": [round(rows, 1) for rows in run.rows_per_read],
                    "predicted": predicted.get(name),
                }
                for name, run in runs.items()
            }
        }

    def _run(self, name: str, point: Point, stream: Stream, folder: Path) -> Run:
        """Make a contender."""
        pages = len(self.bench.directory)
        if name == "inlj":
            return Run(self.bench.join("inlj", 0, folder), stream.batches(SINGLE_ROWS), 0)
        batches = stream.batches(BATCH_ROWS)
        if name != "meshjoin":
            [strategy] = (each for each in WAITING if each == name)
            return Run(self.bench.join(strategy, point.memory, folder), batches, pages)
        # For the others memory is full between batches, and half of a batch waits beside it on average.
        rows = int(point.memory * 1_000_000 / self.waiting_bytes) + BATCH_ROWS // 2
        bench, store = self.bench, SegmentStore(MemoryBlobs(), folder)
        return Run(MeshJoin(bench.spec(point.memory), bench.source("mesh"), store, rows), batches, pages)

    def _predicted(self, point: Point) -> dict[str, float]:
        """Return the predicted rows a second by contender, of those that have equations.

        Half of the rows in MESHJOIN's memory are answered. So its reads are those of `mesh` with half as many
        rows that wait.
        """
        first_pages = self.bench.reader.pages([self.bench.directory.range_of(0, 3)])
        setup = Setup(
            relation_rows=point.relation_rows,
            page_rows=PAGE_ROWS,
            row_bytes=round(first_pages.nbytes / first_pages.num_rows),
            waiting_bytes=round(self.waiting_bytes),
            memory=point.memory * 1_000_000,
            exponent=point.exponent,
            batch_rows=BATCH_ROWS,
            scattered=point.layout == SCATTERED,
        )
        half = replace(setup, memory=setup.memory // 2 - BATCH_ROWS // 4 * setup.waiting_bytes)
        found = {each.strategy: each.rate for each in predict(self.costs, setup)}
        of_half = {each.strategy: each.rate for each in predict(self.costs, half)}
        single = predict(self.costs, replace(setup, batch_rows=SINGLE_ROWS))
        return {
            "hybrid": found["hybrid"],
            "mesh": found["mesh"],
            "meshjoin": of_half["mesh"],
            "inlj": next(each.rate for each in single if each.strategy == "inlj"),
        }


def points(rows: list[int], memories: list[int], exponents: list[float], layouts: list[str]) -> list[Point]:
    """Return the points to measure. Without skew both layouts are the same, so only one is measured.

    Args:
        rows: sizes of R in rows; with `memories`, without any of both the paper's.
        memories: sizes of memory in MB.
        exponents: exponents of the keys' Zipf distribution.
        layouts: the layouts of R, `sorted` and `scattered`.
    """
    sizes = product(rows or [PAPER_ROWS], memories or [PAPER_MEMORY]) if rows or memories else POINTS
    return [
        Point(*size, exponent, layout)
        for size in sizes
        for exponent in exponents
        for layout in (layouts if exponent else layouts[:1])
    ]


def merged(earlier: dict[str, Any], report: dict[str, Any]) -> dict[str, Any]:
    """Return a report with the cells of earlier parts, unless these are of another commit.

    A cell of this part replaces that of the same point. A tree differs from its commit by the results of
    earlier parts, so the `+` that says so does not count.

    Args:
        earlier: the report of earlier parts.
        report: the report of this part.
    """
    if earlier["commit"].rstrip("+") != report["commit"].rstrip("+"):
        return report
    names = tuple(Point.__dataclass_fields__)
    cells = [*earlier["cells"], *report["cells"]]
    by_point = {tuple(cell[name] for name in names): cell for cell in cells}
    return report | {"commit": earlier["commit"], "cells": [by_point[point] for point in sorted(by_point)]}


def main(
    rows: Annotated[list[int] | None, typer.Option(help="Of R; repeat for more. [the paper's]")] = None,
    memory: Annotated[list[int] | None, typer.Option(help="MB; repeat for more. [the paper's]")] = None,
    exponent: Annotated[
        list[float] | None, typer.Option(help="Skew of the keys; repeat for more. [0, 0.5 and 1]")
    ] = None,
    layout: Annotated[
        list[str] | None, typer.Option(help="sorted or scattered; repeat for more. [both]")
    ] = None,
    seconds: Annotated[float, typer.Option(help="The least of a reading.")] = 3.0,
    repeats: Annotated[int, typer.Option(min=1, help="Readings of each contender.")] = 3,
    results: Annotated[Path, typer.Option(help="The file of results; a part is added to it.")] = RESULTS,
) -> None:
    """Measure hybrid, MESHJOIN, mesh, best_page and inlj as HYBRIDJOIN's paper does, or a part of it."""
    chosen = points(rows or [], memory or [], exponent or [0.0, 0.5, 1.0], layout or [SORTED, SCATTERED])
    report = {
        "bench": "hybridjoin_rates",
        **origin(),
        "options": {"seconds": seconds, "repeats": repeats, "page_rows": PAGE_ROWS, "batch_rows": BATCH_ROWS},
        "cells": [],
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        MariaDb(Path(folder), memory=lookup_input.SERVER_MEMORY) as server,
    ):
        report["versions"]["mariadb"] = lookup_input.version(server.url)
        for size, of_size in groupby(
            sorted(chosen, key=attrgetter("relation_rows")), attrgetter("relation_rows")
        ):
            relation = Relation.of(server.url, size)
            for point in of_size:
                cell = relation.measured(point, seconds, repeats)
                report["cells"].append(cell)
                shown = {
                    name: [round(rate / 1000) for rate in each["rates"]]
                    for name, each in cell["contenders"].items()
                }
                print(time.strftime("%H:%M:%S"), point, shown, flush=True)
    kept = json.loads(results.read_text()) if results.exists() else report
    results.write_text(json.dumps(merged(kept, report), indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

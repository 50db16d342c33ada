"""`hybrid` by the size of its disk buffer, and the seconds of a lone read, for HYBRIDJOIN's figures.

R lies in a local MariaDB, with the keys that are asked for often all over it. The disk buffer is all that
`hybrid` reads at once, which is 64 pages. Rows wait in what the buffer leaves of the memory (UoA-SE-2010-2,
section 4.5). A lone read of a page or of a key has a round trip of its own. The sizes of pages take turns, so
that a busy minute of the machine hits all alike.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
import typer

from endmark.embedded.mariadb import MariaDb
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.reads import PAGES_AT_ONCE
from endmark_benchmarks.harness.contest import interleaved
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.measurements.lookup_map import Bench, Cell, Stream
from endmark_benchmarks.workloads import lookup_input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from endmark.relation.contract import PageDirectory
    from endmark.relation.sql import SqlRelation

RESULTS = Path(__file__).parents[2] / "results" / "disk_buffer.json"
PAGE_ROWS = (50, 100, 200, 500, 1_000, 2_000, 3_000, 4_000, 5_000)
_LONE_READS = 200


def lone_pages(reader: SqlRelation, directory: PageDirectory) -> float:
    """Return the median seconds of reading one page, of pages all over R."""
    numbers = np.random.default_rng(1).integers(len(directory), size=_LONE_READS).tolist()
    ranges = [[directory.range_of(number)] for number in numbers]
    return _median(reader.pages, ranges)


def lone_keys(reader: SqlRelation, relation_rows: int) -> float:
    """Return the median seconds of reading one key, of keys all over R."""
    keys = np.random.default_rng(1).integers(1, relation_rows + 1, size=_LONE_READS)
    return _median(reader.read_keys, [pa.record_batch({"k": [key]}) for key in keys.tolist()])


def _median(read: Callable[[Any], object], asked: Iterable[object]) -> float:
    seconds = []
    for each in asked:
        started = time.perf_counter()
        read(each)
        seconds.append(time.perf_counter() - started)
    return float(np.median(seconds))


def measured(reader: SqlRelation, rows: int, memory: int, seconds: float, repeats: int) -> dict[str, Any]:
    """Measure every size of the disk buffer that leaves some memory.

    Args:
        reader: R.
        rows: rows of R.
        memory: the memory in MB, for the buffer and the rows that wait.
        seconds: the least seconds of a reading.
        repeats: the number of readings.
    """
    benches, buffers = {}, dict[int, dict[str, Any]]()
    for page_rows in PAGE_ROWS:
        directory = reader.directory(page_rows)
        at_once = reader.pages([directory.range_of(0, PAGES_AT_ONCE - 1)])
        if at_once.nbytes < (memory - 1) * 1_000_000:
            benches[page_rows] = Bench(reader, directory, measure(reader, directory), seconds)
            buffers[page_rows] = {
                "page_rows": page_rows,
                "buffer_bytes": at_once.nbytes,
                "page_seconds": [],
                "rates": [],
                "rows_per_read": [],
            }
    keys, stream = [], Stream(Cell(rows, 1.0, 0.0))
    for _, page_rows in interleaved(list(benches), repeats):
        bench, found = benches[page_rows], buffers[page_rows]
        waits = memory - round(found["buffer_bytes"] / 1_000_000)
        run, _ = bench.run("hybrid", waits, stream, lambda _: None)
        keys.append(lone_keys(reader, rows))
        found["page_seconds"].append(lone_pages(reader, bench.directory))
        found["rates"].append(run.rate)
        found["rows_per_read"].append(run.rows_per_read)
        print(f"{page_rows} rows a page: {run.rate:,.0f} rows/s", flush=True)
    return {"key_seconds": keys, "buffers": list(buffers.values())}


def main(
    rows: Annotated[int, typer.Option(help="Rows of R.")] = 2_000_000,
    memory: Annotated[int, typer.Option(help="MB for the disk buffer and the rows that wait.")] = 50,
    seconds: Annotated[float, typer.Option(help="The least of a reading.")] = 2.0,
    repeats: Annotated[int, typer.Option(min=1, help="Readings of each size.")] = 3,
    results: Annotated[Path, typer.Option(help="The file of results.")] = RESULTS,
) -> None:
    """Measure `hybrid` by the size of its disk buffer, and lone reads of pages and keys."""
    with (
        tempfile.TemporaryDirectory() as folder,
        MariaDb(Path(folder), memory=lookup_input.SERVER_MEMORY) as server,
    ):
        lookup_input.fill(server.url, rows, "r")
        report = {
            **origin(),
            "options": {"relation_rows": rows, "memory": memory, "seconds": seconds, "repeats": repeats},
            **measured(lookup_input.relation(server.url), rows, memory, seconds, repeats),
        }
    results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

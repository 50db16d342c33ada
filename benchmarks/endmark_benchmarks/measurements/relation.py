"""The costs of reads of a relation, by each way of reading: the unit costs of the lookup's cost model.

R has rows of about 120 bytes, in a local MariaDB. Beside PyMySQL, most of whose rows are read as columns,
there are its own rows alone, and mysqlclient if it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import typer

from endmark.embedded.mariadb import MariaDb
from endmark.relation import connection
from endmark.relation.contract import PageDirectory
from endmark.relation.read_ahead import read_ahead
from endmark.relation.sql import SqlRelation
from endmark_benchmarks.harness.contest import DisagreementError
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads import lookup_input

RESULTS = Path(__file__).parents[2] / "results" / "relation.json"
PAGE_ROWS = 500
REPEATS = 5
ROWS = ", by its own rows"
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def rate(units: int, work: Callable[[], int]) -> float:
    """Units a second, the median of several runs; `work` says how many rows it read, and reads some."""
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        if work() == 0:
            raise DisagreementError("a read gave no rows")
        seconds.append(time.perf_counter() - started)
    return round(units / statistics.median(seconds))


def keys(values: Ints) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(values)})


def measure(reader: SqlRelation, rows: int) -> Iterator[tuple[str, float]]:
    """Yield each kind of read with the rows or keys that it reads a second."""
    random = np.random.default_rng(1)
    directory = reader.directory(PAGE_ROWS)
    yield "rows of R, into page bounds", rate(rows, lambda: len(reader.directory(PAGE_ROWS)))
    for at_once in (1, 64):
        yield f"rows of pages, {at_once} at once", pages(reader, directory, random, at_once)
    for count in (1, 100, 10_000):
        drawn = random.choice(rows, (count if count > 1 else 500), replace=False) + 1
        lists = [keys(drawn[at : at + count]) for at in range(0, len(drawn), count)]
        yield (
            f"keys, {count:,} at once",
            rate(len(drawn), lambda lists=lists: sum(reader.read_keys(each).num_rows for each in lists)),  # type: ignore[misc]
        )
    started = time.perf_counter()
    blocks = [directory.range_of(at, at + 63) for at in range(0, len(directory), 64)]
    if (read := sum(reader.pages([block]).num_rows for block in blocks)) != rows:
        raise DisagreementError(f"a scan gave {read} rows of {rows}")
    yield "rows of a scan", round(rows / (time.perf_counter() - started))


def pages(reader: SqlRelation, directory: PageDirectory, random: np.random.Generator, at_once: int) -> float:
    """Return the rows a second of reading pages.

    Args:
        reader: reads R.
        directory: its pages.
        random: the source of randomness.
        at_once: pages that are read at once.
    """
    wanted = np.sort(random.choice(np.arange(1, len(directory) - 1), 128, replace=False))
    groups = [[directory.range_of(int(page)) for page in group] for group in wanted.reshape(-1, at_once)]
    return rate(
        len(wanted) * PAGE_ROWS,
        lambda: sum(block.num_rows for block in read_ahead(lambda g=g: reader.pages(g) for g in groups)),  # type: ignore[misc]
    )


def main(rows: int = 2_000_000, keep: bool = True) -> None:
    """Measure and, unless told otherwise, keep the figures."""
    drivers = ["pymysql", f"pymysql{ROWS}"] + (["mysqldb"] if importlib.util.find_spec("MySQLdb") else [])
    options = {"rows": rows, "rows_per_page": PAGE_ROWS}
    report: dict[str, Any] = {"bench": "relation", **origin(), "options": options, "drivers": {}}
    with tempfile.TemporaryDirectory() as folder, MariaDb(Path(folder)) as server:
        lookup_input.fill(server.url, rows)
        for name in drivers:
            reader = lookup_input.relation(server.url.replace("pymysql", name.removesuffix(ROWS)))
            reader.check()
            with patch.object(connection, "fetch_rows", connection.fetch) if ROWS in name else nullcontext():
                report["drivers"][name] = dict(measure(reader, rows))
            typer.echo(json.dumps({name: report["drivers"][name]}, indent=2))
    if keep:
        RESULTS.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)

"""What reads of a relation cost, by each way of reading: the unit costs of the lookup join's cost model.

R has rows of about 120 bytes, in a local MariaDB. mysqlclient is measured beside PyMySQL if it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import typer

from endmark.parts.mariadb import MariaDb
from endmark.relation.contract import PageDirectory
from endmark.relation.read_ahead import read_ahead
from endmark.relation.sql import SqlRelation
from support.relations import Database

RESULTS = Path(__file__).parent / "results" / "relation.json"
PAGE_ROWS = 500
REPEATS = 5
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def fill(database: Database, rows: int) -> None:
    columns = (
        "k BIGINT PRIMARY KEY, name VARCHAR(40) NOT NULL, price DOUBLE NOT NULL, pad VARCHAR(80) NOT NULL"
    )
    database.run(
        f"CREATE TABLE master ({columns})",
        "INSERT INTO master SELECT seq, concat('name ', seq), seq * 0.5, repeat('x', 70) "  # noqa: S608
        f"FROM seq_1_to_{rows}",
        "ANALYZE TABLE master",
    )


def rate(units: int, work: Callable[[], int]) -> float:
    """Units a second, the median of several runs; `work` says how many rows it read, and reads some."""
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        assert work() > 0
        seconds.append(time.perf_counter() - started)
    return round(units / statistics.median(seconds))


def keys(values: Ints) -> pa.RecordBatch:
    return pa.record_batch({"k": pa.array(values)})


def measure(reader: SqlRelation, rows: int) -> Iterator[tuple[str, float]]:
    random = np.random.default_rng(1)
    started = time.perf_counter()
    directory = reader.directory(PAGE_ROWS)
    yield "directory_rows_per_second", round(rows / (time.perf_counter() - started))
    for at_once in (1, 64):
        yield f"page_rows_per_second_of_{at_once}_at_once", pages(reader, directory, random, at_once)
    for count in (1, 100, 10_000):
        drawn = random.choice(rows, (count if count > 1 else 500), replace=False) + 1
        lists = [keys(drawn[at : at + count]) for at in range(0, len(drawn), count)]
        yield (
            f"keys_per_second_of_{count}_at_once",
            rate(len(drawn), lambda lists=lists: sum(reader.read_keys(each).num_rows for each in lists)),  # type: ignore[misc]
        )
    started = time.perf_counter()
    blocks = [directory.range_of(at, at + 63) for at in range(0, len(directory), 64)]
    assert sum(reader.pages([block]).num_rows for block in blocks) == rows
    yield "scan_rows_per_second", round(rows / (time.perf_counter() - started))


def pages(reader: SqlRelation, directory: PageDirectory, random: np.random.Generator, at_once: int) -> float:
    wanted = np.sort(random.choice(np.arange(1, len(directory) - 1), 128, replace=False))
    groups = [[directory.range_of(int(page)) for page in group] for group in wanted.reshape(-1, at_once)]
    return rate(
        len(wanted) * PAGE_ROWS,
        lambda: sum(block.num_rows for block in read_ahead(lambda g=g: reader.pages(g) for g in groups)),  # type: ignore[misc]
    )


def main(rows: int = 2_000_000, keep: bool = True) -> None:
    """Measure and, unless told otherwise, keep the figures."""
    drivers = ["pymysql"] + (["mysqldb"] if importlib.util.find_spec("MySQLdb") else [])
    report: dict[str, Any] = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()},
        "rows": rows,
        "page_rows": PAGE_ROWS,
        "drivers": {},
    }
    with tempfile.TemporaryDirectory() as folder, MariaDb(Path(folder)) as server:
        fill(Database(server.url), rows)
        for driver in drivers:
            database = Database(server.url.replace("pymysql", driver))
            reader = database.reader("master", "k", k="long", name="string", price="double", pad="string")
            reader.check()
            report["drivers"][driver] = dict(measure(reader, rows))
            typer.echo(json.dumps({driver: report["drivers"][driver]}, indent=2))
    if keep:
        RESULTS.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    typer.run(main)

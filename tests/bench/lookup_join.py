"""Ways to look a stream up in a relation, against each other: same stream, same answers, one core.

R lies in a local MariaDB. A contender answers every batch as it comes, or, with a memory behind its name,
lets rows wait until they fill that memory, so that a page answers more of them (HYBRIDJOIN's regime). It is
warmed up and then measured for some seconds; all it gave is compared with DuckDB's join of the same rows.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count, islice, product
from pathlib import Path
from typing import Annotated, Any

import duckdb
import numpy as np
import pyarrow as pa
import sqlalchemy as sa
import typer

from endmark.joins.lookup.costs import ReadCosts, measure
from endmark.joins.lookup.operator import LookupJoin, LookupSpec, Misses, Source
from endmark.joins.lookup.resolve import Budget
from endmark.joins.lookup.strategies import Name
from endmark.parts.mariadb import MariaDb
from endmark.relation.contract import PageDirectory
from endmark.relation.sql import SqlRelation
from endmark.state.keys import KeySpec
from endmark.state.store import SegmentStore
from endmark_feed.zipf import zipf_keys
from support.memory_store import MemoryBlobs
from support.relations import Database

RESULTS = Path(__file__).parent / "results" / "lookup_join.json"
PAGE_ROWS = 500
BATCH_ROWS = 100_000
# INLJ answers a row a round trip, and carries nothing over, so that small batches do it no harm.
SINGLE_ROWS = 1_000
AT_ONCE: tuple[Name, ...] = ("auto", "batched", "hybrid", "mesh", "scan", "inlj")
WAITING: tuple[Name, ...] = ("auto", "hybrid", "best_page", "mesh")
_SPEC_KEY = KeySpec.of(["key"], [pa.int64()])
_STREAM = pa.schema([("key", pa.int64()), ("id", pa.int64())])


_JOIN = "SELECT key, id, name, price, pad FROM stream JOIN r ON key = k"


@dataclass(frozen=True)
class Cell:
    """What the contenders meet: rows of R, skew of the stream, milliseconds added to each statement."""

    relation_rows: int
    exponent: float
    delay: float


@dataclass(frozen=True)
class Run:
    """One contender in one cell; `waits` are MB that rows may wait in, 0 where a batch answers all."""

    strategy: str
    waits: int
    rate: float
    rows_per_read: float
    reads: int


class Remote:
    """Makes every statement of this process slower by a round trip to a database far away."""

    def __init__(self) -> None:
        self.seconds = 0.0
        sa.event.listen(sa.Engine, "before_cursor_execute", lambda *_: time.sleep(self.seconds))


class Stream:
    """Batches of keys without end, the same ones for every contender."""

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Of so many rows each, which do not change what the rows are."""
        for batch in self._whole():
            for at in range(0, BATCH_ROWS, rows):
                yield batch.slice(at, rows)

    def _whole(self) -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(7)
        hot = np.random.default_rng(1).permutation(self._cell.relation_rows) + 1
        for first in count(0, BATCH_ROWS):
            ranks = zipf_keys(random, BATCH_ROWS, self._cell.exponent, self._cell.relation_rows)
            ids = np.arange(first, first + BATCH_ROWS)
            yield pa.record_batch([pa.array(hot[ranks - 1]), pa.array(ids)], schema=_STREAM)


def fill(database: Database, rows: int) -> SqlRelation:
    """R with rows of about 120 bytes."""
    texts = "name VARCHAR(40) NOT NULL, pad VARCHAR(80) NOT NULL"
    columns = f"k BIGINT PRIMARY KEY, price DOUBLE NOT NULL, {texts}"
    database.run(
        f"CREATE TABLE r_{rows} ({columns})",
        f"INSERT INTO r_{rows} SELECT seq, seq * 0.5, concat('name ', seq), repeat('x', 70) "  # noqa: S608
        f"FROM seq_1_to_{rows}",
        f"ANALYZE TABLE r_{rows}",
    )
    return database.reader(f"r_{rows}", "k", k="long", name="string", price="double", pad="string")


def whole(reader: SqlRelation, directory: PageDirectory) -> pa.Table:
    """All of R."""
    firsts = range(0, len(directory), 64)
    return pa.Table.from_batches([reader.pages([directory.range_of(at, at + 63)]) for at in firsts])


@dataclass
class Bench:
    """The relation, its pages, and what reads of it cost."""

    reader: SqlRelation
    directory: PageDirectory
    costs: ReadCosts
    seconds: float

    def run(self, strategy: Name, waits: int, stream: Stream) -> tuple[Run, pa.Table]:
        """The contender's figures, and what it gave in all."""
        with tempfile.TemporaryDirectory() as folder:
            capacity = waits * 1_000_000 if waits else None
            spec = LookupSpec(
                _STREAM, _SPEC_KEY, {"name": "name", "price": "price", "pad": "pad"}, Misses("dead_letter"),
                Budget(0) if waits else Budget(), capacity,
            )  # fmt: skip
            source = Source(self.reader, self.directory, strategy, ReadCosts(**vars(self.costs)))
            join = LookupJoin(spec, source, SegmentStore(MemoryBlobs(), Path(folder)))
            given: list[pa.RecordBatch] = []
            reads = answered = 0
            spent, warm = 0.0, False
            for number, rows in enumerate(stream.batches(SINGLE_ROWS if strategy == "inlj" else BATCH_ROWS)):
                started = time.perf_counter()
                output = join.process(rows, number)
                seconds = time.perf_counter() - started
                given += output.joined
                if warm:
                    spent += seconds
                    reads += output.figures.reads
                    answered += sum(batch.num_rows for batch in output.joined)
                warm = warm or not waits or output.figures.reads > 0
                if spent > self.seconds:
                    break
            given += join.process(None, number + 1, drain=True).joined
        run = Run(strategy, waits, answered / spent, answered / max(1, reads), reads)
        return run, pa.Table.from_batches(given)


def in_memory(relation: pa.Table, stream: Stream, seconds: float) -> tuple[Run, pa.Table]:
    """All of R in DuckDB, which has a hash table of its key for as long as it answers."""
    connection = duckdb.connect()
    connection.execute("SET threads TO 1")
    connection.register("relation", relation)
    connection.execute("CREATE TABLE r AS FROM relation")
    connection.execute("CREATE UNIQUE INDEX by_key ON r (k)")
    given, spent = [], 0.0
    for rows in stream.batches(BATCH_ROWS):
        started = time.perf_counter()
        connection.register("stream", rows)
        given.append(connection.execute(_JOIN).to_arrow_table())
        spent += time.perf_counter() - started
        if spent > seconds:
            break
    table = pa.concat_tables(given)
    return Run("memory", 0, table.num_rows / spent, 0.0, 0), table


def digest(given: pa.Table) -> tuple[int, int]:
    """Rows and a sum over them that no order changes."""
    connection = duckdb.connect()
    connection.register("given", given)
    sums = "SELECT count(*), sum(hash(key, id, name, price, pad)::HUGEINT) FROM given"
    [(rows, hashes)] = connection.execute(sums).fetchall()
    return rows, hashes


def expected(relation: pa.Table, stream: Stream, count: int) -> tuple[int, int]:
    """Of the stream's first rows; each has one partner in R."""
    some = islice(stream.batches(BATCH_ROWS), -(-count // BATCH_ROWS))
    connection = duckdb.connect()
    connection.register("r", relation)
    connection.register("stream", pa.Table.from_batches(list(some)).slice(0, count))
    return digest(connection.execute(_JOIN).to_arrow_table())


def cells(sizes: list[int], exponents: list[float], delays: list[float]) -> Iterator[Cell]:
    for size, delay, exponent in product(sizes, delays, exponents):
        yield Cell(size, exponent, delay)


def contenders(memories: list[int]) -> list[tuple[Name, int]]:
    return [(name, 0) for name in AT_ONCE] + [(name, memory) for memory in memories for name in WAITING]


def main(
    rows: Annotated[list[int], typer.Option(default_factory=lambda: [500_000, 2_000_000, 8_000_000])],
    exponent: Annotated[list[float], typer.Option(default_factory=lambda: [0.0, 0.5, 1.0, 1.25])],
    delay: Annotated[list[float], typer.Option(default_factory=lambda: [0.0, 2.0])],
    memory: Annotated[list[int], typer.Option(default_factory=lambda: [50, 250])],
    driver: str = "pymysql",
    seconds: float = 2.0,
    keep: bool = True,
) -> None:
    """Measure, and unless told otherwise keep the figures."""
    remote = Remote()
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder, MariaDb(Path(folder)) as server:
        database = Database(server.url.replace("pymysql", driver))
        for size in rows:
            reader = fill(database, size)
            directory = reader.directory(PAGE_ROWS)
            relation = whole(reader, directory)
            for cell in cells([size], exponent, delay):
                found += cell_figures(cell, reader, directory, relation, remote, memory, seconds)
    if keep:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
        machine = {"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()}
        report = {"commit": commit.stdout.strip(), "machine": machine, "driver": driver, "runs": found}
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")


def cell_figures(
    cell: Cell,
    reader: SqlRelation,
    directory: PageDirectory,
    relation: pa.Table,
    remote: Remote,
    memories: list[int],
    seconds: float,
) -> list[dict[str, Any]]:
    """Every contender in one cell, each compared with DuckDB."""
    remote.seconds = cell.delay / 1000
    bench = Bench(reader, directory, measure(reader, directory), seconds)
    stream = Stream(cell)
    runs = [in_memory(relation, stream, seconds)]
    runs += [bench.run(name, waits, stream) for name, waits in contenders(memories)]
    figures = []
    for run, table in runs:
        assert digest(table) == expected(relation, stream, table.num_rows), f"{run} in {cell}"
        figures.append({**asdict(cell), **asdict(run)})
    shown = " ".join(f"{run.strategy}{run.waits or ''}={run.rate / 1000:.0f}k" for run, _ in runs)
    print(f"{cell.relation_rows:,} rows, exponent {cell.exponent}, +{cell.delay} ms: {shown}", flush=True)
    return figures


if __name__ == "__main__":
    typer.run(main)

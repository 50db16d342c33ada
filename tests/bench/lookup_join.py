"""Strategies of the lookup join against each other: one stream, one relation in SQLite, same answers.

python tests/bench/lookup_join.py [--relation 100000] [--rows 20000] [--batch 5000] [--budget READS]
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from endmark.joins.lookup.costs import measure
from endmark.joins.lookup.operator import LookupJoin, LookupSpec, Misses, Source
from endmark.joins.lookup.resolve import Budget
from endmark.joins.lookup.strategies import Name
from endmark.pipeline import Relation
from endmark.relation.sql import SqlRelation
from endmark.state.keys import KeySpec
from endmark.state.store import SegmentStore
from endmark_feed.zipf import zipf_keys
from support.memory_store import MemoryBlobs

STRATEGIES: tuple[Name, ...] = ("hybrid", "best_page", "mesh", "inlj", "batched", "scan", "auto")
REPEATS = 3
PAGE_ROWS = 500


class Result(NamedTuple):
    """One run: seconds, rows answered, a sum over the answers, reads and rows of R read."""

    seconds: float
    joined: int
    checksum: int
    reads: int
    read_rows: int


def fill(file: Path, rows: int) -> SqlRelation:
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE r (id INTEGER PRIMARY KEY, name TEXT, price INTEGER)")
        values = ((key, f"name of {key}" + "." * 80, 7 * key) for key in range(1, rows + 1))
        connection.executemany("INSERT INTO r VALUES (?, ?, ?)", values)
    columns = {"id": "long", "name": "string", "price": "long"}
    spec = {"url": f"sqlite:///{file}", "table": "r", "key": "id", "columns": columns}
    return SqlRelation(Relation.model_validate(spec))


def run(source: Source, batches: list[pa.RecordBatch], budget: Budget, directory: Path) -> Result:
    """Answer the whole stream; what waits at its end is drained."""
    spec = LookupSpec(
        batches[0].schema, KeySpec.of(["key"], [pa.int64()]), {"name": "name", "price": "price"},
        Misses("dead_letter"), budget,
    )  # fmt: skip
    join = LookupJoin(spec, source, SegmentStore(MemoryBlobs(), directory))
    joined = checksum = reads = read_rows = 0
    started = time.perf_counter()
    for number, rows in enumerate([*batches, None]):
        output = join.process(rows, number, drain=rows is None)
        joined += sum(batch.num_rows for batch in output.joined)
        checksum += sum(int(batch.column("price").to_numpy().sum()) for batch in output.joined)
        reads += output.figures.reads
        read_rows += output.figures.rows
    return Result(time.perf_counter() - started, joined, checksum, reads, read_rows)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--relation", type=int, default=100_000)
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--batch", type=int, default=5_000)
    options.add_argument("--budget", type=int)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        relation = fill(directory / "r.db", chosen.relation)
        pages = relation.directory(PAGE_ROWS)
        costs = measure(relation, pages)
        print(", ".join(f"{name} {seconds:.2e} s" for name, seconds in vars(costs).items()))
        for exponent in (0.0, 1.0):
            keys = zipf_keys(np.random.default_rng(7), chosen.rows, exponent, chosen.relation)
            batches = [
                pa.record_batch({"key": pa.array(keys[at : at + chosen.batch])})
                for at in range(0, chosen.rows, chosen.batch)
            ]
            runs: dict[str, list[Result]] = {strategy: [] for strategy in STRATEGIES}
            for _ in range(REPEATS):  # interleaved, since machines drift
                for strategy in STRATEGIES:
                    source = Source(relation, pages, strategy, replace(costs))
                    runs[strategy].append(run(source, batches, Budget(chosen.budget), directory))
            assert len({(each.joined, each.checksum) for some in runs.values() for each in some}) == 1
            report(exponent, chosen.rows, runs)


def report(exponent: float, rows: int, runs: dict[str, list[Result]]) -> None:
    print(f"\nexponent {exponent:g}\nstrategy     rows/s  reads  rows/read  rows of R read")
    for strategy, results in runs.items():
        rate = rows / statistics.median(each.seconds for each in results)
        last = results[-1]
        print(f"{strategy:10} {rate:8,.0f} {last.reads:6,} {rows / last.reads:10.1f} {last.read_rows:15,}")


if __name__ == "__main__":
    main()

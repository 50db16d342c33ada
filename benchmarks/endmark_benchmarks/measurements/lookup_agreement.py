"""Every strategy on the same million stream rows, a tenth of which R has not, against DuckDB's answers.

R has two million rows in a local MariaDB. Rows wait in 50 MB, but those of `batched`, `scan` and `inlj`.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import typer

from endmark.embedded.mariadb import MariaDb
from endmark.operators.lookup.read_timing import measure
from endmark.operators.lookup.strategies import STRATEGIES, Name
from endmark_benchmarks.harness.contest import DisagreementError
from endmark_benchmarks.harness.lookup_answers import Digest
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.measurements.lookup_map import BATCH_ROWS, PAGE_ROWS, Bench, Cell, Stream
from endmark_benchmarks.workloads import lookup_input

RESULTS = Path(__file__).parents[2] / "results" / "lookup_agreement.json"
AT_ONCE: tuple[Name, ...] = ("batched", "scan", "inlj")
_ANSWERS = "SELECT key, id, name, price, pad FROM stream LEFT JOIN r ON key = k"


def stream(rows: int, relation_rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of skewed keys, every tenth of them beyond R's."""
    for batch in islice(Stream(Cell(relation_rows, 1.0, 0.0)).batches(BATCH_ROWS), rows // BATCH_ROWS):
        ids = batch.column("id").to_numpy()
        keys = np.where(ids % 10 == 0, relation_rows + 1, 0) + batch.column("key").to_numpy()
        yield batch.set_column(0, "key", pa.array(keys))


def answers(bench: Bench, strategy: Name, given: Iterator[pa.RecordBatch]) -> Digest:
    """Digest the answers of a strategy: joined rows, and those without a match beside nulls.

    Args:
        bench: the relation.
        strategy: the strategy.
        given: batches of the stream.
    """
    found = Digest()
    with tempfile.TemporaryDirectory() as folder:
        join = bench.join(strategy, 0 if strategy in AT_ONCE else 50, Path(folder))
        for number, batch in enumerate([*given, None]):
            output = join.process(batch, number, drain=batch is None)
            found.take(output.joined)
            found.take([_beside_nulls(rows) for rows in output.missed])
    return found


def _beside_nulls(rows: pa.RecordBatch) -> pa.RecordBatch:
    for name, kind in (("name", pa.string()), ("price", pa.float64()), ("pad", pa.string())):
        rows = rows.append_column(name, pa.nulls(rows.num_rows, kind))
    return rows


def main(rows: int = 1_000_000, relation_rows: int = 2_000_000, keep: bool = True) -> None:
    """Compare all strategies with DuckDB.

    Args:
        rows: rows of the stream.
        relation_rows: rows of R.
        keep: write the result file.
    """
    with duckdb.connect() as connection:
        connection.register("r", lookup_input.made(relation_rows))
        connection.register("stream", pa.Table.from_batches(list(stream(rows, relation_rows))))
        expected = Digest()
        expected.take(connection.execute(_ANSWERS).to_arrow_table().to_batches())
    found = []
    with tempfile.TemporaryDirectory() as folder, MariaDb(Path(folder), memory="3G") as server:
        lookup_input.fill(server.url, relation_rows, "r")
        reader = lookup_input.relation(server.url, "r")
        directory = reader.directory(PAGE_ROWS)
        bench = Bench(reader, directory, measure(reader, directory), 0.0)
        for strategy in STRATEGIES:
            started = time.perf_counter()
            counted = answers(bench, strategy, stream(rows, relation_rows))
            if counted != expected:
                raise DisagreementError(f"{strategy}: {counted} instead of {expected}")
            seconds = round(time.perf_counter() - started, 1)
            found.append({"strategy": strategy, "answers": counted.rows, "equal": True, "seconds": seconds})
            print(found[-1], flush=True)
    if keep:
        sizes = {"stream_rows": rows, "relation_rows": relation_rows}
        RESULTS.write_text(json.dumps({**origin(), **sizes, "runs": found}, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

"""DuckDB's answer to a Nexmark query over all of a recording, in a process of its own; task and figures as of
`run`: how fast it can be here, once its rows are in memory."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from endmark_benchmarks.contenders.query import CORES
from endmark_benchmarks.workloads.lookup_input import in_memory
from endmark_benchmarks.workloads.nexmark.queries import QUERIES
from endmark_benchmarks.workloads.nexmark.record import OVER, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

MICROS = "epoch_us"


def loaded(recording: Recording, streams: Sequence[str]) -> duckdb.DuckDBPyConnection:
    """DuckDB with the rows of these streams as tables."""
    connection = in_memory()
    connection.execute(f"SET threads = {CORES}")
    for name in streams:
        rows = f"SELECT * EXCLUDE ({OVER}) FROM read_parquet(?) WHERE {OVER} IS NULL"  # noqa: S608  # our names
        connection.execute(f"CREATE TABLE {name} AS {rows}", [str(recording.stream(name) / "*.parquet")])
    connection.execute("CREATE TABLE side_input AS FROM read_parquet(?)", [str(recording.side_rows)])
    return connection


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    recording = Recording.of(task["recording"])
    asked = QUERIES[task["query"]]
    figures = ", ".join(asked.figures(MICROS))
    counted = f"({asked.standard(MICROS)}) WHERE {asked.counted(recording)}"
    with loaded(recording, asked.streams) as connection:
        started = time.monotonic()
        [given] = connection.execute(f"SELECT {figures} FROM {counted}").fetchall()  # noqa: S608
        seconds = time.monotonic() - started
    rate = recording.batches * recording.rows(asked.streams) / seconds
    print(json.dumps({"given": given, "rate": rate}))


if __name__ == "__main__":
    main()

"""The auction pipeline as one query of DuckDB over the recorded texts, in a process of its own.

No records come and nothing is kept, and R is in memory: how fast these texts can be parsed and joined here.
The module reads a task as JSON from standard input, and prints its rate and the digest of its results as a
line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark_benchmarks.contenders.query import CORES
from endmark_benchmarks.workloads.auction import figures_of, sellers
from endmark_benchmarks.workloads.lookup_input import in_memory
from endmark_benchmarks.workloads.measured import Measured

if TYPE_CHECKING:
    from endmark.pipeline import Pipeline

DUCKDB = "duckdb"
_TYPES = {"long": "BIGINT", "double": "DOUBLE", "string": "VARCHAR", "timestamp": "TIMESTAMP"}
_NEAR = "bids_bid_at BETWEEN items_listed_at - INTERVAL 10 SECOND AND items_listed_at + INTERVAL 60 SECOND"
_SELLERS = """
CREATE TABLE sellers AS SELECT seller_id AS sellers_seller_id, name AS sellers_name,
country AS sellers_country, rating AS sellers_rating FROM read"""


def _stream(pipeline: Pipeline, name: str, directory: Path) -> str:
    """Return a query of a stream's rows. Its columns have the names of those of the results."""
    stream = pipeline.streams[name]
    kinds = ", ".join(f"{column}: '{_TYPES[str(kind)]}'" for column, kind in stream.columns.items())
    columns = ", ".join(f"{column} AS {name}_{column}" for column in stream.columns)
    texts = f"read_ndjson('{directory / stream.topic}.json', columns = {{{kinds}}})"
    # Punctuations have no columns.
    return f"(SELECT {columns} FROM {texts} WHERE item_id IS NOT NULL)"  # noqa: S608  # of a pipeline file


def main() -> None:
    task: dict[str, Any] = json.load(sys.stdin)
    url = task["servers"]["relation_url"]
    pipeline = Measured.of(task["measured"]).load(url)
    items, bids = (_stream(pipeline, name, Path(task["texts"])) for name in ("items", "bids"))
    joined = (
        f"{bids} JOIN sellers ON bids_seller_id = sellers_seller_id "
        f"JOIN {items} ON items_item_id = bids_item_id AND {_NEAR}"
    )
    sums = ", ".join(figures_of(lambda column: f"epoch_us({column})"))
    with in_memory() as connection:
        connection.execute(f"SET threads = {CORES}")
        connection.register("read", pa.Table.from_pylist(sellers(url)))
        connection.execute(_SELLERS)
        started = time.monotonic()
        [given] = connection.execute(f"SELECT {sums} FROM {joined}").fetchall()  # noqa: S608  # of constants
        seconds = time.monotonic() - started
    print(json.dumps({"given": [given], "rate": task["records"] / seconds}))


if __name__ == "__main__":
    main()

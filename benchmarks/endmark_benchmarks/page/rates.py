"""The contenders of a cell, as a table and as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from endmark_benchmarks.harness.contest import Rates
from endmark_benchmarks.page.chart import bars
from endmark_papers.experiments.report import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

PLAIN = {
    "spark-rocksdb": "Spark, state in RocksDB",
    "spark-heap": "Spark, state on the heap",
    "flink-heap": "Flink, state on the heap",
    "flink-rocksdb": "Flink, state in RocksDB",
    "flink-counting": "Flink, state on the heap, only counting",
    "flink-files": "Flink, state on the heap, writing Parquet files",
    "flink-counting-rocksdb": "Flink, state in RocksDB, only counting",
    "pathway": "Pathway, two threads",
    "flink-lookup": "Flink without a cache",
    "flink-lookup-cached": "Flink with a cache",
    "spark-full-read": "Spark reading all of R",
    "spark-in-list": "Spark's lists of keys",
    "memory": "all of R in memory",
    "spark": "Spark's own operators",
    "spark-bounded": "Spark's own operators, state bounded by hand",
    "duckdb": "DuckDB, all at once",
}
"""The contenders of the summary and of the targets, in plain words."""


def rate_table(cell: dict[str, Any], unit: str) -> Table:
    """Return a table of rates, and how many times as fast the first contender was as each.

    The first contender is endmark as a job uses it. The least and the most rate have columns only if some
    contender ran more than once.

    Args:
        cell: the cell of a report.
        unit: the unit of the rates, such as "rows/s".
    """
    contenders = cell["contenders"]
    spread = ("least", "most") if any(len(each["runs"]) > 1 for each in contenders.values()) else ()
    first = next(iter(contenders))
    headings = ("contender", unit, *spread, f"{first} / this")
    rows = [
        [
            name,
            *(f"{each[figure]:,.0f}" for figure in ("median", *spread)),
            ratio_text(contenders[first]["median"] / each["median"]),
        ]
        for name, each in contenders.items()
    ]
    return Table(cell["title"], headings, rows)


def ratio_text(ratio: float) -> str:
    """Return the ratio with two decimals, or with two digits if it is less than a tenth."""
    return f"{ratio:,.2f}" if ratio >= 0.1 else f"{ratio:.2g}"


def span(values: Collection[float], text: Callable[[float], str]) -> str:
    """Return the texts of the least and the most value, or one text if both are the same."""
    least, most = text(min(values)), text(max(values))
    return least if least == most else f"{least} to {most}"


def rate_bars(cell: dict[str, Any], counted: str) -> str:
    """Draw an SVG with a bar for each contender.

    Args:
        cell: the cell of a report.
        counted: what a rate counts, such as "rows".
    """
    return bars(
        f"{cell['title']}: {counted} a second, on a logarithmic scale",
        {
            name: Rates(tuple(each["runs"]), each["median"], each["least"], each["most"])
            for name, each in cell["contenders"].items()
        },
        [name for name in cell["contenders"] if name.startswith("endmark")],
    )

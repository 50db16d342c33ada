"""The contenders of a cell, as a table and as a picture."""

from __future__ import annotations

from typing import Any

from endmark_benchmarks.harness.contest import Rates
from endmark_benchmarks.page.chart import bars
from endmark_papers.experiments.report import Table


def rate_table(cell: dict[str, Any], unit: str) -> Table:
    """Rates, and how many times as fast the first contender was, which is endmark as a job has it."""
    ours = next(iter(cell["contenders"]))
    headings = ("contender", unit, "least", "most", f"{ours} / this")
    rows = [
        [name, *(f"{each[figure]:,.0f}" for figure in ("median", "least", "most")), f"{each['ratio']:,.2f}"]
        for name, each in cell["contenders"].items()
    ]
    return Table(cell["title"], headings, rows)


def rate_bars(cell: dict[str, Any], counted: str) -> str:
    """SVG with a bar for each contender; `counted` is what a rate counts."""
    return bars(
        f"{cell['title']}: {counted} a second, on a logarithmic scale",
        {
            name: Rates(tuple(each["runs"]), each["median"], each["least"], each["most"])
            for name, each in cell["contenders"].items()
        },
        [name for name in cell["contenders"] if name.startswith("endmark")],
    )

"""`make bench-nary`: three streams on one key in one operator, in a chain of two joins, and in DuckDB.

All contenders have the same input and must have the same answers. They take turns. Neither Spark nor Kafka is
there, and no window, so the chain has the results of the one operator.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import typer

from endmark_benchmarks.harness.contest import DisagreementError, interleaved
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads.orders_alone import Course, Orders, batches, chain, duckdb, one_operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.operators.stream_batch import StreamBatch

RESULTS = Path(__file__).parents[2] / "results" / "nary_join.json"
CONTENDERS: dict[str, Callable[[list[list[StreamBatch]], Path], Course]] = {
    "one operator": one_operator,
    "chain of two": chain,
    "duckdb": duckdb,
}


def workloads(batches: int, orders: int) -> dict[str, Orders]:
    """Return the workloads by name: few rows of each order, and many payments before late shipments."""
    return {
        "a payment and a shipment": Orders(batches, orders, life=5, payments=1, shipments=1),
        "two of each": Orders(batches, orders, life=5, payments=2, shipments=2),
        "ten payments, then two shipments": Orders(
            batches, orders // 4, 5, payments=10, shipments=2, late=True
        ),
    }


def measure(sizes: Orders, repeats: int) -> dict[str, Any]:
    """Run every contender on one workload.

    Raises:
        DisagreementError: two gave different answers.
    """
    inputs = batches(sizes)
    found: dict[str, list[Course]] = {name: [] for name in CONTENDERS}
    for _, name in interleaved(list(CONTENDERS), repeats):
        with tempfile.TemporaryDirectory() as directory:
            found[name].append(CONTENDERS[name](inputs, Path(directory)))
    answers = {course.answers for courses in found.values() for course in courses}
    if len(answers) > 1:
        raise DisagreementError(f"contenders gave different answers: {answers}")
    return {
        name: {
            "rows_a_second": sizes.rows / median(course.seconds for course in courses),
            "results": courses[0].answers.results,
            "most_rows": courses[0].most_rows,
            "most_bytes": courses[0].most_bytes,
        }
        for name, courses in found.items()
    }


def main(batches: int = 40, orders: int = 20_000, repeats: int = 3, results: Path = RESULTS) -> None:
    """Measure all workloads and keep the figures.

    Args:
        batches: the number of batches in which orders begin.
        orders: the number of orders that begin in each.
        repeats: the runs of each contender.
        results: the result file.
    """
    options = {"batches": batches, "orders_per_batch": orders, "repeats": repeats}
    report: dict[str, Any] = {"bench": "nary-join", **origin(), "options": options, "workloads": {}}
    for name, sizes in workloads(batches, orders).items():
        report["workloads"][name] = measure(sizes, repeats)
        print(name, json.dumps(report["workloads"][name], indent=1))
    results.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)

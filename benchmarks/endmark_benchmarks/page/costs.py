"""A table of predicted and measured costs of a lookup's loop."""

from __future__ import annotations

from typing import Any

from endmark_papers.experiments.report import Table

Report = dict[str, Any]


def ratios(report: Report) -> dict[str, list[float]]:
    """Return the ratios of predicted to measured seconds a loop, by strategy."""
    found: dict[str, list[float]] = {}
    for loop in report["loops"]:
        found.setdefault(loop["strategy"], []).append(loop["predicted_seconds"] / loop["measured_seconds"])
    return found


def costs_tables(report: Report) -> list[Table]:
    """Return the table of all loops of a report."""
    rows = [
        [
            f"{loop['strategy']}, {loop['relation_rows']:,} rows of R, {loop['page_rows']:,} a page",
            f"{loop['exponent']:g}",
            f"{1e3 * loop['predicted_seconds']:.2f}",
            f"{1e3 * loop['measured_seconds']:.2f}",
            f"{loop['predicted_seconds'] / loop['measured_seconds']:.2f}",
        ]
        for loop in report["loops"]
    ]
    headings = ("strategy", "exponent", "predicted, ms", "measured, ms", "predicted / measured")
    return [Table("Cost of a loop: one read of a strategy, with all work that belongs to it", headings, rows)]

"""Tables of measurements of state: the time of a batch by live rows, and joins alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from endmark_papers.experiments.report import Table

if TYPE_CHECKING:
    from collections.abc import Callable

Report = dict[str, Any]


def growth(report: Report) -> float:
    """Return the ratio of the time of a batch with the most live rows to that with the fewest."""
    medians = [each["batch_seconds"]["median"] for each in report["windows"]]
    return float(medians[-1] / medians[0])


def _live_tables(report: Report) -> list[Table]:
    rows = [
        [
            f"{each['live_rows']:,}",
            f"{each['window_seconds']:g} s",
            *(f"{each['batch_seconds'][figure]:.2f}" for figure in ("median", "least", "most")),
        ]
        for each in report["windows"]
    ]
    headings = ("live rows", "window", "seconds a batch", "least", "most")
    return [Table("Time of batches of one size, by live rows", headings, rows)]


def _extremes_tables(report: Report) -> list[Table]:
    return [
        Table(
            found["says"],
            tuple(found["figures"][0]),
            [[_short(value) for value in figures.values()] for figures in found["figures"]],
        )
        for found in report["scenarios"].values()
    ]


def _nary_tables(report: Report) -> list[Table]:
    headings = ("contender", "rows/s", "most rows in state", "most MB in state", "one operator / this")
    found = []
    for name, contenders in report["workloads"].items():
        ours = contenders["one operator"]["rows_a_second"]
        rows = [
            [
                contender,
                f"{each['rows_a_second']:,.0f}",
                f"{each['most_rows']:,}" if each["most_rows"] else "",
                f"{each['most_bytes'] / 1e6:,.1f}" if each["most_bytes"] else "",
                f"{ours / each['rows_a_second']:,.2f}",
            ]
            for contender, each in contenders.items()
        ]
        found.append(Table(f"{name}, {contenders['duckdb']['results']:,} results", headings, rows))
    return found


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{2 if abs(value) < 100 else 0}f}"


TABLES: dict[str, Callable[[Report], list[Table]]] = {
    "live-state": _live_tables,
    "extremes": _extremes_tables,
    "nary-join": _nary_tables,
}

"""The lookup map as tables and a picture: rates, the fastest strategies, and how near `auto` is to them."""

from __future__ import annotations

from typing import Any

from endmark_benchmarks.page.chart import grid
from endmark_papers.experiments.report import Table

_Runs = list[dict[str, Any]]
_TITLE = "The fastest strategy, and auto's rate over the fastest other's"


def map_tables(runs: _Runs) -> list[Table]:
    """Return a table of the winner of each cell, and tables of rates by skew for each size and distance."""
    places = dict.fromkeys((run["relation_rows"], run["delay"]) for run in runs)
    headings, rows = _winners(runs)
    named = [
        [name, *(f"{winner}, {ratio:.2f}" if winner else "" for winner, ratio in row)] for name, row in rows
    ]
    return [Table(_TITLE, headings, named), *(_by_skew(runs, *place) for place in places)]


def map_picture(runs: _Runs) -> str:
    """Draw an SVG of the winner of each cell, with the ratio of `auto` to the fastest other strategy."""
    headings, rows = _winners(runs)
    return grid(_TITLE, headings[1:], dict(rows))


def auto_ratios(runs: _Runs) -> list[float]:
    """Return the ratio of `auto` to the best other strategy, for each cell in which both were measured."""
    _, rows = _winners(runs)
    return [ratio for _, cells in rows for winner, ratio in cells if winner]


def _winners(runs: _Runs) -> tuple[tuple[str, ...], list[tuple[str, list[tuple[str, float]]]]]:
    """Return headings, and for each place and memory the winner and auto's ratio, by skew.

    A cell in which `auto` or all others were not measured has no winner.
    """
    found: dict[str, dict[float, dict[str, float]]] = {}
    for run in runs:
        if run["strategy"] != "memory":
            waits = f"{run['waits']} MB wait" if run["waits"] else "none wait"
            name = f"{run['relation_rows']:,} rows, {run['delay']:g} ms, {waits}"
            found.setdefault(name, {}).setdefault(run["exponent"], {})[run["strategy"]] = run["rate"]
    exponents = dict.fromkeys(run["exponent"] for run in runs)
    headings = ("R, distance, memory", *(f"exponent {exponent:g}" for exponent in exponents))
    return headings, [
        (name, [_winner(by_skew.get(each, {})) for each in exponents]) for name, by_skew in found.items()
    ]


def _winner(rates: dict[str, float]) -> tuple[str, float]:
    others = [rate for name, rate in rates.items() if name != "auto"]
    if "auto" not in rates or max(others, default=0) == 0:
        return "", 0.0
    return max(rates, key=rates.__getitem__), rates["auto"] / max(others)


def _by_skew(runs: _Runs, relation_rows: int, delay: float) -> Table:
    here = [run for run in runs if (run["relation_rows"], run["delay"]) == (relation_rows, delay)]
    exponents = dict.fromkeys(run["exponent"] for run in here)
    rates: dict[str, dict[float, float]] = {}
    for run in here:
        name = f"{run['strategy']}, {run['waits']} MB wait" if run["waits"] else run["strategy"]
        rates.setdefault(name, {})[run["exponent"]] = run["rate"]
    headings = ("thousand rows/s, by exponent", *(f"{exponent:g}" for exponent in exponents))
    rows = [
        [name, *(_thousands(found[each]) if each in found else "" for each in exponents)]
        for name, found in rates.items()
    ]
    return Table(f"{relation_rows:,} rows of R, {delay:g} ms away", headings, rows)


def _thousands(rate: float) -> str:
    return f"{rate / 1000:,.0f}" if rate >= 10_000 else f"{rate / 1000:.1f}"

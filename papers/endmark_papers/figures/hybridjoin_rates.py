"""HYBRIDJOIN's figures 10c and 10d: the service rate by the size of R and by memory, for two layouts of R.

Paper: HYBRIDJOIN (UoA-SE-2010-2), section 6.2.1. R is sorted by popularity in the paper. Scattered, the keys
that are asked for often are all over R. The readings are those of the engine's lookups in
`benchmarks/results/hybridjoin_rates.json`. MESHJOIN is the paper's, which keeps a row until it has met all
of R.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import mean
from typing import Any, NamedTuple

from endmark_papers.experiments.report import half_interval
from endmark_papers.figures.benchmark_results import read
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.figure import Claim, Figure, Measurement, Panel, verdict

NAMES = {"hybrid": "HYBRIDJOIN", "meshjoin": "MESHJOIN", "inlj": "INLJ"}
LAYOUTS = {"sorted": "R sorted by popularity", "scattered": "popular keys all over R"}
PAPER_MEMORY, PAPER_ROWS, EXPONENT = 50, 2_000_000, 1.0

Cell = dict[str, Any]


class Axis(NamedTuple):
    """The quantity that a figure varies.

    Args:
        name: the figure's name.
        what: the quantity in words, for its title.
        label: the label of its x axis.
        field: the field of a cell that it varies.
        unit: the value of the field at 1 on the axis.
        fixed: the field that stays the same, at `value`.
    """

    name: str
    what: str
    label: str
    field: str
    unit: float
    fixed: str
    value: int


BY_SIZE = Axis("hj-10c", "size of R", "rows of R, million", "relation_rows", 1e6, "memory", PAPER_MEMORY)
BY_MEMORY = Axis("hj-10d", "memory", "memory, MB", "memory", 1.0, "relation_rows", PAPER_ROWS)


def figure(report: dict[str, Any], axis: Axis) -> Figure:
    """Return a figure of a report of `endmark_benchmarks.measurements.hybridjoin_rates`.

    Args:
        report: the report.
        axis: what the figure varies.
    """
    by_layout = {layout: _cells(report, axis, layout) for layout in LAYOUTS}
    panels = [_panel(cells, axis, layout) for layout, cells in by_layout.items()]
    fixed = f"{PAPER_MEMORY} MB" if axis is BY_SIZE else f"R of {PAPER_ROWS:,} rows"
    return Figure(
        name=axis.name,
        title=f"HYBRIDJOIN, figure {axis.name.removeprefix('hj-')}: service rate by {axis.what}",
        setup=(
            f"{fixed}, exponent {EXPONENT:g}; {report['options']['repeats']} readings, mean and 95 % "
            f"interval. Times of the engine's lookups at commit {report['commit']} "
            "([hybridjoin_rates.json](../../benchmarks/results/hybridjoin_rates.json))."
        ),
        panels=panels,
        claims=[
            claim
            for panel, cells in zip(panels, by_layout.values(), strict=True)
            for claim in claims(panel, cells, axis)
        ],
    )


def claims(panel: Panel, cells: Sequence[Cell], axis: Axis) -> list[Claim]:
    """Return the paper's claims about a panel, and what its curves say of them.

    Args:
        panel: the service rates for one layout of R.
        cells: the cells of its points.
        axis: what the figure varies.
    """
    hybrid, mesh, inlj = panel.curves
    over = {mesh.name: "meshjoin", inlj.name: "inlj"}
    found = []
    for name, other in over.items():
        turns = [ratios(cell, other) for cell in cells]
        shown = [mean(each) - half_interval(each) > 1 for each in turns]
        found.append(
            Claim(
                claim=f"HYBRIDJOIN serves more rows/s than {name} at every {axis.what}: {panel.title}.",
                paper="no figure",
                ours=f"{_spread(turns)} times that at {_listed(hybrid.x, 1)} ({axis.label})",
                verdict=verdict(holds=all(shown), in_shape=mean(map(mean, turns)) > 1),
                why="" if all(shown) else _reason(cells, turns, hybrid.x),
            )
        )
    if axis is BY_SIZE:
        factors = [mean(ratios(cell, over[mesh.name])) for cell in cells]
        shrinks = all(before > after for before, after in pairwise(factors))
        gaps = [ours - theirs for ours, theirs in zip(hybrid.y, mesh.y, strict=True)]
        found.append(
            Claim(
                claim=f"HYBRIDJOIN's lead over MESHJOIN shrinks as R grows: {panel.title}.",
                paper="the factor decreases, no figure",
                ours=f"the factor is {_listed(factors)}, the gap {_listed(gaps, 1)} thousand rows/s",
                verdict=verdict(holds=shrinks, in_shape=gaps[0] > gaps[-1]),
                why=""
                if shrinks
                else "With the same memory, the rows that a page answers fall alike for both.",
            )
        )
    return found


def ratios(cell: Cell, other: str) -> list[float]:
    """Return the rates of `hybrid` over those of another contender, reading by reading."""
    ours, theirs = (cell["contenders"][name]["rates"] for name in ("hybrid", other))
    return [mine / its for mine, its in zip(ours, theirs, strict=True)]


def _spread(turns: Sequence[Sequence[float]]) -> str:
    return ", ".join(f"{mean(each):,.2f} ± {half_interval(each):,.2f}" for each in turns)


def _reason(cells: Sequence[Cell], turns: Sequence[Sequence[float]], x: Sequence[float]) -> str:
    """Return the points at which no lead is shown, and the rows and the time of a page at all points.

    Args:
        cells: the cells of the points.
        turns: the ratios of each point.
        x: the positions of the points.
    """
    unsure = [at for at, each in zip(x, turns, strict=True) if mean(each) - half_interval(each) <= 1]
    rows, seconds = [], []
    for cell in cells:
        ours, theirs = (cell["contenders"][name] for name in ("hybrid", "meshjoin"))
        rows.append(mean(ours["rows_per_read"]) / mean(theirs["rows_per_read"]))
        seconds.append(rows[-1] * mean(theirs["rates"]) / mean(ours["rates"]))
    return (
        f"The 95 % interval is not above 1 at {_listed(unsure, 1)}. A page of HYBRIDJOIN answers "
        f"{min(rows):.2f} to {max(rows):.2f} times as many rows as one of MESHJOIN, but takes "
        f"{min(seconds):.2f} to {max(seconds):.2f} times as long, with all its rows."
    )


def _cells(report: dict[str, Any], axis: Axis, layout: str) -> list[Cell]:
    found = [
        cell
        for cell in report["cells"]
        if (cell["exponent"], cell["layout"], cell[axis.fixed]) == (EXPONENT, layout, axis.value)
    ]
    return sorted(found, key=lambda cell: cell[axis.field])


def _panel(cells: Sequence[Cell], axis: Axis, layout: str) -> Panel:
    x = [cell[axis.field] / axis.unit for cell in cells]
    readings = range(len(cells[0]["contenders"]["hybrid"]["rates"]))
    return Panel(
        title=LAYOUTS[layout],
        x=axis.label,
        y="thousand rows/s",
        log_x=axis is BY_SIZE,
        log_y=True,
        curves=[
            mean_curve(
                shown,
                x,
                [[cell["contenders"][name]["rates"][at] / 1e3 for cell in cells] for at in readings],
                digits=3,
            )
            for name, shown in NAMES.items()
        ],
    )


def _listed(numbers: Sequence[float], digits: int = 2) -> str:
    return ", ".join(f"{number:,.{digits}f}" for number in numbers)


def _drawn(axis: Axis) -> Measurement:
    """Return how a figure is drawn. The readings have one size, so the scale changes nothing."""
    return Measurement(axis.name, lambda _: figure(read("hybridjoin_rates.json"), axis))


MEASUREMENTS = [_drawn(BY_SIZE), _drawn(BY_MEMORY)]

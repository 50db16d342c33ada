"""HYBRIDJOIN's figure 11: the cost of a loop, predicted and measured.

Paper: HYBRIDJOIN (UoA-SE-2010-2), sections 4.4 and 6.2.2. The measurements are those of the engine's
lookups in `benchmarks/results/costs.json`. The predictions beside them are those of
`endmark.planning.lookup_model`, from unit costs that were measured at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from endmark_papers.figures.benchmark_results import read
from endmark_papers.figures.figure import Claim, Curve, Figure, Measurement, Panel, verdict

NAMES = {"hybrid": "HYBRIDJOIN", "mesh": "MESHJOIN", "inlj": "INLJ"}
CLOSE = 0.15


def measure(scale: float) -> Figure:
    """Draw the kept measurements. They have one size, so the scale changes nothing."""
    del scale
    report = read("costs.json")
    panels = [_panel(report["loops"], strategy) for strategy in NAMES]
    return Figure(
        name="hj-11",
        title="HYBRIDJOIN, figure 11: cost of a loop, predicted and measured",
        setup=(
            f"{len(report['loops'])} loops: R of 0.5 and 2 M rows, pages of 500 and 2,000 rows, 50 MB, "
            "exponents 0 and 1; each the middle of several turns. Times of the engine's lookups at commit "
            f"{report['commit']} ([costs.json](../../benchmarks/results/costs.json))."
        ),
        panels=panels,
        claims=claims(panels),
    )


def claims(panels: Sequence[Panel]) -> list[Claim]:
    """Return the paper's claim about each algorithm and what its loops say of it."""
    found = []
    for panel in panels:
        loops = panel.curves[0]
        off = [abs(predicted / measured - 1) for measured, predicted in zip(loops.x, loops.y, strict=True)]
        found.append(
            Claim(
                claim=f"The predicted cost of {panel.title} closely resembles the measured cost.",
                paper="no figure",
                ours=f"{median(off):.0%} off in the middle, {max(off):.0%} at worst, of {len(off)} loops",
                verdict=verdict(holds=max(off) <= CLOSE, in_shape=median(off) <= CLOSE),
                why=""
                if max(off) <= CLOSE
                else f"{sum(each > CLOSE for each in off)} loops are further off.",
            )
        )
    return found


def _panel(loops: Sequence[dict[str, Any]], strategy: str) -> Panel:
    points = sorted(
        (round(1e3 * loop["measured_seconds"], 4), round(1e3 * loop["predicted_seconds"], 4))
        for loop in loops
        if loop["strategy"] == strategy
    )
    measured = [point[0] for point in points]
    ends = [measured[0], measured[-1]]
    return Panel(
        title=NAMES[strategy],
        x="measured, ms a loop",
        y="predicted, ms a loop",
        curves=[
            Curve(name="loops", x=measured, y=[point[1] for point in points]),
            Curve(name="equal", x=ends, y=ends),
        ],
    )


MEASUREMENTS = [Measurement("hj-11", measure)]

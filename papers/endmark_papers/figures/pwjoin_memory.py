"""PWJoin's equation 1: the rows in state, estimated and measured.

Paper: PWJoin (CIKM'04), section 5. The measurements are those of the engine's stream join in
`benchmarks/results/stream_join_model.json`. The predictions beside them are those of
`endmark.planning.stream_join_model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from endmark_papers.figures.benchmark_results import read
from endmark_papers.figures.figure import Claim, Curve, Figure, Measurement, Panel, verdict

CLOSE = 0.15
MEASURED, EQUATION, MODEL = "engine", "equation 1", "Little's law"


def measure(scale: float) -> Figure:
    """Draw the kept measurements. They have one size, so the scale changes nothing."""
    del scale
    settings = [each for each in read("stream_join_model.json") if each["preset"] == "pwjoin"]
    panels = [_panel(settings, interval) for interval in sorted({each["interval"] for each in settings})]
    return Figure(
        name="pw-eq1",
        title="PWJoin, equation 1: rows in state, estimated and measured",
        setup=(
            "Both streams are `punct-asc-[interval]-40` with 100 rows a second. The figure has the mean "
            "number of rows in both sides together, counted in the engine under its preset pwjoin "
            "([stream_join_model.json](../../benchmarks/results/stream_join_model.json))."
        ),
        panels=panels,
        claims=claims(panels),
    )


def claims(panels: Sequence[Panel]) -> list[Claim]:
    """Return the paper's claim about its equation and what the measured states say of it."""
    equation, model = (_errors(panels, name) for name in (EQUATION, MODEL))
    worst = max(map(abs, model))
    return [
        Claim(
            claim="Equation 1 estimates the rows in PWJoin's state.",
            paper="no figure",
            ours=f"it is {-max(equation):.0%} to {-min(equation):.0%} too low in {len(equation)} settings",
            verdict=verdict(holds=max(map(abs, equation)) <= CLOSE, in_shape=False),
            why=(
                "It takes the share of open keys among all keys that ever came, which tends to 0. A window "
                "has the newest rows, whose keys are the last to be closed. Little's law with the mean time "
                f"until a row leaves is {worst:.0%} off at worst."
            ),
        )
    ]


def _errors(panels: Sequence[Panel], name: str) -> list[float]:
    """Return by how much, as a share, one estimate differs from the measured rows at each point."""
    found = []
    for panel in panels:
        curves = panel.by_name()
        pairs = zip(curves[name].y, curves[MEASURED].y, strict=True)
        found += [estimate / measured - 1 for estimate, measured in pairs]
    return found


def _panel(settings: Sequence[dict[str, Any]], interval: int) -> Panel:
    points = sorted(
        (each for each in settings if each["interval"] == interval), key=lambda each: float(each["window"])
    )
    fields = {MEASURED: "rows", MODEL: "predicted_rows", EQUATION: "paper_rows"}
    return Panel(
        title=f"{interval:,} rows between punctuations",
        x="window, s",
        y="rows in state",
        log_x=True,
        log_y=True,
        curves=[
            Curve(
                name=name,
                x=[float(each["window"]) for each in points],
                y=[round(float(each[field]), 2) for each in points],
            )
            for name, field in fields.items()
        ],
    )


MEASUREMENTS = [Measurement("pw-eq1", measure)]

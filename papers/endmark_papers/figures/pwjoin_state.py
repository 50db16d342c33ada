"""PWJoin's figure 8: rows in state over time, with and without punctuations.

Paper: PWJoin (CIKM'04), section 6.2, "Memory overhead". Both streams are `punct-asc-100-40`, rows come
every 10 ms on average, windows are 1, 5 and 15 s, and the state is read every 2 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import Element, ReferenceJoin
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.algorithms.wjoin import WindowJoin
from endmark_papers.experiments.streams import join_input
from endmark_papers.figures.curves import mean_curve, sampled
from endmark_papers.figures.figure import Claim, Curve, Figure, Measurement, Panel, verdict

WORKLOAD, VALUES, ROWS_A_SECOND = "punct-asc-100-40", 200, 100
WINDOWS = (1, 5, 15)
STEP = 2.0
REPEATS = 5


def measure(scale: float) -> Figure:
    workload = parse_workload(WORKLOAD, round(VALUES * scale))
    inputs = [join_input(workload, workload, seed) for seed in range(1, REPEATS + 1)]
    panels = [_panel(window, inputs) for window in WINDOWS]
    return Figure(
        name="pw-8",
        title="PWJoin, figure 8: rows in state over time",
        setup=(
            f"{WORKLOAD} on both sides, {round(VALUES * scale)} values each; {REPEATS} seeds, mean and 95 % "
            f"interval. State is read every {STEP:g} s of event time. Counted in the literal algorithms."
        ),
        panels=panels,
        claims=claims(panels),
    )


def claims(panels: Sequence[Panel]) -> list[Claim]:
    """Return the paper's claims and what the curves say of them."""
    without, with_them = ([_middle(panel.curves[place]) for panel in panels] for place in (0, 1))
    saved = [1 - less / more for less, more in zip(with_them, without, strict=True)]
    windows = ", ".join(f"{window} s" for window in WINDOWS[:-1]) + f" and {WINDOWS[-1]} s"
    nominal = [2 * ROWS_A_SECOND * window for window in WINDOWS]
    steady = all(abs(rows / expected - 1) < 0.05 for rows, expected in zip(without, nominal, strict=True))
    return [
        Claim(
            claim="The larger the window, the larger the share of state that punctuations save.",
            paper="no figure",
            ours=f"{', '.join(f'{share:.0%}' for share in saved)} of the rows are saved at {windows}",
            verdict=verdict(holds=0 < saved[0] < saved[1] < saved[2], in_shape=saved[2] > saved[0]),
        ),
        Claim(
            claim="Without punctuations the state is the rate of arrival times the window.",
            paper=f"{', '.join(f'{rows:,}' for rows in nominal)} rows by section 5 at {windows}",
            ours=f"{', '.join(f'{rows:,.0f}' for rows in without)} rows",
            verdict=verdict(holds=steady, in_shape=without[0] < without[1] < without[2]),
        ),
    ]


def _panel(window: int, inputs: Sequence[Sequence[Element]]) -> Panel:
    runs = {
        "WJoin": [_held(WindowJoin(window, window), elements) for elements in inputs],
        "PWJoin": [_held(PunctuatedWindowJoin(window, window), elements) for elements in inputs],
    }
    samples = min(len(run) for run in runs["WJoin"])
    x = [STEP * (number + 1) for number in range(samples)]
    return Panel(
        title=f"windows of {window} s",
        x="event time, s",
        y="rows in state",
        curves=[mean_curve(name, x, [run[:samples] for run in each]) for name, each in runs.items()],
    )


def _held(join: ReferenceJoin, elements: Sequence[Element]) -> list[float]:
    return sampled(join, elements, STEP, lambda: join.counters.state_rows)


def _middle(curve: Curve) -> float:
    """Return the mean over the middle half of the run, in which the windows are full."""
    return mean(curve.y[len(curve.y) // 4 : 3 * len(curve.y) // 4])


MEASUREMENTS = [Measurement("pw-8", measure)]

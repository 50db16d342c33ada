"""The experiment on the rows that a windowed join holds, with and without punctuations.

Paper: PWJoin (CIKM'04), figure 8.
"""

from __future__ import annotations

from statistics import mean

from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import Element, ReferenceJoin
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.algorithms.wjoin import WindowJoin
from endmark_papers.experiments.report import Figures, Spread, Table
from endmark_papers.experiments.streams import join_input

WORKLOAD, VALUES = "punct-asc-100-40", 200
WINDOWS_SECONDS = (1.0, 5.0, 15.0)
SEEDS = range(1, 6)


class WindowStateFigures(Figures):
    """The mean rows held over the middle half of the run, and the percentage that punctuations save."""

    window_seconds: float
    wjoin_rows: Spread
    pwjoin_rows: Spread
    saved_percent: Spread


def measure(seeds: range = SEEDS, values: int = VALUES) -> list[WindowStateFigures]:
    workload = parse_workload(WORKLOAD, values)
    inputs = [join_input(workload, workload, seed) for seed in seeds]
    return [_compare(window, inputs) for window in WINDOWS_SECONDS]


def tables(figures: list[WindowStateFigures]) -> dict[str, Table]:
    rows = [
        [
            f"{each.window_seconds:g} s",
            each.wjoin_rows.text(0),
            each.pwjoin_rows.text(0),
            each.saved_percent.text(1),
        ]
        for each in figures
    ]
    title = f"Rows held, {WORKLOAD} on both sides: mean over {len(SEEDS)} seeds (least to most)"
    return {"window-state": Table(title, ["window", "WJoin", "PWJoin", "saved, %"], rows)}


def _compare(window: float, inputs: list[list[Element]]) -> WindowStateFigures:
    without = [_mean_state(WindowJoin(window, window), elements) for elements in inputs]
    with_them = [_mean_state(PunctuatedWindowJoin(window, window), elements) for elements in inputs]
    saved = [100 * (1 - fewer / rows) for fewer, rows in zip(with_them, without, strict=True)]
    return WindowStateFigures(
        window_seconds=window,
        wjoin_rows=Spread.of(without, 1),
        pwjoin_rows=Spread.of(with_them, 1),
        saved_percent=Spread.of(saved, 2),
    )


def _mean_state(join: ReferenceJoin, elements: list[Element]) -> float:
    held = []
    for element in elements:
        join.process(element)
        held.append(join.counters.state_rows)
    return mean(held[len(held) // 4 : 3 * len(held) // 4])

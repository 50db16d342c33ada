"""The experiment on output punctuations over time, with and without windows.

Paper: PWJoin (CIKM'04), figures 11 and 12.
"""

from __future__ import annotations

from collections.abc import Callable

from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import Announced, Element, ReferenceJoin
from endmark_papers.algorithms.pjoin import PJoin
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.experiments.report import Figures, Spread, Table
from endmark_papers.experiments.streams import join_input

VALUES = 500
SEEDS = range(1, 6)
FRACTIONS = (0.25, 0.5, 0.75, 1.0)
BOTH_CLOSE = ("punct-asc-30-40", "punct-random-30-40")
ONE_CLOSES = ("uniform-15000", "punct-asc-30-40")
ROWS_PER_VALUE = 30  # so that the stream without punctuations is as long as the other

Windows = tuple[float | None, float | None]
Joins = dict[str, Callable[[], ReferenceJoin]]


class AnnouncedFigures(Figures):
    """The number of values announced, by the fraction of the run's event time that had passed."""

    after: dict[float, Spread]


class PunctuationFigures(Figures):
    """The figures of each algorithm, if both streams close all values (figure 11), or one (figure 12)."""

    both_close: dict[str, AnnouncedFigures]
    one_closes: dict[str, AnnouncedFigures]


def measure(seeds: range = SEEDS, values: int = VALUES) -> PunctuationFigures:
    ascending, shuffled = (parse_workload(name, values) for name in BOTH_CLOSE)
    uniform = parse_workload(ONE_CLOSES[0], values * ROWS_PER_VALUE)
    punctuated = parse_workload(ONE_CLOSES[1], values)
    both = [join_input(ascending, shuffled, seed) for seed in seeds]
    one = [join_input(uniform, punctuated, seed) for seed in seeds]
    return PunctuationFigures(
        both_close=_announced(both, _joins((1.0, 1.0))), one_closes=_announced(one, _joins((None, 5.0)))
    )


def tables(figures: PunctuationFigures) -> dict[str, Table]:
    return {
        "both-close": _table(f"{' with '.join(BOTH_CLOSE)}, windows of 1 s", figures.both_close),
        "one-closes": _table(f"{' with '.join(ONE_CLOSES)}, window of 5 s on the latter", figures.one_closes),
    }


def _joins(windows: Windows) -> Joins:
    return {
        "PWJoin strict": lambda: PunctuatedWindowJoin(*windows, strict_paper=True),
        "PWJoin": lambda: PunctuatedWindowJoin(*windows),
        "PJoin": PJoin,
        "PJoin count zero": lambda: PJoin(rule="count_zero"),
    }


def _announced(inputs: list[list[Element]], joins: Joins) -> dict[str, AnnouncedFigures]:
    return {
        name: _count([_instants(join(), elements) for elements in inputs]) for name, join in joins.items()
    }


def _instants(join: ReferenceJoin, elements: list[Element]) -> list[float]:
    """Return the time at which each value was announced, as a fraction of the run."""
    end = elements[-1].time
    return [
        element.time / end
        for element in elements
        for output in join.process(element)
        if isinstance(output, Announced)
    ]


def _count(runs: list[list[float]]) -> AnnouncedFigures:
    return AnnouncedFigures(
        after={
            fraction: Spread.of((sum(at <= fraction for at in run) for run in runs), 1)
            for fraction in FRACTIONS
        }
    )


def _table(title: str, found: dict[str, AnnouncedFigures]) -> Table:
    headings = ["announced after", *(f"{fraction:.0%} of the run" for fraction in FRACTIONS)]
    rows = [[name, *(spread.text(0) for spread in each.after.values())] for name, each in found.items()]
    return Table(f"{title}: mean over {len(SEEDS)} seeds (least to most)", headings, rows)

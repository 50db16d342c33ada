"""MJoin's figure 8: which stream and which row comes next.

Paper: MJoin (WPI), section 6.2, experiment 1: priority-driven stream scheduling with value-oriented tuple
scheduling against random with sequential scheduling, purging at once and with propagation. Here both
choices vary by themselves. The schedulers choose among 220 elements at a time, since the paper's queues are
never empty. The engine joins a batch as a whole and schedules nothing. Its times are of the order in which
each policy processes rows and punctuations.
"""

from __future__ import annotations

from collections.abc import Sequence

from endmark.operators.stream_join.presets import Preset, policy
from endmark.punctuation.pattern import Pattern
from endmark_papers.algorithms.contract import Closing, Element, Output, Row, Side
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import MJoinOptions, StreamScheduling, TupleScheduling
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.engine import EngineJoin, race
from endmark_papers.figures.figure import Claim, Figure, Measurement, Panel, verdict
from endmark_papers.figures.mjoin_streams import PATTERNS, grid, news, over_results

ARTICLES = 500
AT_HAND = 220  # elements among which the schedulers choose
STEPS = 11  # objects between two readings
BATCH = 55  # elements of the engine's input
REPEATS = 5
POLICIES = {
    f"{streams}, {tuples}": (streams, tuples) for streams in StreamScheduling for tuples in TupleScheduling
}
BEST, WORST = "priority, value-oriented", "random, sequential"


class RecordedJoin(MetadataJoin):
    """MJoin that notes the order in which it processes rows and punctuations."""

    def __init__(self, options: MJoinOptions) -> None:
        super().__init__(options)
        self.order: list[Element] = []

    def _join(self, row: Row) -> list[Output]:
        self.order.append(row)
        return super()._join(row)

    def _punctuate(self, side: Side, pattern: Pattern) -> None:
        self.order.append(Closing(side, pattern, 0.0))
        super()._punctuate(side, pattern)


def measure(scale: float) -> Figure:
    articles = round(ARTICLES * scale)
    panels = [counted(pattern, articles, REPEATS) for pattern in PATTERNS]
    panels += [timed(pattern, articles, REPEATS) for pattern in PATTERNS]
    return Figure(
        name="mj-8",
        title="MJoin, figure 8: stream and tuple scheduling",
        setup=(
            f"{articles} articles with ten accesses each, {AT_HAND} elements to choose from at a time. "
            f"Accesses that enter the state are counted in the literal MJoin, {REPEATS} seeds, mean and 95 % "
            "interval. Times are of the engine's stream join under its preset mjoin, on what each policy "
            f"processes, in its order, in batches of {BATCH} elements, {REPEATS} repeats in turn."
        ),
        panels=panels,
        claims=claims(panels),
    )


def counted(pattern: str, articles: int, repeats: int) -> Panel:
    """Count the accesses that enter the state, over results.

    Args:
        pattern: the name of the articles' order.
        articles: the number of articles.
        repeats: seeds of the streams and of the random scheduler.
    """
    x = grid(articles)
    inputs = [news(pattern, articles, seed) for seed in range(1, repeats + 1)]
    return Panel(
        title=pattern,
        x="results",
        y="accesses that entered the state",
        curves=[
            mean_curve(
                name, x, [_inserted(_join(name, seed), elements, x) for seed, elements in enumerate(inputs)]
            )
            for name in POLICIES
        ],
    )


def timed(pattern: str, articles: int, repeats: int) -> Panel:
    """Time the engine's join on the order of each policy, over results.

    Args:
        pattern: the name of the articles' order.
        articles: the number of articles.
        repeats: timed runs of each policy.
    """
    engine = EngineJoin(policy(Preset.MJOIN, windowed=False), unique=True)
    elements = news(pattern, articles, 1)
    contenders = {name: (engine, engine.batches(order(name, elements), BATCH)) for name in POLICIES}
    x = grid(articles)
    return Panel(
        title=f"{pattern}: the engine's time",
        x="results",
        y="time of work, s",
        curves=[
            mean_curve(name, x, [over_results(each.results, each.seconds, x) for each in courses], 4)
            for name, courses in race(contenders, repeats).items()
        ],
    )


def order(name: str, elements: Sequence[Element]) -> list[Element]:
    """Return the rows and punctuations in the order in which a policy processes them."""
    join = _join(name, 0)
    _work(join, elements)
    return join.order


def claims(panels: Sequence[Panel]) -> list[Claim]:
    """Return the paper's claim, of the rows stored and of the time, and what the curves say of them."""
    half = len(panels) // 2
    stored = [_both(panel) for panel in panels[:half]]
    times = [_both(panel) for panel in panels[half:]]
    names = [panel.title for panel in panels[:half]]
    fewer = all(best[-1] < worst[-1] for best, worst in stored)
    always = all(more >= less for best, worst in stored for less, more in zip(best, worst, strict=True))
    ratios = [worst[-1] / best[-1] for best, worst in times]
    by_row = [
        curves["random, sequential"].y[-1] - curves["random, value-oriented"].y[-1]
        for curves in (panel.by_name() for panel in panels[:half])
    ]
    inserted = "; ".join(
        f"{best[-1]:,.0f} against {worst[-1]:,.0f}, {name}"
        for (best, worst), name in zip(stored, names, strict=True)
    )
    return [
        Claim(
            claim=f"Fewer accesses enter the state with {BEST} than with {WORST} scheduling.",
            paper="no figure",
            ours=f"{inserted}. The choice of the row alone saves {max(by_row):,.0f}",
            verdict=verdict(holds=fewer and always, in_shape=fewer),
            why="" if fewer and always else "Not at every number of results.",
        ),
        Claim(
            claim="The former always reaches a number of results in less time.",
            paper="no figure",
            ours=(
                "the latter takes "
                + ", ".join(f"{ratio:.2f} ({name})" for ratio, name in zip(ratios, names, strict=True))
                + " of its time"
            ),
            verdict=verdict(holds=min(ratios) > 1.05, in_shape=min(ratios) > 1),
            why=""
            if min(ratios) > 1.05
            else (
                "The engine joins a batch as a whole before it stores anything, which is the best that any "
                "order within the batch could do. So an order matters at the edges of batches only."
            ),
        ),
    ]


def _both(panel: Panel) -> tuple[list[float], list[float]]:
    curves = panel.by_name()
    return curves[BEST].y, curves[WORST].y


def _join(name: str, seed: int) -> RecordedJoin:
    streams, tuples = POLICIES[name]
    return RecordedJoin(
        MJoinOptions(one_to_many=True, stream_scheduling=streams, tuple_scheduling=tuples, seed=seed)
    )


def _work(join: RecordedJoin, elements: Sequence[Element]) -> list[tuple[int, int]]:
    """Process the elements; return the results and the accesses stored, at each reading."""
    readings = []
    for at in range(0, len(elements), AT_HAND):
        some = elements[at : at + AT_HAND]
        for element in some:
            join.offer(element)
        for _ in range(0, len(some), STEPS):
            join.work(STEPS)
            readings.append((join.counters.results, join.counters.right_inserts))
    return readings


def _inserted(join: RecordedJoin, elements: Sequence[Element], x: Sequence[float]) -> list[float]:
    results, inserted = zip(*_work(join, elements), strict=True)
    return over_results(results, inserted, x)


MEASUREMENTS = [Measurement("mj-8", measure)]

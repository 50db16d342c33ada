"""MJoin's figure 11: purging at once against purging in batches.

Paper: MJoin (WPI), section 6.2, experiment 3: random pattern, purging after every punctuation or after 100.
There a purge scans the state. The engine finds the rows of a closed key by a search, so its times are those
of a *keyed* purge; for the scan, the rows that it looks at are counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from endmark.operators.stream_join.presets import Preset, policy
from endmark_papers.algorithms.contract import Element
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import MJoinOptions
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.engine import EngineJoin, race
from endmark_papers.figures.figure import Claim, Figure, Measurement, Panel, verdict
from endmark_papers.figures.mjoin_streams import followed, grid, news, over_results

ARTICLES = 1_000
PATTERN = "random among 10"
EVERY = (1, 10, 100, 1_000)  # punctuations from one purge to the next
PAPER = (1, 100)
BATCH = 110  # elements of the engine's input, 10 punctuations among them
REPEATS = 5


def measure(scale: float) -> Figure:
    articles = round(ARTICLES * scale)
    inputs = [news(PATTERN, articles, seed) for seed in range(1, REPEATS + 1)]
    panels = [*counted(inputs, articles), timed(inputs[0], REPEATS)]
    return Figure(
        name="mj-11",
        title="MJoin, figure 11: purging at once against purging in batches",
        setup=(
            f"{articles} articles shuffled among 10 neighbours, each with ten accesses, {REPEATS} seeds, "
            "mean and 95 % interval. What a scan looks at is counted in the literal MJoin. Times are of the "
            f"engine's stream join under its preset mjoin, whose purge is keyed, in batches of {BATCH} "
            f"elements, {REPEATS} repeats in turn."
        ),
        panels=panels,
        claims=claims(panels),
    )


def counted(inputs: Sequence[Sequence[Element]], articles: int) -> list[Panel]:
    """Count the rows that a purge by scan looks at, and the rows in state.

    Args:
        inputs: the input of each seed.
        articles: the number of articles in each.
    """
    x = grid(articles)
    runs = {every: [_followed(every, elements, x) for elements in inputs] for every in EVERY}
    names = {every: f"every {every:,}" for every in EVERY}
    scans = [mean_curve(names[every], x, [scanned for scanned, _ in each]) for every, each in runs.items()]
    held = [mean_curve(names[every], x, [rows for _, rows in each]) for every, each in runs.items()]
    return [
        Panel(title="rows that purges scan", x="results", y="rows looked at", curves=scans, log_y=True),
        Panel(title="rows in state", x="results", y="rows in state", curves=held, log_y=True),
    ]


def timed(elements: Sequence[Element], repeats: int) -> Panel:
    """Time the engine's join with each interval of purging, and set that beside purging at once.

    Args:
        elements: the input.
        repeats: timed runs of each.
    """
    joins = {
        every: EngineJoin(policy(Preset.MJOIN, windowed=False, purge_every=every), unique=True)
        for every in EVERY
    }
    batches = joins[1].batches(elements, BATCH)
    courses = race({f"{every}": (join, batches) for every, join in joins.items()}, repeats)
    seconds = {every: [course.seconds[-1] for course in courses[f"{every}"]] for every in EVERY}
    ratios = [
        [eager / lazy for eager, lazy in zip(seconds[1], seconds[every], strict=True)] for every in EVERY
    ]
    return Panel(
        title="keyed purge: time at once / in batches",
        x="punctuations from purge to purge",
        y="ratio of times",
        curves=[
            mean_curve(
                "engine",
                [float(every) for every in EVERY],
                [list(each) for each in zip(*ratios, strict=True)],
                3,
            )
        ],
        log_x=True,
    )


def claims(panels: Sequence[Panel]) -> list[Claim]:
    """Return the paper's claims and what the curves say of them."""
    scans, held, times = panels
    scanned = {every: curve.y[-1] for every, curve in zip(EVERY, scans.curves, strict=True)}
    rows = {every: max(curve.y) for every, curve in zip(EVERY, held.curves, strict=True)}
    eager, lazy = (scanned[every] for every in PAPER)
    ratio = times.curves[0].y[EVERY.index(PAPER[1])]
    return [
        Claim(
            claim="Purging at once takes more time than every 100 punctuations, since it scans the state.",
            paper="no figure",
            ours=(
                f"{eager:,.0f} rows scanned against {lazy:,.0f} for the same results; up to {rows[1]:,.0f} "
                f"rows in state against {rows[100]:,.0f}"
            ),
            verdict=verdict(holds=eager > 2 * lazy, in_shape=eager > lazy),
        ),
        Claim(
            claim="A good time for purging has to be found, since purging at once costs extra.",
            paper="no figure",
            ours=f"with a keyed purge, at once takes {ratio:.2f} of the time of every 100 punctuations",
            verdict=verdict(holds=ratio > 1.5, in_shape=ratio > 1.05),
            why=""
            if ratio > 1.5
            else (
                "The engine finds the rows of a closed key by a search in sorted segments, and scans "
                "nothing. Its purge at once costs a pass over few rows a batch, however many keys are "
                "closed."
            ),
        ),
    ]


def _followed(every: int, elements: Sequence[Element], x: Sequence[float]) -> tuple[list[float], list[float]]:
    join = MetadataJoin(MJoinOptions(one_to_many=True, purge_every=every))
    counters = join.counters
    results, scanned, held = followed(
        elements, join.process, lambda: (counters.results, counters.purge_scans, counters.state_rows)
    )
    return over_results(results, scanned, x), over_results(results, held, x)


MEASUREMENTS = [Measurement("mj-11", measure)]

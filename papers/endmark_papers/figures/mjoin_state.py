"""MJoin's figure 10: rows in state over results, with and without purging.

Paper: MJoin (WPI), section 6.2, experiment 2. MJoin purges after every 100 punctuations and announces
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from endmark_papers.algorithms.contract import Element
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import MJoinOptions
from endmark_papers.algorithms.xjoin import XJoin
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.figure import Claim, Figure, Measurement, Panel, verdict
from endmark_papers.figures.mjoin_streams import ACCESSES, PATTERNS, followed, grid, news, over_results

ARTICLES = 1_000
CROSSING = 0.75  # of the grid, which ends at 95 % of a run's results: at 7,125 of 10,000 at scale 1
REPEATS = 5
OPTIONS = MJoinOptions(one_to_many=True, purge_every=100, propagate=False)


def measure(scale: float) -> Figure:
    articles = round(ARTICLES * scale)
    panels = [_panel(pattern, articles) for pattern in PATTERNS]
    return Figure(
        name="mj-10",
        title="MJoin, figure 10: rows in state over results",
        setup=(
            f"{articles} articles with {ACCESSES} accesses each, in order, shuffled among 10 neighbours, and "
            f"shuffled as a whole. MJoin purges every 100 punctuations. {REPEATS} seeds, mean and 95 % "
            "interval. Counted in the literal algorithms, nothing is spilled."
        ),
        panels=panels,
        claims=claims(panels),
    )


def claims(panels: Sequence[Panel]) -> list[Claim]:
    """Return the paper's claims and what the curves say of them."""
    readings = [round(CROSSING * len(panel.curves[0].x)) - 1 for panel in panels]
    at = panels[0].curves[0].x[readings[0]]
    held = [[curve.y[place] for curve in panel.curves] for panel, place in zip(panels, readings, strict=True)]
    ordered, near, whole = (xjoin / mjoin for xjoin, mjoin in held)
    early = panels[1].curves[0].y[0] / panels[1].curves[1].y[0]
    return [
        Claim(
            claim="In the random pattern purging saves most of the state, and more with more data.",
            paper="no figure",
            ours=(
                f"at {at:,.0f} results XJoin holds {held[1][0]:,.0f} rows and MJoin {held[1][1]:,.0f} if "
                f"articles are shuffled among 10, {held[2][0]:,.0f} and {held[2][1]:,.0f} if as a whole"
            ),
            verdict=verdict(holds=near > 10 and near > early, in_shape=near > 1),
        ),
        Claim(
            claim="The ordered pattern is similar to the random one.",
            paper="no figure",
            ours=(
                f"XJoin holds {ordered:.0f} times MJoin's rows in the ordered pattern, {near:.0f} times if "
                f"articles are shuffled among 10, {whole:.1f} times if as a whole"
            ),
            verdict=verdict(
                holds=near / 2 < ordered < 2 * near and whole / 2 < ordered < 2 * whole,
                in_shape=near / 2 < ordered < 2 * near,
            ),
            why=(
                "It depends on what random means. An article that is shuffled among all comes long before "
                "or after its accesses. Accesses wait for it, and nothing purges them, since articles have "
                "no punctuations. So the paper's random order can only be one among neighbours."
            ),
        ),
    ]


def _panel(pattern: str, articles: int) -> Panel:
    inputs = [news(pattern, articles, seed) for seed in range(1, REPEATS + 1)]
    x = grid(articles)
    runs = {
        "XJoin": [_held(XJoin(None), elements, x) for elements in inputs],
        "MJoin": [_held(MetadataJoin(OPTIONS), elements, x) for elements in inputs],
    }
    return Panel(
        title=pattern,
        x="results",
        y="rows in state",
        curves=[mean_curve(name, x, each) for name, each in runs.items()],
        log_y=True,
    )


def _held(join: XJoin | MetadataJoin, elements: Sequence[Element], x: Sequence[float]) -> list[float]:
    counters = join.counters
    results, held = followed(elements, join.process, lambda: (counters.results, counters.state_rows))
    return over_results(results, held, x)


MEASUREMENTS = [Measurement("mj-10", measure)]

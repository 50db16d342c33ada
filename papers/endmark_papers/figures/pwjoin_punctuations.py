"""PWJoin's figures 11 and 12: output punctuations over time.

Paper: PWJoin (CIKM'04), section 6.3, "Synergy of Punctuation and Window". In figure 11 both streams close
their values, and PWJoin has windows of 1 s. In figure 12 only the second stream does, and it alone has a
window, of 5 s. Rows come every 10 ms on average, and the count is read every second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from endmark_feed.papers.event import Workload
from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import Closing, Element, ReferenceJoin, Side
from endmark_papers.algorithms.pjoin import PJoin
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from endmark_papers.experiments.streams import join_input
from endmark_papers.figures.curves import mean_curve, sampled
from endmark_papers.figures.figure import Claim, Curve, Figure, Measurement, Panel, verdict

ASCENDING, SHUFFLED, UNIFORM = "punct-asc-30-40", "punct-random-30-40", "uniform-15000"
VALUES, ROWS_A_VALUE = 500, 30
STEP = 1.0
WINDOW = 5.0  # of figure 12
REPEATS = 5

Joins = Mapping[str, Callable[[], ReferenceJoin]]


def measure_both_close(scale: float) -> Figure:
    """Measure figure 11."""
    values = round(VALUES * scale)
    panel = _panel(
        parse_workload(ASCENDING, values), parse_workload(SHUFFLED, values), _joins((1.0, 1.0)), closed="both"
    )
    return Figure(
        name="pw-11",
        title="PWJoin, figure 11: output punctuations if both streams close their values",
        setup=_setup(f"{ASCENDING} with {SHUFFLED}, {values} values each, windows of 1 s for PWJoin"),
        panels=[panel],
        claims=claims_both_close([panel]),
    )


def measure_one_closes(scale: float) -> Figure:
    """Measure figure 12."""
    values = round(VALUES * scale)
    panel = _panel(
        parse_workload(UNIFORM, values * ROWS_A_VALUE),
        parse_workload(ASCENDING, values),
        _joins((None, WINDOW)),
        closed="B",
    )
    return Figure(
        name="pw-12",
        title="PWJoin, figure 12: output punctuations if one stream closes its values",
        setup=_setup(
            f"A is {UNIFORM}, without punctuations; B is {ASCENDING} with {values} values and a window of "
            f"{WINDOW:g} s. The paper's text has the window on A, its caption on B, and theorem 4.1 needs B"
        ),
        panels=[panel],
        claims=claims_one_closes([panel]),
    )


def claims_both_close(panels: Sequence[Panel]) -> list[Claim]:
    """Return the claims of figure 11 and what its curves say of them."""
    curves = panels[0].by_name()
    pwjoin, pjoin, strict = (curves[name] for name in ("PWJoin", "PJoin", "PWJoin strict"))
    shares = (0.25, 0.5, 0.75)
    early, late, printed = ([_at(curve, share) for share in shares] for curve in (pwjoin, pjoin, strict))
    ahead = all(more >= less for more, less in zip(pwjoin.y, pjoin.y, strict=True))
    return [
        Claim(
            claim="PWJoin announces more punctuations than PJoin.",
            paper="no figure",
            ours=(
                f"{_counts(early)} against {_counts(late)} after 25, 50 and 75 % of the run; "
                f"{_counts(printed)} by the rules as printed"
            ),
            verdict=verdict(holds=ahead and early[0] > 2 * late[0], in_shape=early[1] > late[1]),
        )
    ]


def claims_one_closes(panels: Sequence[Panel]) -> list[Claim]:
    """Return the claims of figure 12 and what its curves say of them."""
    curves = panels[0].by_name()
    sent, announced, strict, pjoin = (
        curves[name].y for name in ("punctuations of B", "PWJoin", "PWJoin strict", "PJoin")
    )
    first, last = len(sent) // 4, len(sent) - 1
    a_second = (sent[last] - sent[first]) / (STEP * (last - first))
    rate = (announced[last] - announced[first]) / (sent[last] - sent[first])
    behind = [more - less for more, less in zip(sent[first:], announced[first:], strict=True)]
    lag = sum(behind) / len(behind) / a_second
    return [
        Claim(
            claim="PJoin announces nothing.",
            paper="0",
            ours=f"{pjoin[-1]:.0f}",
            verdict=verdict(holds=pjoin[-1] == 0, in_shape=pjoin[-1] < announced[-1] / 10),
        ),
        Claim(
            claim="PWJoin announces punctuations all the time, a window behind those of B.",
            paper="no figure; the window is 5 s",
            ours=(
                f"{rate:.2f} for each of B, {lag:.1f} s behind it; {announced[-1]:.0f} of {sent[-1]:.0f} in "
                f"all, {strict[-1]:.0f} by the rules as printed"
            ),
            verdict=verdict(holds=abs(rate - 1) < 0.1 and abs(lag / WINDOW - 1) < 0.1, in_shape=rate > 0.5),
        ),
    ]


def _panel(left: Workload, right: Workload, joins: Joins, *, closed: str) -> Panel:
    inputs = [join_input(left, right, seed) for seed in range(1, REPEATS + 1)]
    runs = {name: [_announced(join(), each) for each in inputs] for name, join in joins.items()}
    if closed == "B":
        runs = {"punctuations of B": [_sent(each) for each in inputs]} | runs
    samples = min(len(run) for each in runs.values() for run in each)
    x = [STEP * (number + 1) for number in range(samples)]
    return Panel(
        title=f"values closed by {closed}",
        x="event time, s",
        y="output punctuations",
        curves=[mean_curve(name, x, [run[:samples] for run in each]) for name, each in runs.items()],
    )


def _joins(windows: tuple[float | None, float | None]) -> Joins:
    return {
        "PWJoin": lambda: PunctuatedWindowJoin(*windows),
        "PWJoin strict": lambda: PunctuatedWindowJoin(*windows, strict_paper=True),
        "PJoin": PJoin,
    }


def _announced(join: ReferenceJoin, elements: Sequence[Element]) -> list[float]:
    return sampled(join, elements, STEP, lambda: join.counters.announced)


def _sent(elements: Sequence[Element]) -> list[float]:
    """Count the punctuations of B at each reading."""
    times = [each.time for each in elements if isinstance(each, Closing) and each.side is Side.RIGHT]
    readings = int(elements[-1].time / STEP)
    return [sum(time < STEP * number for time in times) for number in range(1, readings + 1)]


def _setup(streams: str) -> str:
    return (
        f"{streams}. {REPEATS} seeds, mean and 95 % interval. Punctuations are counted every {STEP:g} s of "
        "event time, in the literal algorithms."
    )


def _at(curve: Curve, share: float) -> float:
    return curve.y[round(share * len(curve.y)) - 1]


def _counts(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.0f}" for value in values)


MEASUREMENTS = [Measurement("pw-11", measure_both_close), Measurement("pw-12", measure_one_closes)]

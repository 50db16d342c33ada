"""PWJoin's figure 10: the cost of punctuations that match nothing.

Paper: PWJoin (CIKM'04), section 6.2, "Irrelevant punctuations". The streams are `punct-asc-30-40` and
`punct-random-30-40`, but no row ever has a punctuated value. The paper does not give the windows; here they
are 5 s. It counts one hash look-up a punctuation, where 30 rows come for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from endmark.operators.stream_join.presets import Preset, policy
from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import Closing, Element
from endmark_papers.experiments.streams import join_input
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.engine import Course, EngineJoin, race, unpunctuated
from endmark_papers.figures.figure import Claim, Figure, Measurement, Panel, verdict

STREAMS = ("punct-asc-30-40-useless", "punct-random-30-40-useless")
VALUES = 5_000
WINDOW = 5.0
SIZES = (300, 1_000, 3_000, 10_000, 30_000, 100_000)  # elements a batch
BATCHES = 40  # at most, of each size
REPEATS = 5
INSIGNIFICANT = 0.97  # one look-up a punctuation and one a row: 30 / 31

_PUNCTUATED, _PLAIN, _WINDOW_ONLY = "PWJoin", "PWJoin, no punctuations", "WJoin"
_COST, _AGAINST, _LOOKUPS = "PWJoin: with punctuations / without", "PWJoin / WJoin", "look-ups: rows / all"


class Trial(NamedTuple):
    """The runs of each contender on batches of one size.

    Args:
        size: elements a batch.
        rows, closings: rows and punctuations of the whole input.
        courses: the repeats of each contender by name.
    """

    size: int
    rows: int
    closings: int
    courses: dict[str, list[Course]]

    def seconds(self, name: str) -> list[float]:
        return [course.seconds[-1] for course in self.courses[name]]

    @property
    def batches(self) -> int:
        return len(self.courses[_PLAIN][0].seconds)


def measure(scale: float) -> Figure:
    values = round(VALUES * scale)
    trials = run(values, [size for size in SIZES if size <= SIZES[-1] * scale], REPEATS)
    panels = [_ratios(trials), _costs(trials), _segments(trials)]
    return Figure(
        name="pw-10",
        title="PWJoin, figure 10: the cost of punctuations that match nothing",
        setup=(
            f"{STREAMS[0]} with {STREAMS[1]}, {values} values each, windows of {WINDOW:g} s: 30 rows a "
            f"punctuation, and none matches a row. Up to {BATCHES} batches of each size, {REPEATS} repeats "
            "in turn. Times of the engine's stream join under its presets pwjoin and wjoin."
        ),
        panels=panels,
        claims=claims(panels),
    )


def run(values: int, sizes: Sequence[int], repeats: int) -> list[Trial]:
    """Run all contenders on batches of several sizes.

    Args:
        values: the number of values that each stream closes.
        sizes: elements a batch.
        repeats: timed runs of each contender.
    """
    left, right = (parse_workload(name, values) for name in STREAMS)
    elements = join_input(left, right, seed=1)
    return [_trial(elements[: size * BATCHES], size, repeats) for size in sizes]


def claims(panels: Sequence[Panel]) -> list[Claim]:
    """Return the paper's claim, against each of the two joins that it may be about."""
    ratios, costs, segments = panels
    cost, against, lookups = (curve.y for curve in ratios.curves)
    sizes = ratios.curves[0].x
    with_them, without = (curve.y for curve in segments.curves)
    extra = costs.curves[0].y
    span = f"batches of {sizes[0]:,.0f} to {sizes[-1]:,.0f} elements"
    why = (
        f"A batch with punctuations takes {extra[0]:.1f} ms more with {sizes[0] / 31:,.0f} of them and "
        f"{extra[-1]:.1f} ms with {sizes[-1] / 31:,.0f}. The cost is one a batch and not one a punctuation: "
        f"closed keys are segments of their own, {with_them[0]:.1f} segments are written a batch instead of "
        f"{without[0]:.1f}, and each is restored and searched. So the ratio grows with the batch."
    )
    return [
        Claim(
            claim="PWJoin is hardly slower than WJoin on a stream with irrelevant punctuations.",
            paper="no figure; one look-up of 31 is 0.97",
            ours=f"{min(against):.2f} to {max(against):.2f} of WJoin's rate in {span}",
            verdict=verdict(holds=min(against) >= INSIGNIFICANT, in_shape=min(against) > 0.85),
            why=""
            if min(against) >= INSIGNIFICANT
            else "Both read the punctuations; PWJoin also announces them.",
        ),
        Claim(
            claim="Irrelevant punctuations cost PWJoin one look-up each.",
            paper=f"no figure; {lookups[0]:.2f} of the rate without them",
            ours=f"{cost[0]:.2f} to {cost[-1]:.2f} of the rate without them in {span}",
            verdict=verdict(holds=min(cost) >= INSIGNIFICANT, in_shape=cost[-1] >= INSIGNIFICANT),
            why="" if min(cost) >= INSIGNIFICANT else why,
        ),
    ]


def _trial(elements: Sequence[Element], size: int, repeats: int) -> Trial:
    with_punctuations, window_only = (
        EngineJoin(policy(preset, windowed=True), (WINDOW, WINDOW))
        for preset in (Preset.PWJOIN, Preset.WJOIN)
    )
    batches = with_punctuations.batches(elements, size)
    courses = race(
        {
            _PUNCTUATED: (with_punctuations, batches),
            _PLAIN: (with_punctuations, unpunctuated(batches)),
            _WINDOW_ONLY: (window_only, batches),
        },
        repeats,
    )
    closings = sum(isinstance(each, Closing) for each in elements)
    return Trial(size, len(elements) - closings, closings, courses)


def _ratios(trials: Sequence[Trial]) -> Panel:
    sizes = [float(trial.size) for trial in trials]

    def rates(name: str, base: str) -> list[list[float]]:
        """Return the rate of `name` over that of `base`, for each repeat and size."""
        pairs = [zip(trial.seconds(base), trial.seconds(name), strict=True) for trial in trials]
        by_size = [[theirs / mine for theirs, mine in each] for each in pairs]
        return [list(repeat) for repeat in zip(*by_size, strict=True)]

    lookups = [trial.rows / (trial.rows + trial.closings) for trial in trials]
    return Panel(
        title="rates compared",
        x="elements a batch",
        y="ratio of rates",
        curves=[
            mean_curve(_COST, sizes, rates(_PUNCTUATED, _PLAIN), 3),
            mean_curve(_AGAINST, sizes, rates(_PUNCTUATED, _WINDOW_ONLY), 3),
            mean_curve(_LOOKUPS, sizes, [lookups], 3),
        ],
        log_x=True,
    )


def _costs(trials: Sequence[Trial]) -> Panel:
    extra = [
        1e3 * (median(trial.seconds(_PUNCTUATED)) - median(trial.seconds(_PLAIN))) / trial.batches
        for trial in trials
    ]
    whole = [1e3 * median(trial.seconds(_PLAIN)) / trial.batches for trial in trials]
    sizes = [float(trial.size) for trial in trials]
    return Panel(
        title="time of a batch",
        x="elements a batch",
        y="ms",
        curves=[
            mean_curve("more for punctuations", sizes, [extra], 2),
            mean_curve("without punctuations", sizes, [whole], 2),
        ],
        log_x=True,
        log_y=True,
    )


def _segments(trials: Sequence[Trial]) -> Panel:
    return Panel(
        title="segments written",
        x="elements a batch",
        y="segments a batch",
        curves=[
            mean_curve(
                label,
                [float(trial.size) for trial in trials],
                [[trial.courses[name][0].written[-1] / trial.batches for trial in trials]],
                2,
            )
            for label, name in (("with punctuations", _PUNCTUATED), ("without", _PLAIN))
        ],
        log_x=True,
    )


MEASUREMENTS = [Measurement("pw-10", measure)]

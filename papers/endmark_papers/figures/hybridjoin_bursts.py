"""HYBRIDJOIN's figure 9: a stream that comes in bursts, at four scales of time.

Paper: HYBRIDJOIN (UoA-SE-2010-2), section 5 and figure 7. In the printed generator, a source is on or off for
a uniform time, so bursts even out beyond the longest such time. The paper calls the arrivals self-similar. So
our feed has heavy-tailed times instead (`endmark_feed.bursts`), and both are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from endmark_feed.bursts import BANDWIDTHS, STEP_SECONDS, arrival_blocks
from endmark_feed.options import random_stream
from endmark_papers.figures.curves import mean_curve
from endmark_papers.figures.figure import Claim, Curve, Figure, Measurement, Panel, verdict

SECONDS, RATE = 40_000, 100
WIDTHS = (0.1, 1.0, 10.0, 100.0)
BINS = 60
SPANS = (10, 20, 40, 80, 160, 320, 640)
SEEDS = range(1, 4)

Floats = NDArray[np.float64]
Random = np.random.Generator


def measure(scale: float) -> Figure:
    seconds = round(SECONDS * scale)
    at = _ours(random_stream(SEEDS[0], "bursts"), seconds)
    curves = [_scale(at, width) for width in WIDTHS if width * BINS <= seconds]
    panels = [
        Panel(
            title=f"{BINS} intervals of {' and '.join(curve.name for curve in some)}",
            x="interval",
            y="rows over their mean",
            curves=some,
        )
        for some in (curves[:2], curves[2:])
    ]
    panels.append(_variances(seconds))
    return Figure(
        name="hj-9",
        title="HYBRIDJOIN, figure 9: bursts at four scales of time",
        setup=(
            f"{RATE} rows a second on average for {seconds:,} s. The slope is of {len(SEEDS)} seeds, mean "
            "and 95 % interval."
        ),
        panels=panels,
        claims=claims(panels),
    )


def claims(panels: Sequence[Panel]) -> list[Claim]:
    """Return the paper's claims and what the curves say of them."""
    peaks = [(curve.name, max(curve.y)) for panel in panels[:-1] for curve in panel.curves]
    ours, printed, even = (_hurst(curve) for curve in panels[-1].curves)
    return [
        Claim(
            claim="The flow of transactions varies with time and is bursty.",
            paper="no figure",
            ours=(
                "the highest interval over the mean: "
                f"{', '.join(f'{peak:.1f} at {name}' for name, peak in peaks)}"
            ),
            verdict=verdict(holds=all(peak > 1.2 for _, peak in peaks), in_shape=peaks[0][1] > 1.2),
        ),
        Claim(
            claim="With heavy-tailed times of the sources, arrivals are self-similar.",
            paper="self-similar, no figure",
            ours=(
                f"Hurst's exponent is {ours:.2f}, and {even:.2f} of arrivals that do not depend on each other"
            ),
            verdict=verdict(holds=0.6 < ours < 0.95, in_shape=ours > even),
        ),
        Claim(
            claim="The generator as printed, with uniform times, is self-similar.",
            paper="self-similar, no figure",
            ours=f"Hurst's exponent is {printed:.2f} for 10 s and longer",
            verdict=verdict(holds=0.6 < printed < 0.95, in_shape=False),
            why=(
                "A source is never on or off for longer than the step times its bandwidth, which is "
                f"{STEP_SECONDS * BANDWIDTHS[-1]:.0f} s. Beyond that the bursts even out."
            ),
        ),
    ]


def _scale(at: Floats, width: float) -> Curve:
    counts = np.histogram(at, bins=BINS, range=(0, width * BINS))[0]
    rows = (counts / counts.mean()).round(3).tolist()
    return Curve(name=f"{width:g} s", x=list(range(1, BINS + 1)), y=rows)


def _variances(seconds: int) -> Panel:
    spans = [span for span in SPANS if span * BINS <= seconds]
    makers: dict[str, Callable[[Random, int], Floats]] = {
        "heavy-tailed, as our feed": _ours,
        "uniform, as printed": _printed,
        "independent": lambda random, until: random.random(RATE * until) * until,
    }
    return Panel(
        title="variance of means over time",
        x="interval, s",
        y="variance, relative to that of 10 s",
        log_x=True,
        log_y=True,
        curves=[
            mean_curve(
                name,
                spans,
                [_means(make(random_stream(seed, "bursts"), seconds), seconds, spans) for seed in SEEDS],
                digits=5,
            )
            for name, make in makers.items()
        ],
    )


def _means(at: Floats, seconds: int, spans: Sequence[int]) -> list[float]:
    """Return the variance of the mean rate over each span, relative to that of the shortest span."""
    counts = np.histogram(at, bins=seconds, range=(0, seconds))[0]
    found = [counts[: seconds // span * span].reshape(-1, span).mean(axis=1).var() for span in spans]
    return [float(each / found[0]) for each in found]


def _hurst(curve: Curve) -> float:
    """Return Hurst's exponent H: the variance of means over m seconds falls as m^(2H - 2)."""
    return 1 + float(np.polyfit(np.log(curve.x), np.log(curve.y), 1)[0]) / 2


def _ours(random: Random, seconds: int) -> Floats:
    return np.concatenate(list(arrival_blocks(random, RATE * seconds, float(seconds))))


def _printed(random: Random, seconds: int) -> Floats:
    """Return arrivals as printed: a source is on or off for at most a step times its bandwidth."""
    switches, changes = [], []
    for bandwidth in BANDWIDTHS:
        longest = STEP_SECONDS * bandwidth
        at = np.cumsum(random.random(int(3 * seconds / longest) + 100) * longest)
        at = at[at < seconds]
        switches.append(at)
        changes.append(np.where(np.arange(at.size) % 2, -bandwidth, bandwidth))
    times = np.concatenate(switches)
    order = np.argsort(times)
    levels = np.cumsum(np.concatenate(changes)[order])
    times = np.append(times[order], seconds)
    load = np.append(0.0, np.cumsum(levels * np.diff(times)))
    arrivals: Floats = np.interp(np.linspace(0, load[-1], RATE * seconds, endpoint=False), load, times)
    return arrivals


MEASUREMENTS = [Measurement("hj-9", measure)]

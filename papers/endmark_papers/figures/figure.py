"""A figure: its curves, the paper's claim about them, and whether ours agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from endmark_papers.experiments.report import Figures


class Verdict(StrEnum):
    """How our curves compare with the paper's claim."""

    HOLDS = "holds"
    IN_SHAPE = "holds in shape"
    FAILS = "does not hold"


class Curve(Figures):
    """The points of one curve, by ascending `x`.

    Args:
        name: the curve's name in the legend.
        x: the positions of its points, in the unit of the panel's `x` axis.
        y: the mean of the repeats at each point, in the unit of the panel's `y` axis.
        low, high: the ends of the 95 % interval of each mean; empty without repeats.
    """

    name: str
    x: list[float]
    y: list[float]
    low: list[float] = Field(default=[])
    high: list[float] = Field(default=[])


class Panel(Figures):
    """One pair of axes.

    Args:
        title: what this panel shows, such as `ordered` or `window of 5 s`.
        x, y: the labels of the axes, with their units.
        curves: what is drawn.
        log_x, log_y: whether an axis is logarithmic.
    """

    title: str
    x: str
    y: str
    curves: list[Curve]
    log_x: bool = False
    log_y: bool = False

    def by_name(self) -> dict[str, Curve]:
        """Return the curves by their names."""
        return {curve.name: curve for curve in self.curves}


class Claim(Figures):
    """One claim of a paper about a figure, as one row of the table of claims.

    Args:
        claim: what the paper says, in one sentence.
        paper: the paper's own figures for it; "no figure" if it prints none.
        ours: what we measured, with its figures.
        verdict: how they compare.
        why: the measured reason; empty if the claim holds.
    """

    claim: str
    paper: str
    ours: str
    verdict: Verdict
    why: str = ""


class Figure(Figures):
    """One figure of a paper, measured anew.

    Args:
        name: a short name, such as `mj-8`, which is also the name of its files.
        title: what it shows, with the paper's number of the figure.
        setup: how it was measured: workload, sizes, repeats.
        panels: its panels, from left to right.
        claims: the paper's claims about it.
    """

    name: str
    title: str
    setup: str
    panels: list[Panel]
    claims: list[Claim]


class Measurement(NamedTuple):
    """How a figure is measured.

    Args:
        name: the figure's name.
        measure: takes a scale and returns the figure. At scale 1 it has the sizes that are published. A test
            takes a smaller scale, at which the verdicts are the same.
    """

    name: str
    measure: Callable[[float], Figure]


def verdict(*, holds: bool, in_shape: bool) -> Verdict:
    """Return the verdict on a claim of which the figures or only the direction agree."""
    if holds:
        return Verdict.HOLDS
    return Verdict.IN_SHAPE if in_shape else Verdict.FAILS


def claims_table(figures: Sequence[Figure]) -> list[list[str]]:
    """Return a row of texts for each claim: figure, claim, paper, ours, verdict and why."""
    return [
        [figure.name, claim.claim, claim.paper, claim.ours, claim.verdict.value, claim.why]
        for figure in figures
        for claim in figure.claims
    ]

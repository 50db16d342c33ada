"""Curves from runs that were repeated with other seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from endmark_papers.algorithms.contract import Element, ReferenceJoin
from endmark_papers.experiments.report import half_interval
from endmark_papers.figures.figure import Curve


def mean_curve(name: str, x: Sequence[float], runs: Sequence[Sequence[float]], digits: int = 1) -> Curve:
    """Return the mean of some runs with its 95 % interval.

    Args:
        name: the curve's name.
        x: the positions of its points.
        runs: runs, each with a value for every position; a single run has no interval.
        digits: decimals kept of each value.
    """
    values = np.array(runs, float)
    means = values.mean(axis=0)
    if len(runs) == 1:
        return Curve(name=name, x=list(x), y=_rounded(means, digits))
    half = np.array([half_interval(column) for column in values.T.tolist()])
    return Curve(
        name=name,
        x=list(x),
        y=_rounded(means, digits),
        low=_rounded(means - half, digits),
        high=_rounded(means + half, digits),
    )


def sampled(
    join: ReferenceJoin, elements: Sequence[Element], step: float, read: Callable[[], float]
) -> list[float]:
    """Run a join and read a number at every `step` of event time, first after one step.

    Args:
        join: the join, which has seen nothing yet.
        elements: its whole input, in order of time.
        step: the time between two readings, in the unit of the elements' time.
        read: returns the number.
    """
    found, due = list[float](), step
    for element in elements:
        while element.time >= due:
            found.append(read())
            due += step
        join.process(element)
    return found


def _rounded(values: np.ndarray[tuple[int], np.dtype[np.float64]], digits: int) -> list[float]:
    return [round(value, digits) for value in values.tolist()]

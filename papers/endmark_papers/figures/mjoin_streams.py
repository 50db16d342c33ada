"""The streams of MJoin's experiments, and how its algorithms are followed over results.

Paper: MJoin (WPI), section 6.1. News articles (the left stream) are joined with accesses to the latest ten
of them (the right one), which close an article when it leaves these ten. The paper gives no number of
accesses; here each article has ten. In its *ordered* pattern articles come by their number, in its *random*
pattern "in some random order". That has two readings: articles change places with their neighbours, or with
any other one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import merge

import numpy as np

from endmark.punctuation.pattern import Equals
from endmark_feed.papers.names import parse_workload
from endmark_papers.algorithms.contract import Closing, Element, Row, Side

# The patterns by name, with the names of their workloads.
PATTERNS = {
    "ordered": "news-articles-ordered",
    "random among 10": "news-articles-random-10",
    "random among all": "news-articles-random",
}
ACCESSES = 10  # results of an article


def news(pattern: str, articles: int, seed: int) -> list[Element]:
    """Return articles and accesses in order of time.

    Args:
        pattern: one of `PATTERNS`.
        articles: the number of articles, each with ten accesses.
        seed: equal seeds give equal streams.
    """
    streams = {Side.LEFT: PATTERNS[pattern], Side.RIGHT: "news-accesses"}
    return list(
        merge(*(_stream(side, name, articles, seed) for side, name in streams.items()), key=lambda e: e.time)
    )


def _stream(side: Side, name: str, articles: int, seed: int) -> list[Element]:
    return [
        Closing(side, Equals(event.key), event.seconds)
        if event.closes
        else Row(side, event.key, event.seconds, event.serial)
        for event in parse_workload(name, articles).events(seed)
    ]


def grid(articles: int, points: int = 40) -> list[float]:
    """Return evenly spaced numbers of results, up to nearly all results of a run."""
    last = articles * ACCESSES * 19 // 20
    return [float(round(last * (number + 1) / points)) for number in range(points)]


def over_results(results: Sequence[float], values: Sequence[float], x: Sequence[float]) -> list[float]:
    """Return the values of a run when it had so many results.

    Args:
        results: results so far, at each reading.
        values: the value at each reading.
        x: the numbers of results.
    """
    return [float(value) for value in np.interp(x, results, values)]


def followed(
    elements: Sequence[Element], process: Callable[[Element], object], read: Callable[[], tuple[float, ...]]
) -> list[tuple[float, ...]]:
    """Give each element to `process`, and return the columns of what `read` returns after each."""
    readings = []
    for element in elements:
        process(element)
        readings.append(read())
    return list(zip(*readings, strict=True))

"""The input of a stream join, made of two streams of the papers."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from endmark.punctuation.pattern import Equals
from endmark_feed.papers.event import Workload
from endmark_papers.algorithms.contract import Closing, Element, Row, Side


def join_input(left: Workload, right: Workload, seed: int) -> list[Element]:
    """Return the elements of two streams in the order of their event time, which is in seconds.

    Args:
        left: the left stream.
        right: the right stream.
        seed: the seed from which each stream's own seed is derived.
    """
    sides = (_elements(Side.LEFT, left, 2 * seed), _elements(Side.RIGHT, right, 2 * seed + 1))
    return list(merge(*sides, key=lambda element: element.time))


def _elements(side: Side, workload: Workload, seed: int) -> Iterator[Element]:
    for event in workload.events(seed):
        if event.closes:
            yield Closing(side, Equals(event.key), event.seconds)
        else:
            yield Row(side, event.key, event.seconds, event.serial)

"""Makes a failing case small: fewer faults, then fewer records, as long as it still fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from simulation.case import Case

T = TypeVar("T")


def shrunk(case: Case, seconds: float) -> Case:
    """Return a smaller case that fails, too.

    Args:
        case: a case that fails.
        seconds: of this process's CPU, about the most to look for it.
    """
    until = time.process_time() + seconds

    def fails(smaller: Case) -> bool:
        return time.process_time() < until and smaller.judged()[1] is not None

    outcome, _ = case.judged()
    schedule = replace(case.schedule, only=tuple(outcome.injected))
    case = case._replace(schedule=schedule)
    only = _least(
        tuple(outcome.injected),
        lambda names: fails(case._replace(schedule=replace(schedule, only=tuple(names)))),
    )
    case = case._replace(schedule=replace(schedule, only=tuple(only)))
    records = _least(
        case.world.records,
        lambda left: fails(case._replace(world=replace(case.world, records=list(left)))),
    )
    return case._replace(world=replace(case.world, records=list(records), noise={}))


def _least(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> Sequence[T]:
    """Return few items with which it still fails: drop ever smaller runs of them."""
    if items and fails(items[:0]):
        return items[:0]
    size = len(items) // 2
    while size:
        at = 0
        while at < len(items):
            left = [*items[:at], *items[at + size :]]
            if fails(left):
                items = left
            else:
                at += size
        size //= 2
    return items

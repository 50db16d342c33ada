"""Stream scheduling: from which queue MJoin takes the next object (section 4.1)."""

from __future__ import annotations

import random
from typing import Protocol

from endmark_papers.algorithms.contract import Side
from endmark_papers.algorithms.mjoin_options import MJoinOptions, StreamScheduling


class StreamScheduler(Protocol):
    """Chooses between two queues that are both not empty, and is told of every object taken."""

    def choose(self) -> Side:
        """The side whose turn it is."""
        ...

    def took(self, side: Side) -> None:
        """An object of this side was taken, by choice or because the other queue was empty."""
        ...


class RandomScheduler:
    """Either queue with equal chance."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # a draw that repeats, not a secret

    def choose(self) -> Side:
        return self._random.choice((Side.LEFT, Side.RIGHT))

    def took(self, side: Side) -> None:
        pass


class PriorityScheduler:
    """The left queue until its quota is used, then the right until its, and so on.

    Of two iterators within their quota the left one goes first, so a left queue that ran empty early is
    returned to as soon as it has something. A used quota sets the other side's iterator to 0 (section 5.3
    says the quota), hence never are both used.
    """

    def __init__(self, quota: int) -> None:
        self._quota = quota
        self._taken = dict.fromkeys(Side, 0)

    def choose(self) -> Side:
        return Side.LEFT if self._taken[Side.LEFT] < self._quota else Side.RIGHT

    def took(self, side: Side) -> None:
        self._taken[side] += 1
        if self._taken[side] >= self._quota:
            self._taken[side.other] = 0


def scheduler(options: MJoinOptions) -> StreamScheduler:
    if options.stream_scheduling is StreamScheduling.RANDOM:
        return RandomScheduler(options.seed)
    return PriorityScheduler(options.quota)

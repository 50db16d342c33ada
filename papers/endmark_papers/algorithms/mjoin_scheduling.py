"""Stream scheduling: the choice of the queue from which MJoin takes the next object (section 4.1)."""

from __future__ import annotations

import random
from typing import Protocol

from endmark_papers.algorithms.contract import Side
from endmark_papers.algorithms.mjoin_options import MJoinOptions, StreamScheduling


class StreamScheduler(Protocol):
    """The interface of a scheduler, which chooses between two queues when neither is empty."""

    def choose(self) -> Side:
        """Return the side whose turn it is."""
        ...

    def took(self, side: Side) -> None:
        """Note that an object of a side was taken, by choice or because the other queue was empty."""
        ...


class RandomScheduler:
    """A scheduler that chooses either queue with equal chance."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  # a draw that repeats, not a secret

    def choose(self) -> Side:
        return self._random.choice((Side.LEFT, Side.RIGHT))

    def took(self, side: Side) -> None:
        pass


class PriorityScheduler:
    """A scheduler that serves the left queue until its quota is used, then the right one, and so on.

    While both quotas last, the left queue goes first. So the scheduler returns to a left queue that ran empty
    early as soon as it has something. A used quota sets the other side's iterator to 0 (section 5.3 says: to
    the quota), so both quotas are never used up at once.
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

"""The moments at which a demo kills its job."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Kills:
    """The moments at which a demo kills its job: evenly over the feed's time, each after new progress.

    Args:
        number: how often the job is to be killed.
        seconds: how long the feed runs, from now on.
        clock: returns seconds.
    """

    def __init__(self, number: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.number = number
        self.done = 0
        self._seconds = seconds
        self._clock = clock
        self._begin = clock()
        self._batch = -1  # the newest batch when the job was last killed

    def due(self, batch: int) -> bool:
        """Return whether the job is to be killed now, and count this kill.

        Args:
            batch: the number of the newest batch that the job has finished; -1 before the first one.
        """
        if self.done == self.number or batch <= self._batch:
            return False
        if self._clock() - self._begin < self._seconds * (self.done + 1) / (self.number + 1):
            return False
        self.done += 1
        self._batch = batch
        return True

"""The simulated clock: time moves only when the simulation, a pause or a look at a stopwatch moves it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from unittest.mock import patch

_START = int(datetime(2026, 6, 1, tzinfo=UTC).timestamp()) * 10**9
# Each look at a stopwatch takes some time, so that no measured cost is zero.
_LOOK = 1_000


class Clock:
    """Nanoseconds since 1970."""

    def __init__(self) -> None:
        self.now = _START

    def move(self, seconds: float) -> None:
        """Let time pass."""
        self.now += round(seconds * 1e9)

    @property
    def seconds(self) -> float:
        """Unix time."""
        return self.now / 1e9

    @contextmanager
    def running(self) -> Iterator[None]:
        """Modules that ask `time` get this clock's."""
        with patch.multiple(
            time,
            time=lambda: self.now / 1e9,
            time_ns=lambda: self.now,
            monotonic=self._looked,
            perf_counter=self._looked,
            sleep=self.move,
        ):
            yield

    def _looked(self) -> float:
        self.now += _LOOK
        return self.now / 1e9

"""The simulated clock: time moves only when the simulation, a pause or a look at a stopwatch moves it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from typing import Any
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
        """Let modules that ask `time` on this thread get the simulated one.

        Other threads get the real one. Those of earlier tests in the same process moved the clock, so a seed
        did not always repeat.
        """
        simulated: dict[str, Callable[..., Any]] = {
            "time": lambda: self.now / 1e9,
            "time_ns": lambda: self.now,
            "monotonic": self._looked,
            "perf_counter": self._looked,
            "sleep": self.move,
        }
        with ExitStack() as patched:
            for name, ours in simulated.items():
                patched.enter_context(patch.object(time, name, _on_this_thread(ours, getattr(time, name))))
            yield

    def _looked(self) -> float:
        self.now += _LOOK
        return self.now / 1e9


def _on_this_thread(ours: Callable[..., Any], real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is `ours` on this thread, and `real` on all others."""
    mine = threading.get_ident()

    def asked(*given: Any) -> Any:
        return ours(*given) if threading.get_ident() == mine else real(*given)

    return asked

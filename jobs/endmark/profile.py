"""The profile of a task: its seconds by phase, measured for blocks of work and never for single rows."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from endmark.metrics import Samples, sample

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")


class Profile:
    """Seconds by phase. Phases nest. A second counts only for the innermost phase, so the phases add up."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._phase: str | None = None
        self._since = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the body for the phase of this name."""
        outer = self._switch(name)
        try:
            yield
        finally:
            self._switch(outer)

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """Yield the items, and count the wait for each of them for the phase of this name."""
        iterator = iter(items)
        while True:
            with self.phase(name):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def _switch(self, name: str | None) -> str | None:
        now, outer = self._clock(), self._phase
        if outer is not None:
            self._seconds[outer] += now - self._since
        self._phase, self._since = name, now
        return outer

    def take(self) -> Samples:
        """Return the seconds by phase since the last call, as samples."""
        self._switch(self._phase)
        taken = {sample("profile_seconds_total", phase=name): spent for name, spent in self._seconds.items()}
        self._seconds.clear()
        return taken

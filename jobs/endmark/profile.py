"""The profile of a task: seconds by phase, measured around blocks of work and never around rows."""

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
    """Seconds by phase. Phases nest, and a second counts for the innermost one alone, so they add up."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._phase: str | None = None
        self._since = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block as this phase."""
        outer = self._switch(name)
        try:
            yield
        finally:
            self._switch(outer)

    def each(self, name: str, items: Iterable[T]) -> Iterator[T]:
        """The items; the wait for each of them is of this phase."""
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
        """The seconds since this was last asked for, as samples."""
        self._switch(self._phase)
        taken = {sample("profile_seconds_total", phase=name): spent for name, spent in self._seconds.items()}
        self._seconds.clear()
        return taken

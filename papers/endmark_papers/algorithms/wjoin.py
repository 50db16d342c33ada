"""WJoin: a hash join within sliding windows, which knows no punctuations.

Definition: each side has a hash table and a list in time order. An arrival first invalidates the rows of the
other side that left their window before it, then probes the other table, then enters its own. Rows join
when their keys are equal and the later is within the window of the earlier, the bound included.

Paper: WJoin, PWJoin's baseline (CIKM'04, section 6); Kang, Naughton and Viglas, ICDE'03.

Deviations: none. Input must come in time order, as in the paper. Only arrivals of the other side invalidate
a side's rows, so they stay while the other side is silent.

Complexity: an arrival costs the rows of its key and the rows it invalidates. In steady input the state is
rate times window, summed over the sides.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from itertools import chain

from endmark.errors import ConfigError
from endmark_papers.algorithms.contract import Closing, Counters, Element, Output, Result, Row, Side


@dataclass(slots=True)
class _State:
    """One side's rows, by key and by time."""

    window: float | None
    table: dict[Hashable, deque[Row]] = field(default_factory=dict)
    timeline: deque[Row] = field(default_factory=deque)

    def insert(self, row: Row) -> None:
        self.table.setdefault(row.key, deque()).append(row)
        self.timeline.append(row)

    def invalidate(self, now: float) -> int:
        """Drop the rows whose window ended before `now`, and return their number."""
        before = len(self.timeline)
        while self.window is not None and self.timeline and self.timeline[0].time + self.window < now:
            key = self.timeline.popleft().key
            self.table[key].popleft()  # the oldest row of all is the oldest of its key
            if not self.table[key]:
                del self.table[key]
        return before - len(self.timeline)

    @property
    def nodes(self) -> int:
        return len(self.table) + len(self.timeline)


class WindowJoin:
    """A join whose state is bounded by time.

    Args:
        left_window: the time for which a left row joins later right rows, in the unit of the rows' time;
            `None`: for ever.
        right_window: the same for right rows.

    Raises:
        ConfigError: a window is negative.
    """

    def __init__(self, left_window: float | None, right_window: float | None) -> None:
        for window in (left_window, right_window):
            if window is not None and window < 0:
                raise ConfigError(f"a window is a length of time, not {window}")
        self.counters = Counters()
        self._states = {Side.LEFT: _State(left_window), Side.RIGHT: _State(right_window)}

    def process(self, element: Element) -> list[Output]:
        if isinstance(element, Closing):
            return []
        own, other = self._states[element.side], self._states[element.side.other]
        invalidated = other.invalidate(element.time)
        partners = other.table.get(element.key, ())
        own.insert(element)
        self.counters.invalidated += invalidated
        self.counters.hold(-invalidated)
        self.counters.probes += len(partners)
        self.counters.results += len(partners)
        self.counters.inserts += 1
        self.counters.hold(1)
        self.counters.state_nodes = own.nodes + other.nodes
        return [Result.of(element, partner) for partner in partners]

    def idle(self) -> list[Output]:
        return []

    def finish(self) -> list[Output]:
        return []

    def live(self) -> Iterator[Row]:
        return chain(*(state.timeline for state in self._states.values()))

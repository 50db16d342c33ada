"""PWJoin of n streams: one operator joins a row of each side, and stores no intermediate results.

Definition: a result is one row of each side. Its rows have equal keys, and of every two of them the later
one comes within the window of the earlier, the bound included. An element first invalidates the rows of the
n - 1 other sides that have left their windows. A row then probes these sides, the smallest answer first, and
is stored if a later element can give a result with it. A value is *over* once all sides have closed it, or
once a side that has closed it holds no row of it. It is then announced, and all its rows are purged, also
those of sides that have not closed it. Before that, a side's rows of a value are purged when all other sides
have closed it.

Windows: every two rows of a result are within their windows exactly if the window of each row reaches the
last row. So the last row joins whatever the other sides still hold of its key, and no pair is compared. The
rules free every row that no later element can join, and announce every value without results to come, as far
as the elements of other sides than the row's tell the time.

Chains: let a chain of binary joins give a joined row the time of its later row, and the shorter one of their
windows. The chain finds all results of this join, and more, since the joined row outlives the window of its
earlier row. What it finds more depends on the order of its joins. It finds the same if only the side that is
joined last has a window, or if every two rows of its results are compared once more.

Paper: PWJoin (CIKM'04), section 7: future work, of which it names the n - 1 probes and nothing else. All
inputs come in one common order of time.

Deviations: the paper has no algorithm for n sides, so the definition is ours. With two sides every output is
that of PWJoin, which has `strict_paper` besides. As in PWJoin, an element does not invalidate rows of its own
side: they stay until an element of another side comes. A row that breaks a closing invalidates nothing.

Complexity: a row costs a look-up in each side, at most n - 1 steps for each of its results, and the rows that
it invalidates. A closed value costs its rows. An interval looks at all values held.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, cast

from endmark.domain import Domain
from endmark.errors import ConfigError
from endmark.punctuation.pattern import Anything, Between, Equals, OneOf, Pattern, Value
from endmark.punctuation.ranges import Ranges
from endmark_papers.algorithms.contract import Announced, Counters


class NaryRow(NamedTuple):
    """A data row of a stream.

    Args:
        side: the name of the input of the join that the stream is.
        key: the value of the join key, never null.
        time: event time, in any unit that all streams share.
        serial: tells apart rows of equal key and time.
    """

    side: str
    key: Hashable
    time: float
    serial: int


class NaryClosing(NamedTuple):
    """A punctuation: no more rows of a side come whose join key matches a pattern.

    Args:
        side: the name of the input that promises it.
        pattern: the keys that it closes.
        time: event time, in the unit of the rows.
    """

    side: str
    pattern: Pattern
    time: float


class NaryResult(NamedTuple):
    """Joined rows, one of each side, in the order in which the sides were named."""

    rows: tuple[NaryRow, ...]


class NaryViolation(NamedTuple):
    """A row that its own stream had ruled out, and that is therefore not joined."""

    row: NaryRow


NaryElement = NaryRow | NaryClosing
NaryOutput = NaryResult | Announced | NaryViolation


class NaryPunctuatedWindowJoin:
    """An inner join of rows of equal key, one of each side, every two of them within their windows.

    Args:
        windows: by the name of each side, the time for which a row of it joins later rows, in the unit of the
            rows' time, both bounds included; `None`: for ever.
        domain: the type of the keys.

    Raises:
        ConfigError: fewer than two sides are named, or a window is negative.
    """

    def __init__(self, windows: Mapping[str, float | None], domain: Domain = Domain.LONG) -> None:
        if len(windows) < 2:
            raise ConfigError(f"a join needs two sides or more, not {len(windows)}")
        for side, window in windows.items():
            if window is not None and window < 0:
                raise ConfigError(f"the window of {side} is a duration or None, not {window}")
        self.counters = Counters()
        self._states = {side: _SideState(window, domain, self.counters) for side, window in windows.items()}
        self._domain = domain
        self._waiting: set[Value] = set()
        """Values that a side has closed and that are not over."""
        self._settled = Ranges(domain)
        """Values that are announced, or waiting."""

    def process(self, element: NaryElement) -> list[NaryOutput]:
        """Process one element, and return its outputs. No result follows an announcement of its key."""
        return self._close(element) if isinstance(element, NaryClosing) else self._join(element)

    def live(self) -> Iterator[NaryRow]:
        """Yield all rows held."""
        for state in self._states.values():
            for rows in state.rows.values():
                yield from rows

    def _join(self, row: NaryRow) -> list[NaryOutput]:
        key = cast("Value", row.key)
        if self._states[row.side].closed.contains(key):
            self.counters.violations += 1
            return [NaryViolation(row)]
        outputs: list[NaryOutput] = [*self._invalidate(row.side, row.time), *self._results(row)]
        if self._is_over(key) or self._others_have_closed(row.side, key):
            self.counters.dropped += 1
        else:
            self._states[row.side].insert(key, row)
        return outputs

    def _results(self, row: NaryRow) -> list[NaryResult]:
        answers = {
            side: state.rows.get(cast("Value", row.key), ())
            for side, state in self._states.items()
            if side != row.side
        }
        found = [{row.side: row}]
        # An empty answer is the smallest, and then no other is looked at.
        for side in sorted(answers, key=lambda side: len(answers[side])):
            found = [joined | {side: partner} for joined in found for partner in answers[side]]
            self.counters.probes += len(found)
        self.counters.results += len(found)
        return [NaryResult(tuple(joined[side] for side in self._states)) for joined in found]

    def _close(self, closing: NaryClosing) -> list[NaryOutput]:
        new = self._states[closing.side].close(closing.pattern)
        outputs: list[NaryOutput] = [*self._invalidate(closing.side, closing.time)]
        for key in self._named(closing):
            if any(pattern.matches(key) for pattern in new):
                outputs += self._settle(key)
        if isinstance(closing.pattern, Equals | OneOf):
            return outputs
        # Of all other values no side holds a row, so they are over with the first closing.
        return [*outputs, *self._announce(new)]

    def _named(self, closing: NaryClosing) -> list[Value]:
        """Return the values to close one by one."""
        match closing.pattern:
            case Equals(value):
                return [value]
            case OneOf(values):
                return sorted(values, key=self._domain.below)
            case _:
                others = (state.rows for side, state in self._states.items() if side != closing.side)
                held = [self._states[closing.side].rows, *others]
                return list(dict.fromkeys(key for rows in held for key in rows))

    def _invalidate(self, side: str, now: float) -> list[Announced]:
        """Remove rows of all other sides that have left their windows; announce the values that this ends."""
        ended = [
            key
            for other, state in self._states.items()
            if other != side
            for key in state.invalidate(now)
            if state.closed.contains(key)
        ]
        return [output for key in ended for output in self._settle(key)]

    def _settle(self, key: Value) -> list[Announced]:
        """Purge the rows of a closed value that no later element can join, and announce it if it is over."""
        over = self._is_over(key)
        for side, state in self._states.items():
            if over or self._others_have_closed(side, key):
                state.purge(key)
        if not over:
            self._waiting.add(key)
            self._settled.add(Equals(key))
            return []
        if key in self._waiting:
            self._waiting.remove(key)
            return self._emit([Equals(key)])
        return self._announce([Equals(key)])

    def _is_over(self, key: Value) -> bool:
        """Return whether no later element can give a result of this key."""
        closed = [state for state in self._states.values() if state.closed.contains(key)]
        return len(closed) == len(self._states) or any(key not in state.rows for state in closed)

    def _others_have_closed(self, side: str, key: Value) -> bool:
        return all(state.closed.contains(key) for other, state in self._states.items() if other != side)

    def _announce(self, patterns: Iterable[Pattern]) -> list[Announced]:
        """Announce those parts of the patterns that are not yet settled."""
        return self._emit([fresh for pattern in patterns for fresh in self._settled.add(pattern)])

    def _emit(self, patterns: list[Pattern]) -> list[Announced]:
        self.counters.announced += len(patterns)
        return [Announced(pattern) for pattern in patterns]


class _SideState:
    """The rows of one side, found by key and by age.

    Attributes:
        rows: rows by key, oldest first. A key without rows is not in it.
        closed: everything that the side has closed.

    Args:
        window: the time for which a row joins later rows, in the unit of the rows' time; `None`: for ever.
        domain: the type of the keys.
        counters: counts inserts, purged and invalidated rows, and the rows and nodes held.
    """

    def __init__(self, window: float | None, domain: Domain, counters: Counters) -> None:
        self.rows: dict[Value, deque[NaryRow]] = {}
        self.closed = Ranges(domain)
        self._window = window
        self._time_list: deque[NaryRow] = deque()
        """Rows by age. Purged ones leave when they reach the head. Without a window the list stays empty."""
        self._counters = counters

    def insert(self, key: Value, row: NaryRow) -> None:
        if key not in self.rows:
            self.rows[key] = deque()
            self._counters.state_nodes += 1
        self.rows[key].append(row)
        if self._window is not None:
            self._time_list.append(row)
        self._counters.inserts += 1
        self._counters.state_nodes += 1
        self._counters.hold(1)

    def close(self, pattern: Pattern) -> list[Pattern]:
        """Add a pattern to the closed values; return what is new, as disjoint patterns without null."""
        return self.closed.add(Between() if isinstance(pattern, Anything) else pattern)

    def invalidate(self, now: float) -> list[Value]:
        """Remove rows that have left the window by `now`; return the values whose last row that was."""
        ended = []
        while self._time_list and self._is_done(self._time_list[0], now):
            key = cast("Value", self._time_list.popleft().key)
            self._counters.state_nodes -= 1
            if key in self.rows:
                self.rows[key].popleft()  # the oldest row of all is the oldest of its key
                self._counters.invalidated += 1
                self._counters.hold(-1)
                if not self.rows[key]:
                    self._forget(key)
                    ended.append(key)
        return ended

    def purge(self, key: Value) -> None:
        """Remove the rows of a value, of which no row is inserted any more."""
        if key in self.rows:
            purged = len(self._forget(key))
            self._counters.purged += purged
            self._counters.hold(-purged)
            self._counters.state_nodes -= purged if self._window is None else 0

    def _forget(self, key: Value) -> deque[NaryRow]:
        self._counters.state_nodes -= 1
        return self.rows.pop(key)

    def _is_done(self, row: NaryRow, now: float) -> bool:
        """Return whether a row is purged or has left the window."""
        return row.key not in self.rows or (self._window is not None and row.time + self._window < now)

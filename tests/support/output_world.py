"""Two streams that promise patterns on any of their columns, and what is announced of these by definition.

Everything is enumerated: keys and values come from a few numbers, and a pattern is the set of those it
matches.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from endmark.punctuation.pattern import Between, Equals, OneOf, Pattern
from endmark.types import JoinType
from support.sizes import PARTITIONS, speakers

Side = Literal["left", "right"]
SIDES: tuple[Side, Side] = ("left", "right")
COLUMNS = ("key", "value")
KEYS = range(4)
NUMBERS = range(-1, 7)  # what a pattern can tell apart: the numbers rows have, and some beside them
TIMES = range(-1, 20)
Place = tuple[int, int]
Result = tuple[Place | None, Place | None]
Promise = dict[str, frozenset[int]]


@dataclass(frozen=True)
class Event:
    """A row, or with `time` None a punctuation: of the key, or of `patterns` by column. One on the time is a
    heartbeat, and on nothing else."""

    side: Side
    partition: int
    key: int = 0
    value: int = 0
    time: int | None = None
    patterns: tuple[tuple[str, Pattern], ...] = ()

    @property
    def promise(self) -> Promise:
        """The numbers it matches in each column that it restricts."""
        return {name: _matched(name, each) for name, each in self.patterns}

    @property
    def first_possible(self) -> int | None:
        """The first time that a heartbeat leaves possible; None for any other event."""
        times = self.promise.get("time")
        return None if times is None else max(times, default=TIMES[0] - 1) + 1


def _matched(name: str, pattern: Pattern) -> frozenset[int]:
    """The numbers of a column that a pattern matches."""
    return frozenset(n for n in numbers_of(name) if pattern.matches(n))


def numbers_of(name: str) -> range:
    """The numbers that can be told apart in a column."""
    return TIMES if name.endswith("time") else NUMBERS


@dataclass(frozen=True)
class History:
    """Events in the order they are read, cut into batches, and the join they are for."""

    kind: JoinType
    windows: dict[Side, int | None]
    keyed: dict[Side, bool]  # whether a side declares punctuations on its key
    timed: dict[Side, bool]  # whether it declares those on its time, so that heartbeats are announced
    batches: list[list[Event]]
    partitions: dict[Side, int]

    def placed(self) -> list[list[tuple[Event, Place]]]:
        """The batches with partition and offset of each event."""
        ends: Counter[tuple[Side, int]] = Counter()
        placed: list[list[tuple[Event, Place]]] = []
        for batch in self.batches:
            placed.append([])
            for event in batch:
                placed[-1].append((event, (event.partition, ends[event.side, event.partition])))
                ends[event.side, event.partition] += 1
        return placed


@dataclass
class Expected:
    """Results and violations, and the output punctuations: (sets by result column) to how often."""

    results: Counter[Result]
    violations: set[tuple[Side, int, int]]
    patterns: Counter[frozenset[tuple[str, frozenset[int]]]]
    keys: set[int]  # announced one by one, unless a pattern closed them


class World:
    """All events, sorted out by definition."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._events = [placed for batch in history.placed() for placed in batch]
        self.violations: set[tuple[Side, int, int]] = set()
        self.rows = {side: self._processed(side) for side in SIDES}

    def _of(self, side: Side, partition: int) -> list[tuple[Event, Place]]:
        return [
            (event, at) for event, at in self._events if event.side == side and event.partition == partition
        ]

    def _processed(self, side: Side) -> dict[Place, Event]:
        rows = {}
        for partition in range(self._history.partitions[side]):
            own = self._of(side, partition)
            newest = None
            for event, at in own:
                if event.time is None:
                    if (first := event.first_possible) is not None:
                        newest = first if newest is None else max(newest, first)
                    continue
                before = [other for other, (_, offset) in own if other.time is None and offset < at[1]]
                late = newest is not None and event.time < newest
                newest = event.time if newest is None else max(newest, event.time)
                if late or any(_rules_out(other, event) for other in before):
                    self.violations.add((side, *at))
                else:
                    rows[at] = event
        return rows

    def _pairs(self) -> list[tuple[Place, Place]]:
        return [
            (i, j)
            for i, left in self.rows["left"].items()
            for j, right in self.rows["right"].items()
            if left.key == right.key and self._within(left, right)
        ]

    def _within(self, left: Event, right: Event) -> bool:
        assert left.time is not None
        assert right.time is not None
        window = self._history.windows["left" if left.time <= right.time else "right"]
        return window is None or abs(left.time - right.time) <= window

    def _closed(self, side: Side, key: int, *, by_pattern: bool = False) -> bool:
        """By its name, or by patterns on the key alone in every partition."""
        closings = [event for event, _ in self._events if event.side == side and event.time is None]
        if not by_pattern and any(not event.patterns and event.key == key for event in closings):
            return True
        found = {
            event.partition
            for event in closings
            if event.patterns and event.promise.keys() == {"key"} and key in event.promise["key"]
        }
        return len(found) == self._history.partitions[side]

    def _over(self, side: Side, other: Side, row: Event) -> bool:
        """Return whether no partner of a row can come."""
        window, newest = self._history.windows[side], []
        for partition in range(self._history.partitions[other]):
            events = [event for event, _ in self._of(other, partition)]
            times = [event.time for event in events if event.time is not None]
            times += [first for event in events if (first := event.first_possible) is not None]
            newest.append(max(times, default=None))
        if self._closed(other, row.key):
            return True
        if window is None or None in newest:
            return False
        assert row.time is not None
        return row.time + window < min(time for time in newest if time is not None)

    def expected(self) -> Expected:
        kind, pairs = self._history.kind, self._pairs()
        matched = {"left": {i for i, _ in pairs}, "right": {j for _, j in pairs}}
        semi = kind is JoinType.SEMI
        results: Counter[Result] = Counter([(i, None) for i in matched["left"]] if semi else pairs)
        preserved = {"left": kind.keeps_left, "right": kind.keeps_right}
        patterns: Counter[frozenset[tuple[str, frozenset[int]]]] = Counter()
        keys = set()
        for side, other in (SIDES, SIDES[::-1]):
            live = []
            for at, row in self.rows[side].items():
                over = self._over(side, other, row)
                if over and preserved[side] and at not in matched[side]:
                    results[(at, None) if side == "left" else (None, at)] += 1
                if not over and not (semi and side == "left" and at in matched[side]):
                    live.append(row)
            keys |= {key for key in KEYS if self._final(side, other, key, preserved[other])}
            for promise in self._complete(side):
                if not any(_matches(promise, row) for row in live):
                    patterns.update(self._outputs(side, other, promise))
        return Expected(results, self.violations, patterns, keys)

    def _final(self, side: Side, other: Side, key: int, other_preserved: bool) -> bool:
        if not self._closed(side, key):
            return False
        if self._closed(other, key):
            return True
        rows = [row for row in self.rows[side].values() if row.key == key]
        return not other_preserved and all(self._over(side, other, row) for row in rows)

    def _complete(self, side: Side) -> list[Promise]:
        """Return the promises that were news in some partition and that every partition has made by now."""
        promised: list[list[Promise]] = []
        news: list[Promise] = []
        for partition in range(self._history.partitions[side]):
            promised.append([])
            for event, _ in self._of(side, partition):
                if event.first_possible is not None and not self._history.timed[side]:
                    continue
                if event.patterns and not any(not numbers for numbers in event.promise.values()):
                    if not _includes(promised[-1], event.promise) and event.promise not in news:
                        news.append(event.promise)
                    promised[-1].append(event.promise)
        return [one for one in news if all(_includes(others, one) for others in promised)]

    def _outputs(
        self, side: Side, other: Side, promise: Promise
    ) -> list[frozenset[tuple[str, frozenset[int]]]]:
        """By the columns of the side itself, and where they are said there alone, by the other's key."""
        kind = self._history.kind
        shown = {"left": True, "right": kind is not JoinType.SEMI}
        preserved = {"left": kind.keeps_left, "right": kind.keeps_right}
        outputs = []
        if shown[side]:
            outputs.append(frozenset((f"{side}_{name}", numbers) for name, numbers in promise.items()))
        if (
            shown[other]
            and promise.keys() == {"key"}
            and not preserved[other]
            and not (shown[side] and self._history.keyed[other])
        ):
            outputs.append(frozenset({(f"{other}_key", promise["key"])}))
        return outputs


def _rules_out(closing: Event, row: Event) -> bool:
    return _matches(closing.promise, row) if closing.patterns else closing.key == row.key


def _matches(promise: Promise, row: Event) -> bool:
    return all(getattr(row, name) in numbers for name, numbers in promise.items())


def _includes(promises: list[Promise], one: Promise) -> bool:
    """Return whether the union of promises on one column includes `one`, or one promise on several does."""
    for name, numbers in one.items():
        union = [each[name] for each in promises if each.keys() == {name}]
        if numbers <= frozenset().union(*union):
            return True
    return any(
        all(one.get(name, frozenset(numbers_of(name))) <= numbers for name, numbers in each.items())
        for each in promises
        if len(each) > 1
    )


@st.composite
def _patterns(draw: st.DrawFn) -> Pattern:
    number = st.integers(0, 3)
    match draw(st.integers(0, 3)):
        case 0:
            return Equals(draw(number))
        case 1:
            return OneOf(frozenset(draw(st.sets(number, max_size=2))))
        case 2:
            return Between(high=draw(number))
    return Between(draw(number), draw(st.integers(2, 5)), draw(st.booleans()), draw(st.booleans()))


@st.composite
def _events(draw: st.DrawFn, place: int, keyed: dict[Side, bool], partitions: dict[Side, int]) -> list[Event]:
    side = draw(st.sampled_from(SIDES))
    key = draw(st.sampled_from(KEYS))
    partition = key % partitions[side]
    what = draw(st.integers(0, 10))
    if what < 5:
        time = max(0, place // 2 + draw(st.integers(-1, 2)))
        return [Event(side, partition, key, draw(st.integers(0, 2)), time)]
    if what < 7 and keyed[side]:
        return [Event(side, partition, key)]
    if what == 10:
        last = Between(high=max(0, place // 2 + draw(st.integers(-2, 2))), high_open=draw(st.booleans()))
        homes = draw(speakers(partitions[side]))
        return [Event(side, home, patterns=(("time", last),)) for home in homes]
    names = (
        draw(st.sampled_from([("value",), ("key", "value"), ("key",), ("key",)]))
        if keyed[side]
        else ("value",)
    )
    patterns = tuple((name, draw(_patterns())) for name in names)
    if names == ("key",) and not isinstance(patterns[0][1], Between):
        return [Event(side, partition, key)]  # a value of the only key column names a key
    return [Event(side, home, patterns=patterns) for home in draw(speakers(partitions[side]))]


@st.composite
def histories(draw: st.DrawFn, kind: JoinType) -> History:
    keyed = {side: draw(st.booleans()) for side in SIDES}
    timed = {side: draw(st.booleans()) for side in SIDES}
    partitions = {side: draw(PARTITIONS) for side in SIDES}
    places = range(draw(st.integers(0, 24)))
    events = [event for place in places for event in draw(_events(place, keyed, partitions))]
    cuts = sorted(draw(st.sets(st.integers(0, len(events)), max_size=6)))
    return History(
        kind=kind,
        windows={side: draw(st.sampled_from([None, 0, 2, 5])) for side in SIDES},
        keyed=keyed,
        timed=timed,
        batches=[events[low:high] for low, high in zip([0, *cuts], [*cuts, len(events)], strict=True)],
        partitions=partitions,
    )

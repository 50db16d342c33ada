"""A small world of two punctuated streams: random histories, and what must come of them by definition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

from endmark.operators.stream_join.presets import Propagation
from endmark.types import JoinType
from support.sizes import PARTITIONS, speakers
from support.stream_join_keys import KeyKind

SideName = Literal["left", "right"]
SIDES: tuple[SideName, SideName] = ("left", "right")
KEYS = range(6)


@dataclass(frozen=True)
class Event:
    """A row, or with `time` None a punctuation. A keyed stream has a key in the partition `key % count`.

    `key` is a number; `stream_join_keys` says what the engine sees of it. A punctuation that has patterns,
    one for each key column there may be, is about these and not about the one key. One with `until` is a
    heartbeat: no more rows up to this time.
    """

    key: int
    time: int | None
    value: int = 0
    patterns: tuple[Pattern, ...] = ()
    until: int | None = None

    def closes(self, key: KeyKind, number: int) -> bool:
        """Return whether a key is among those that this punctuation closes."""
        if self.until is not None:
            return False
        if not self.patterns:
            return number == self.key
        columns = range(len(key.types))
        return all(self.patterns[at].matches(key, at, number) for at in columns)

    def names_keys(self, key: KeyKind) -> bool:
        return not self.patterns or (len(key.types) == 1 and self.patterns[0].among is not None)


@dataclass(frozen=True)
class Pattern:
    """A punctuation's pattern on one key column, in key numbers that stand for values: those `among` some, or
    those between two ends, where `None` is unbounded."""

    among: frozenset[int] | None = None
    low: int | None = None
    high: int | None = None
    low_open: bool = False
    high_open: bool = False

    def matches(self, key: KeyKind, column: int, number: int) -> bool:
        value = key.value(number)[column]
        if self.among is not None:
            return value in {key.value(one)[column] for one in self.among}
        if self.low is not None:
            low = key.value(self.low)[column]
            if value < low or (self.low_open and value == low):
                return False
        if self.high is not None:
            high = key.value(self.high)[column]
            if value > high or (self.high_open and value == high):
                return False
        return True


@dataclass(frozen=True)
class History:
    """Streams as partitions of events in offset order, and the batches they are read in.

    `cuts[b][side][partition]` is how many events batch b reads. With `residual`, a pair also needs
    `left.value <= right.value`, and a sum of both values of at most 2: the condition fails on a larger one.
    """

    kind: JoinType
    residual: bool

    streams: dict[SideName, list[list[Event]]]
    windows: dict[SideName, int | None]
    lateness: dict[SideName, int]
    keyed: dict[SideName, bool]
    cuts: list[dict[SideName, list[int]]]

    def batches(self) -> list[dict[SideName, list[tuple[int, int, Event]]]]:
        """Per batch and side: (partition, offset, event); a last batch reads what is left."""
        read = {side: [0] * len(self.streams[side]) for side in SIDES}
        everything = {side: [len(events) for events in self.streams[side]] for side in SIDES}
        batches = []
        for cut in [*self.cuts, everything]:
            batch: dict[SideName, list[tuple[int, int, Event]]] = {side: [] for side in SIDES}
            for side in SIDES:
                for partition, events in enumerate(self.streams[side]):
                    start = read[side][partition]
                    stop = min(len(events), start + cut[side][partition])
                    batch[side] += [(partition, offset, events[offset]) for offset in range(start, stop)]
                    read[side][partition] = stop
            batches.append(batch)
        return batches


Coordinates = tuple[int, int]
Result = tuple[Coordinates | None, Coordinates | None]


@dataclass
class Expected:
    """By definition: results as (left offset pair, right offset pair) with None for nulls and for the right
    of a semi join, violations, announced keys, how many rows are still needed, and how many would be if no
    punctuation freed any."""

    results: Counter[Result] = field(default_factory=Counter)
    violations: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    announced: set[int] = field(default_factory=set)
    state_rows: int = 0
    unpurged_rows: int = 0


def expect(history: History, kind: KeyKind, rule: Propagation = Propagation.EARLY) -> Expected:
    """Nested loops over everything that ever came."""
    expected = Expected()
    rows: dict[SideName, list[tuple[int, int, Event]]] = {}
    closed: dict[SideName, set[int]] = {}
    for side in SIDES:
        rows[side], closed[side] = processed(history, kind, side, expected)
    pairs = [
        ((p, o), (q, r))
        for p, o, left in rows["left"]
        for q, r, right in rows["right"]
        if _joins(history, left, right)
    ]
    matched: dict[SideName, set[Coordinates]] = {
        "left": {one for one, _ in pairs},
        "right": {other for _, other in pairs},
    }
    semi = history.kind is JoinType.SEMI
    expected.results.update([(left, None) for left in matched["left"]] if semi else pairs)
    kept = {"left": history.kind.keeps_left, "right": history.kind.keeps_right}
    for side, other in (SIDES, SIDES[::-1]):
        for key in closed[side]:
            times = [e.time for _, _, e in rows[side] if e.key == key and e.time is not None]
            last = max(times, default=None)
            both = key in closed[other]
            over = last is None or both or _left_window(history, side, other, last)
            # Rows of a preserved side are results without a partner, so that side must have closed it too.
            early = rule is Propagation.EARLY and over and not kept[other]
            if rule is not Propagation.NEVER and (both or early):
                expected.announced.add(key)
        for partition, offset, event in rows[side]:
            assert event.time is not None
            row = partition, offset
            over = event.key in closed[other] or _left_window(history, side, other, event.time)
            if over and kept[side] and row not in matched[side]:
                expected.results[(row, None) if side == "left" else (None, row)] += 1
            spent = semi and side == "left" and row in matched[side]
            expected.state_rows += not over and not spent
            expected.unpurged_rows += not spent and not _left_window(history, side, other, event.time)
    return expected


def processed(
    history: History, kind: KeyKind, side: SideName, expected: Expected
) -> tuple[list[tuple[int, int, Event]], set[int]]:
    """Rows that enter the join, and the keys the side has closed: named, or by patterns of all partitions."""
    rows = []
    named: set[int] = set()
    everywhere = set(KEYS)
    for partition, events in enumerate(history.streams[side]):
        newest = until = None
        matched: set[int] = set()
        for offset, event in enumerate(events):
            if event.until is not None:
                until = event.until if until is None else max(until, event.until)
                continue
            if event.time is None:
                closing = {number for number in KEYS if event.closes(kind, number)}
                matched |= closing
                named |= closing if event.names_keys(kind) else set()
                continue
            behind = newest is not None and event.time < newest - history.lateness[side]
            if behind or (until is not None and event.time <= until):
                expected.violations[side, "late", partition, offset] += 1
            elif event.key in matched:
                expected.violations[side, "closed", partition, offset] += 1
            else:
                rows.append((partition, offset, event))
            newest = event.time if newest is None else max(newest, event.time)
        everywhere &= matched
    return rows, (named if history.keyed[side] else set()) | everywhere


def _joins(history: History, left: Event, right: Event) -> bool:
    assert left.time is not None
    assert right.time is not None
    if left.key != right.key:
        return False
    if history.residual and (left.value > right.value or left.value + right.value > 2):
        return False
    window = history.windows["left" if left.time <= right.time else "right"]
    return window is None or abs(left.time - right.time) <= window


def _left_window(history: History, side: SideName, other: SideName, last: int) -> bool:
    window, reached = history.windows[side], []
    for events in history.streams[other]:
        # The first time of which a row may still come, by each row and by each heartbeat.
        possible = [event.time - history.lateness[other] for event in events if event.time is not None]
        possible += [event.until + 1 for event in events if event.until is not None]
        reached.append(max(possible, default=None))
    if window is None:
        return False
    return all(first is not None and last + window < first for first in reached)


@st.composite
def _patterns(draw: st.DrawFn, living: list[int]) -> Pattern:
    own = st.sampled_from(living)
    if draw(st.integers(0, 2)) == 0:
        return Pattern(among=frozenset(draw(st.sets(own, min_size=1, max_size=2))))
    end = st.one_of(st.none(), st.sampled_from(KEYS))
    return Pattern(None, draw(end), draw(end), draw(st.booleans()), draw(st.booleans()))


def _events(draw: st.DrawFn, partition: int, count: int, *, keyed: bool) -> list[Event]:
    """Those of one of `count` partitions, which have as many together however many there are."""
    living = [number for number in KEYS if not keyed or number % count == partition]
    events, time = [], 0
    for _ in range(draw(st.integers(0, 24 // count))):
        key = draw(st.sampled_from(living))
        if draw(st.integers(0, 9)) == 0:
            events.append(Event(key, None, until=max(0, time + draw(st.integers(-2, 4)))))
        elif draw(st.integers(0, 3)) == 0:
            patterns = st.tuples(_patterns(living), _patterns(living), _patterns(living))
            events.append(Event(key, None, patterns=draw(st.one_of(st.just(()), patterns))))
        else:
            time = max(0, time + draw(st.integers(-2, 4)))
            events.append(Event(key, time, draw(st.integers(0, 2))))
    return events


def _stream(draw: st.DrawFn, *, keyed: bool) -> list[list[Event]]:
    """Partitions, half of the time with a pattern that most of them promise, so that it may close keys, or a
    key that most of them name if it may live in any."""
    count = draw(PARTITIONS)
    partitions = [_events(draw, partition, count, keyed=keyed) for partition in range(count)]
    if draw(st.booleans()):
        end = st.sampled_from(KEYS)
        patterns = (Pattern(high=draw(end)), Pattern(high=draw(end)), Pattern(low=draw(end)))
        named = not keyed and draw(st.booleans())
        said = Event(draw(end), None, patterns=() if named else patterns)
        for events in (partitions[at] for at in draw(speakers(count))):
            events.insert(draw(st.integers(0, len(events))), said)
    return partitions


@st.composite
def histories(draw: st.DrawFn, kind: JoinType, *, windowed: bool = True, residual: bool = True) -> History:
    """Tiny domains: six keys, few partitions a side, a few time steps; collisions find join bugs."""
    keyed = {side: draw(st.integers(0, 2)) > 0 for side in SIDES}
    streams = {side: _stream(draw, keyed=keyed[side]) for side in SIDES}
    return History(
        kind=kind,
        residual=residual and draw(st.booleans()),
        keyed=keyed,
        streams=streams,
        windows={side: draw(st.sampled_from([None, 0, 1, 3, 6] if windowed else [None])) for side in SIDES},
        lateness={side: draw(st.integers(0, 2)) for side in SIDES},
        cuts=[
            {side: [draw(st.integers(0, 5)) for _ in streams[side]] for side in SIDES}
            for _ in range(draw(st.integers(0, 5)))
        ],
    )


@st.composite
def crowded_histories(draw: st.DrawFn, *, windowed: bool) -> History:
    """Histories of many short batches, whose rows have one of two keys.

    Each row's segment is spilled, meets rows that came later, merges and dies in different batches. Histories
    of `histories` have too few batches and too few pairs to notice a wrong order of these steps.
    """
    batches = draw(st.integers(6, 16))
    streams: dict[SideName, list[list[Event]]] = {side: [[]] for side in SIDES}
    cuts = []
    for time in range(batches):
        cut = {}
        for side in SIDES:
            count = draw(st.sampled_from([1, 0, 2]))
            events = [Event(draw(st.integers(0, 1)), time) for _ in range(count)]
            if draw(st.integers(0, 7)) == 0:
                events.append(Event(draw(st.integers(0, 1)), None))
            streams[side][0] += events
            cut[side] = [len(events)]
        cuts.append(cut)
    windows = st.sampled_from([None, None, 3, 6] if windowed else [None])
    return History(
        kind=draw(st.sampled_from(JoinType)),
        residual=False,
        streams=streams,
        windows={side: draw(windows) for side in SIDES},
        lateness=dict.fromkeys(SIDES, 0),
        keyed=dict.fromkeys(SIDES, True),
        cuts=cuts,
    )

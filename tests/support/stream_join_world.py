"""A small world of two punctuated streams: random histories, and what must come of them by definition."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

SideName = Literal["left", "right"]
SIDES: tuple[SideName, SideName] = ("left", "right")
PARTITIONS = 2


@dataclass(frozen=True)
class Event:
    """A row, or with `time` None a punctuation. A key lives in partition `key % PARTITIONS`."""

    key: int
    time: int | None


@dataclass(frozen=True)
class History:
    """Streams as partitions of events in offset order, and the batches they are read in.

    `cuts[b][side][partition]` is how many events batch b reads.
    """

    streams: dict[SideName, list[list[Event]]]
    windows: dict[SideName, int | None]
    lateness: dict[SideName, int]
    cuts: list[dict[SideName, list[int]]]

    def batches(self) -> list[dict[SideName, list[tuple[int, int, Event]]]]:
        """Per batch and side: (partition, offset, event); a last batch reads what is left."""
        read = {side: [0] * PARTITIONS for side in SIDES}
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


@dataclass
class Expected:
    """By definition: results as (left offset pair, right offset pair), violations, announced keys, and how
    many rows can still meet a partner."""

    results: Counter[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=Counter)
    violations: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    announced: set[int] = field(default_factory=set)
    state_rows: int = 0


def expect(history: History) -> Expected:
    """Nested loops over everything that ever came."""
    expected = Expected()
    rows: dict[SideName, list[tuple[int, int, Event]]] = {}
    closed: dict[SideName, set[int]] = {}
    for side in SIDES:
        rows[side], closed[side] = _processed(history, side, expected)
    for p, o, left in rows["left"]:
        for q, r, right in rows["right"]:
            if left.key == right.key and _joins(history, left, right):
                expected.results[(p, o), (q, r)] += 1
    for side, other in (SIDES, SIDES[::-1]):
        for key in closed[side]:
            times = [e.time for _, _, e in rows[side] if e.key == key and e.time is not None]
            last = max(times, default=None)
            if last is None or key in closed[other] or _left_window(history, side, other, last):
                expected.announced.add(key)
        for _, _, event in rows[side]:
            assert event.time is not None
            over = event.key in closed[other] or _left_window(history, side, other, event.time)
            expected.state_rows += not over
    return expected


def _processed(
    history: History, side: SideName, expected: Expected
) -> tuple[list[tuple[int, int, Event]], set[int]]:
    rows, closed = [], set()
    for partition, events in enumerate(history.streams[side]):
        newest = None
        for offset, event in enumerate(events):
            if event.time is None:
                closed.add(event.key)
                continue
            if newest is not None and event.time < newest - history.lateness[side]:
                expected.violations[side, "late", partition, offset] += 1
            elif event.key in closed:
                expected.violations[side, "closed", partition, offset] += 1
            else:
                rows.append((partition, offset, event))
            newest = event.time if newest is None else max(newest, event.time)
    return rows, closed


def _joins(history: History, left: Event, right: Event) -> bool:
    assert left.time is not None
    assert right.time is not None
    window = history.windows["left" if left.time <= right.time else "right"]
    return window is None or abs(left.time - right.time) <= window


def _left_window(history: History, side: SideName, other: SideName, last: int) -> bool:
    window = history.windows[side]
    newest = [
        max((event.time for event in events if event.time is not None), default=None)
        for events in history.streams[other]
    ]
    if window is None or any(time is None for time in newest):
        return False
    progress = min(time for time in newest if time is not None) - history.lateness[other]
    return last + window < progress


def _events(draw: st.DrawFn, partition: int) -> list[Event]:
    events, time = [], 0
    for _ in range(draw(st.integers(0, 12))):
        key = draw(st.integers(0, 2)) * PARTITIONS + partition
        if draw(st.integers(0, 3)) == 0:
            events.append(Event(key, None))
        else:
            time = max(0, time + draw(st.integers(-2, 4)))
            events.append(Event(key, time))
    return events


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Tiny domains: six keys, two partitions a side, a few time steps; collisions find join bugs."""
    streams = {side: [_events(draw, partition) for partition in range(PARTITIONS)] for side in SIDES}
    windows = {side: draw(st.sampled_from([None, 0, 1, 3, 6])) for side in SIDES}
    lateness = {side: draw(st.integers(0, 2)) for side in SIDES}
    cuts = [
        {side: [draw(st.integers(0, 5)) for _ in range(PARTITIONS)] for side in SIDES}
        for _ in range(draw(st.integers(0, 5)))
    ]
    return History(streams, windows, lateness, cuts)

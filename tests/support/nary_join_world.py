"""A small world of several punctuated streams on one key: random histories, and what must come of them.

DuckDB finds the violations, closed keys, progress and results by queries. The definition of
`nary_join_definition` finds the results again. It also says what is held and announced once all streams have
reached one time. While they are not in step, the rules of the engine say it, applied to all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import duckdb
from hypothesis import strategies as st

from endmark.operators.stream_join.presets import Propagation
from endmark.punctuation.pattern import OneOf
from endmark_papers.algorithms.pwjoin_nary import NaryClosing, NaryRow
from support.nary_join_definition import NaryWorld
from support.stream_join_keys import KeyKind
from support.stream_join_punctuations import Tagged
from support.stream_join_world import Event, Pattern

KEYS = range(3)
NAMES = ("a", "b", "c", "d", "e")
SHARE = 100  # a row's serial number is its partition times this, and its offset

Place = tuple[int, int]
Result = tuple[Place, ...]


@dataclass(frozen=True)
class Stream:
    """A stream of a world.

    Args:
        partitions: the events of each, in the order of offsets.
        window: the time for which a row stays joinable; `None`: for ever.
        lateness: the time by which a row may be older than the newest of its partition.
        keyed: one punctuation that names a key closes it.
    """

    partitions: list[list[Event]]
    window: int | None
    lateness: int
    keyed: bool


@dataclass(frozen=True)
class NaryStreams:
    """Streams by name, and the batches that they are read in.

    `cuts[b][side][partition]` is how many events batch b reads. A last batch reads what is left.
    """

    streams: dict[str, Stream]
    cuts: list[dict[str, list[int]]]

    def batches(self) -> Iterator[dict[str, list[Tagged]]]:
        read = {side: [0] * len(stream.partitions) for side, stream in self.streams.items()}
        rest = {side: list(map(len, stream.partitions)) for side, stream in self.streams.items()}
        for cut in [*self.cuts, rest]:
            batch = {}
            for side, stream in self.streams.items():
                batch[side] = [
                    (partition, offset, event)
                    for partition, events in enumerate(stream.partitions)
                    for offset, event in enumerate(events)
                    if 0 <= offset - read[side][partition] < cut[side][partition]
                ]
                read[side] = [done + more for done, more in zip(read[side], cut[side], strict=True)]
            yield batch


class Row(NamedTuple):
    """A row that was joined."""

    side: str
    partition: int
    offset: int
    key: int
    time: int


@dataclass
class Found:
    """The answers of DuckDB.

    Args:
        violations: as (side, reason, partition, offset).
        rows: all other rows.
        closed: the keys that each side has closed.
        progress: the time before which no row of a side comes; `None` while it is unknown.
        results: the places of the rows of each.
        times: the times of all rows, also of violations.
    """

    violations: set[tuple[str, str, int, int]]
    rows: list[Row]
    closed: dict[str, set[int]]
    progress: dict[str, int | None]
    results: set[Result]
    times: list[int]


_TABLES = """
CREATE TABLE streams (side TEXT, partitions BIGINT, "window" BIGINT, lateness BIGINT, keyed BOOLEAN);
CREATE TABLE arrivals (side TEXT, partition BIGINT, "offset" BIGINT, key BIGINT, time BIGINT);
CREATE TABLE closings (side TEXT, partition BIGINT, "offset" BIGINT, key BIGINT, named BOOLEAN);
CREATE VIEW judged AS
SELECT *, CASE
    WHEN time < max(time) OVER (
        PARTITION BY side, partition ORDER BY "offset" ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) - lateness THEN 'late'
    WHEN EXISTS (
        FROM closings WHERE closings.side = arrivals.side AND closings.partition = arrivals.partition
        AND closings."offset" < arrivals."offset" AND closings.key = arrivals.key
    ) THEN 'closed' END AS reason
FROM arrivals JOIN streams USING (side);
CREATE VIEW joined AS FROM judged WHERE reason IS NULL;
"""
_CLOSED = """
SELECT side, key FROM closings JOIN streams USING (side) GROUP BY side, key, keyed, partitions
HAVING (keyed AND bool_or(named)) OR count(DISTINCT partition) = partitions
"""
_PROGRESS = """
SELECT side, min(newest) - any_value(lateness) FROM streams JOIN
(SELECT side, partition, max(time) AS newest FROM arrivals GROUP BY ALL) USING (side)
GROUP BY side, partitions HAVING count(*) = partitions
"""


def recompute(world: NaryStreams, key: KeyKind) -> Found:
    """Ask DuckDB."""
    with duckdb.connect() as session:
        session.execute(_TABLES)
        for side, stream in world.streams.items():
            values = [side, len(stream.partitions), stream.window, stream.lateness, stream.keyed]
            session.execute("INSERT INTO streams VALUES (?, ?, ?, ?, ?)", values)
            for partition, events in enumerate(stream.partitions):
                for offset, event in enumerate(events):
                    _insert(session, [side, partition, offset], event, key)
        judged = session.execute(
            'SELECT side, partition, "offset", key, time, reason FROM judged ORDER BY ALL'
        ).fetchall()
        closed: dict[str, set[int]] = {side: set() for side in world.streams}
        for side, number in session.execute(_CLOSED).fetchall():
            closed[side].add(number)
        progress = dict.fromkeys(world.streams) | dict(session.execute(_PROGRESS).fetchall())
        results = session.execute(_joined(list(world.streams))).fetchall()
    return Found(
        violations={(side, reason, p, o) for side, p, o, _, _, reason in judged if reason is not None},
        rows=[Row(*row) for *row, reason in judged if reason is None],
        closed=closed,
        progress=progress,
        results={tuple(zip(row[::2], row[1::2], strict=True)) for row in results},
        times=[time for *_, time, _ in judged],
    )


def _insert(session: duckdb.DuckDBPyConnection, at: list[object], event: Event, key: KeyKind) -> None:
    if event.time is not None:
        session.execute("INSERT INTO arrivals VALUES (?, ?, ?, ?, ?)", [*at, event.key, event.time])
        return
    for number in KEYS:
        if event.closes(key, number):
            session.execute(
                "INSERT INTO closings VALUES (?, ?, ?, ?, ?)", [*at, number, event.names_keys(key)]
            )


def _joined(sides: list[str]) -> str:
    columns = ", ".join(f'{side}.partition, {side}."offset"' for side in sides)
    tables = " CROSS JOIN ".join(f"(FROM joined WHERE side = '{side}') {side}" for side in sides)
    conditions = [
        f"{one}.key = {other}.key AND coalesce(abs({one}.time - {other}.time) <= "
        f'CASE WHEN {one}.time <= {other}.time THEN {one}."window" ELSE {other}."window" END, true)'
        for one, other in combinations(sides, 2)
    ]
    return f"SELECT {columns} FROM {tables} WHERE {' AND '.join(conditions)}"  # noqa: S608 # of constants


def defined(world: NaryStreams, found: Found, now: int = 0, *, punctuated: bool = True) -> NaryWorld:
    """The literal definition's view of the rows, when all streams have reached a time.

    Args:
        world: the streams.
        found: their rows and closed keys.
        now: the time.
        punctuated: whether closed keys count.
    """
    rows = [NaryRow(row.side, row.key, row.time, SHARE * row.partition + row.offset) for row in found.rows]
    closings = [
        NaryClosing(side, OneOf(frozenset(keys)), now) for side, keys in found.closed.items() if punctuated
    ]
    windows = {side: stream.window for side, stream in world.streams.items()}
    return NaryWorld({**windows}, rows, closings, now=now)


def kept(world: NaryStreams, found: Found, *, purges: bool) -> set[Row]:
    """The rows that stay, when streams need not be in step. `purges`: closed keys free rows."""
    closed = found.closed if purges else {side: set[int]() for side in world.streams}

    def shut(other: str, row: Row) -> bool:
        window, progress = world.streams[row.side].window, found.progress[other]
        passed = window is not None and progress is not None and row.time + window < progress
        return passed or row.key in closed[other]

    rows = {
        row for row in found.rows if not all(shut(other, row) for other in world.streams if other != row.side)
    }
    while ended := {
        key for side in world.streams for key in closed[side] if not any(_of(rows, side, key))
    } & {row.key for row in rows}:
        rows = {row for row in rows if row.key not in ended}
    return rows


def _of(rows: set[Row], side: str, key: int) -> list[Row]:
    return [row for row in rows if (row.side, row.key) == (side, key)]


def announced(found: Found, rows: set[Row], rule: Propagation) -> set[int]:
    """The keys that are announced while some rows are kept."""
    everywhere = set.intersection(*found.closed.values())
    if rule is not Propagation.EARLY:
        return everywhere if rule is Propagation.CLOSED else set()
    return everywhere | {
        key for side, keys in found.closed.items() for key in keys if not any(_of(rows, side, key))
    }


@st.composite
def _patterns(draw: st.DrawFn, living: list[int]) -> Pattern:
    """A pattern of one key column, which names no key that does not live in its partition."""
    if draw(st.booleans()):
        return Pattern(among=frozenset(draw(st.sets(st.sampled_from(living), min_size=1, max_size=2))))
    end = st.one_of(st.none(), st.sampled_from(KEYS))
    return Pattern(None, draw(end), draw(end), draw(st.booleans()), draw(st.booleans()))


@st.composite
def _streams(draw: st.DrawFn, events: int, *, windowed: bool) -> Stream:
    """A stream, half of the time with a punctuation in all partitions, so that it closes keys."""
    count = draw(st.sampled_from([1, 1, 2, 3]))
    keyed = draw(st.integers(0, 2)) > 0
    partitions = []
    for partition in range(count):
        living = [number for number in KEYS if not keyed or number % count == partition] or [0]
        found, time = list[Event](), 0
        for _ in range(draw(st.integers(0, max(1, events // count)))):
            key = draw(st.sampled_from(living))
            if draw(st.integers(0, 5)) == 0:
                said = st.tuples(_patterns(living), _patterns(living), _patterns(living))
                found.append(Event(key, None, patterns=draw(st.one_of(st.just(()), said))))
            else:
                time = max(0, time + draw(st.sampled_from([0, 1, 0, 2, -1, 4])))
                found.append(Event(key, time))
        partitions.append(found)
    if draw(st.booleans()):
        patterns = [(Pattern(high=1),) * 3, (Pattern(low=1),) * 3, (Pattern(),) * 3]
        # A keyed stream has a key in one partition, which alone may name it.
        named = [] if keyed else [()]
        end = Event(draw(st.sampled_from(KEYS)), None, patterns=draw(st.sampled_from([*named, *patterns])))
        for found in partitions:
            found.insert(draw(st.integers(0, len(found))), end)
    window = draw(st.sampled_from([None, None, 0, 1, 3, 6, 12] if windowed else [None]))
    return Stream(partitions, window, draw(st.integers(0, 2)), keyed)


@st.composite
def nary_streams(draw: st.DrawFn, *, windowed: bool = True) -> NaryStreams:
    """Two to five streams of few keys, with more rows a stream where there are fewer streams."""
    count = draw(st.sampled_from([3, 2, 4, 5]))
    streams = {name: draw(_streams(24 // count + 4, windowed=windowed)) for name in NAMES[:count]}
    cuts = [
        {side: [draw(st.integers(0, 4)) for _ in stream.partitions] for side, stream in streams.items()}
        for _ in range(draw(st.integers(0, 6)))
    ]
    return NaryStreams(streams, cuts)


@st.composite
def crowded_streams(draw: st.DrawFn, *, windowed: bool) -> NaryStreams:
    """Three or four streams in many short batches, whose rows have one of two keys.

    Each row's segment is spilled, meets rows that came later, merges and dies in different batches.
    """
    names = NAMES[: draw(st.sampled_from([3, 3, 4, 2]))]
    events: dict[str, list[Event]] = {name: [] for name in names}
    cuts = []
    for time in range(draw(st.integers(5, 14))):
        cut = {}
        for name in names:
            count = draw(st.sampled_from([1, 0, 0, 2]))
            new = [Event(draw(st.integers(0, 1)), time) for _ in range(count)]
            if draw(st.integers(0, 9)) == 0:
                new.append(Event(draw(st.integers(0, 1)), None))
            events[name] += new
            cut[name] = [len(new)]
        cuts.append(cut)
    window = st.sampled_from([None, None, 3, 6] if windowed else [None])
    streams = {name: Stream([found], draw(window), 0, keyed=True) for name, found in events.items()}
    return NaryStreams(streams, cuts)

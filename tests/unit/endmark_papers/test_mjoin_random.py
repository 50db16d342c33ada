"""MJoin under every combination of policies, on random histories, against the join by definition."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark_papers.algorithms.contract import (
    Announced,
    Closing,
    Element,
    Output,
    Result,
    Row,
    Side,
    Violation,
)
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import Arrival, MJoinOptions, StreamScheduling, TupleScheduling
from support.cases import cases

KEYS = range(5)

options = st.builds(
    MJoinOptions,
    stream_scheduling=st.sampled_from(StreamScheduling),
    quota=st.integers(1, 4),
    seed=st.integers(0, 3),
    tuple_scheduling=st.sampled_from(TupleScheduling),
    purge_every=st.integers(1, 4),
    propagate=st.sampled_from([True, True, True, False]),
    one_to_many=st.booleans(),
    left_arrival=st.sampled_from(Arrival),
    right_arrival=st.sampled_from(Arrival),
    memory_rows=st.sampled_from([None, None, 1, 2, 3, 6]),
    buckets=st.integers(1, 3),
)
patterns: st.SearchStrategy[Pattern] = st.one_of(
    st.builds(Equals, st.sampled_from(KEYS)),
    st.builds(Equals, st.sampled_from(KEYS)),
    st.builds(OneOf, st.frozensets(st.sampled_from(KEYS), min_size=2, max_size=3)),
    st.builds(Between, st.sampled_from(KEYS), st.sampled_from(KEYS), st.booleans(), st.booleans()),
    st.sampled_from([Anything(), Nothing(), Between(None, 2), Between(3, None)]),
)


class Arrive(NamedTuple):
    side: Side
    key: int


class Close(NamedTuple):
    side: Side
    pattern: Pattern


class Work(NamedTuple):
    steps: int | None


class Idle(NamedTuple):
    pass


class Restore(NamedTuple):
    """Go on with a copy."""


Move = Arrive | Close | Work | Idle | Restore


spilling = st.builds(
    MJoinOptions,
    stream_scheduling=st.just(StreamScheduling.PRIORITY),
    quota=st.sampled_from([1, 3]),
    tuple_scheduling=st.sampled_from(TupleScheduling),
    one_to_many=st.sampled_from([False, False, True]),
    memory_rows=st.sampled_from([1, 2, 3]),
    buckets=st.just(1),
)
others = st.sampled_from([Work(None), Work(1), Work(2), Work(3), Work(4), Idle(), Restore()])


def histories(keys: range) -> st.SearchStrategy[list[Move]]:
    rows = st.builds(Arrive, st.sampled_from(Side), st.sampled_from(keys))
    closings = st.builds(Close, st.sampled_from(Side), patterns)
    return st.lists(st.one_of(rows, rows, rows, closings, others), max_size=40)


@dataclass
class Stream:
    """One side by definition: which of its rows count, and which keys are over."""

    arrival: Arrival
    unique: bool
    rows: list[Row] = field(default_factory=list)
    violations: list[Row] = field(default_factory=list)
    patterns: list[Pattern] = field(default_factory=list)

    def take(self, element: Element) -> None:
        if isinstance(element, Closing):
            self.patterns.append(element.pattern)
        elif self.over(element.key):
            self.violations.append(element)
        else:
            self.rows.append(element)

    def over(self, key: object) -> bool:
        keys = [row.key for row in self.rows]
        last = keys[-1] if keys else key
        return (
            any(pattern.matches(key) for pattern in self.patterns)  # type: ignore[arg-type]
            or (self.unique and key in keys)
            or (self.arrival is Arrival.CLUSTERED and key != last and key in keys)
            or (self.arrival is Arrival.ASCENDING and key < last)  # type: ignore[operator]
            or (self.arrival is Arrival.DESCENDING and key > last)  # type: ignore[operator]
        )


class Trial:
    """An operator, what it was given, and what it said."""

    def __init__(self, chosen: MJoinOptions) -> None:
        self.options = chosen
        self.join = MetadataJoin(chosen)
        self.streams = {
            side: Stream(chosen.arrival(side), chosen.one_to_many and side is Side.LEFT) for side in Side
        }
        self.results: Counter[Result] = Counter()
        self.violations: list[Row] = []
        self.announced: set[int] = set()

    def offer(self, element: Element) -> None:
        self.streams[element.side].take(element)
        self.join.offer(element)

    def expected(self) -> Counter[Result]:
        return Counter(
            Result(left, right)
            for left in self.streams[Side.LEFT].rows
            for right in self.streams[Side.RIGHT].rows
            if left.key == right.key
        )

    def over(self) -> set[int]:
        """Keys that both sides are through with."""
        return {key for key in KEYS if all(stream.over(key) for stream in self.streams.values())}

    def note(self, outputs: list[Output]) -> None:
        for output in outputs:
            match output:
                case Result(left, _):
                    assert left.key not in self.announced
                    self.results[output] += 1
                case Violation(row):
                    self.violations.append(row)
                case Announced(pattern):
                    keys = {key for key in KEYS if pattern.matches(key)}
                    assert not keys & self.announced
                    self.announced |= keys
        self._check()

    def _check(self) -> None:
        counters, live = self.join.counters, list(self.join.live())
        assert self.results <= self.expected()
        assert self.announced <= self.over()
        assert len(set(live)) == len(live) == counters.state_rows <= counters.peak_rows
        assert counters.results == self.results.total()
        assert counters.violations == len(self.violations)
        assert counters.state_nodes == nodes(self.join)
        for state in self.join._states.values():
            assert state.resident == sum(len(bucket.resident()) for bucket in state.buckets)
        assert sum(state.resident for state in self.join._states.values()) <= (
            self.options.memory_rows or len(live)
        )

    def check_after_idle(self) -> None:
        """Nothing is kept in memory that can neither join a row to come nor owes anything."""
        if self.options.memory_rows is None:
            assert not [row for row in self.join.live() if self.streams[row.side.other].over(row.key)]
        assert not any(bucket.debtors() for state in self.join._states.values() for bucket in state.buckets)

    def check_end(self) -> None:
        assert self.results == self.expected()
        for side, stream in self.streams.items():
            assert [row for row in self.violations if row.side is side] == stream.violations
        assert self.announced == (self.over() if self.options.propagate else set())
        counters = self.join.counters
        assert (counters.state_rows, counters.state_nodes, list(self.join.live())) == (0, 0, [])


def nodes(join: MetadataJoin) -> int:
    """One per key of a hash table, one per row in a waiting pool."""
    tables = sum(len(bucket.memory) for state in join._states.values() for bucket in state.buckets)
    return tables + sum(len(inlet.pool) for inlet in join._inlets.values())


def run(chosen: MJoinOptions, history: list[Move]) -> None:
    trial = Trial(chosen)
    for serial, move in enumerate(history):
        match move:
            case Arrive(side, key):
                trial.offer(Row(side, key, serial, serial))
            case Close(side, pattern):
                trial.offer(Closing(side, pattern, serial))
            case Work(steps):
                trial.note(trial.join.work(steps))
            case Idle():
                trial.note(trial.join.idle())
                trial.check_after_idle()
            case Restore():
                lost, trial.join = trial.join, copy.deepcopy(trial.join)
                lost.finish()
    trial.note(trial.join.finish())
    trial.check_end()


@cases(150)
@given(chosen=options, history=histories(KEYS))
def test_is_the_join_by_definition(chosen: MJoinOptions, history: list[Move]) -> None:
    """Whatever the policies and the schedule: every pair once, no result after its announcement, every
    broken promise a violation, everything both sides closed announced, and counters that agree."""
    run(chosen, history)


@cases(300)
@given(chosen=spilling, history=histories(range(2)))
def test_is_the_join_by_definition_while_it_spills(chosen: MJoinOptions, history: list[Move]) -> None:
    """The same where a pair often has a row in the pool, in the purge buffer, or on disk."""
    run(chosen, history)

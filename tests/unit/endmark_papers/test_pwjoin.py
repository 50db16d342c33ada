"""PWJoin against its definition and by hand."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.domain import Domain
from endmark.errors import ConfigError
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
from endmark_papers.algorithms.pwjoin import PunctuatedWindowJoin
from support.join_definition import World
from support.join_moves import Idle, Move, elements, moves

LEFT, RIGHT = Side.LEFT, Side.RIGHT
KEYS = range(-1, 5)  # one more than the streams' at either end
spans = st.sampled_from([None, 0, 1, 3])


class Run:
    """An operator beside its definition."""

    def __init__(self, left: float | None, right: float | None, strict: bool = False) -> None:
        self.join = PunctuatedWindowJoin(left, right, strict)
        self.world = World({LEFT: left, RIGHT: right}, punctuated=True)
        self.results: set[Result] = set()
        self.announced: set[int] = set()

    def take(self, element: Element) -> None:
        self.world.arrive(element)
        violations = []
        for output in self.join.process(element):
            match output:
                case Result(left, _):
                    assert left.key not in self.announced, "a result after its announcement"
                    assert output not in self.results, "a result twice"
                    self.results.add(output)
                case Announced(pattern):
                    keys = {key for key in KEYS if pattern.matches(key)}
                    assert not keys & self.announced, "announced twice"
                    assert all(self.world.announceable(key) for key in keys)
                    self.announced |= keys
                case Violation(row):
                    violations.append(row)
        assert violations == [row for row in self.world.violations if row == element]
        assert self.results == self.world.pairs()

    def due(self, key: int) -> bool:
        """Closed by both, or by one that holds no row of it."""
        sides = [side for side in Side if self.world.closed(side, key)]
        return len(sides) == 2 or any(
            not any(row.side is side and row.key == key for row in self.world.keepable()) for side in sides
        )


def check_state(run: Run) -> None:
    """Assert that the join holds and counts exactly the rows that may still join, and that every node of its
    index has a purpose."""
    join = run.join
    live = list(join.live())
    assert len(live) == len(set(live)) == join.counters.state_rows
    assert set(live) == run.world.keepable()
    inodes = [inode for state in join._states.values() for inode in state.index.values()]
    tnodes = {id(node) for state in join._states.values() for node in state._time_list}
    tnodes |= {id(node) for inode in inodes for node in inode.rows}
    assert join.counters.state_nodes == len(inodes) + len(tnodes)
    for side, state in join._states.items():
        for key, inode in state.index.items():
            assert inode.rows or state.closed.contains(key)
            assert not run.world.closed(side.other, key), "a value closed by both sides is forgotten"


@settings(max_examples=300, deadline=None)
@given(left=spans, right=spans, strict=st.booleans(), history=moves)
def test_outputs_and_state_are_those_of_the_definition(
    left: float | None, right: float | None, strict: bool, history: list[Move]
) -> None:
    """After every element: results so far, what is held, what is announced; a copy goes on as well."""
    run = Run(left, right, strict)
    for step in elements(history):
        match step:
            case Row() | Closing():
                run.take(step)
            case Idle():
                assert run.join.idle() == []
            case _:
                run = copy.deepcopy(run)
        check_state(run)
        both = {key for key in KEYS if all(run.world.closed(side, key) for side in Side)}
        if not strict:
            assert run.announced == {key for key in KEYS if run.due(key)}
        elif left is right is None:
            assert run.announced == both, "PJoin's rule"
        else:
            assert run.announced >= both
    assert run.join.finish() == []


@settings(max_examples=300, deadline=None)
@given(left=spans, right=spans, strict=st.booleans(), history=moves)
def test_nothing_stays_when_everything_is_closed(
    left: float | None, right: float | None, strict: bool, history: list[Move]
) -> None:
    """Both sides close all: no row and no node is left. Purged nodes go as the next object passes them."""
    run = Run(left, right, strict)
    for step in elements(history):
        if isinstance(step, Row | Closing):
            run.take(step)
    for side in (LEFT, RIGHT, LEFT, RIGHT):
        run.take(Closing(side, Anything(), max(0, *run.world.clock.values())))

    assert run.announced == set(KEYS)
    assert (run.join.counters.state_rows, run.join.counters.state_nodes) == (0, 0)
    assert all(len(state.closed) == 1 for state in run.join._states.values())


def left(key: int, time: float) -> Row:
    return Row(LEFT, key, time, 0)


def right(key: int, time: float) -> Row:
    return Row(RIGHT, key, time, 0)


def closes(side: Side, pattern: Pattern | int, time: float) -> Closing:
    return Closing(side, Equals(pattern) if isinstance(pattern, int) else pattern, time)


def feed(join: PunctuatedWindowJoin, *elements: Element) -> list[Output]:
    return [output for element in elements for output in join.process(element)]


def test_window_bound_belongs_to_the_window() -> None:
    """A row joins as long as its own side's window says, up to the last instant."""
    join = PunctuatedWindowJoin(5, 1)

    assert feed(join, left(1, 0), right(1, 5)) == [Result(left(1, 0), right(1, 5))]
    assert feed(join, left(1, 6)) == [Result(left(1, 6), right(1, 5))]
    assert feed(join, right(1, 5.5), left(1, 7)) == [Result(left(1, 6), right(1, 5.5))]
    assert join.counters.invalidated == 3


def test_punctuation_purges_the_other_side() -> None:
    """Rows that the closing side can no longer join go, and later ones are dropped after their probe."""
    join = PunctuatedWindowJoin(None, None)
    feed(join, left(1, 0), right(1, 1), right(2, 1), closes(LEFT, 1, 2))
    assert set(join.live()) == {left(1, 0), right(2, 1)}
    assert join.counters.purged == 1

    assert feed(join, right(1, 3)) == [Result(left(1, 0), right(1, 3))]
    assert (join.counters.dropped, join.counters.inserts, join.counters.probes) == (1, 3, 2)


def test_regular_propagation() -> None:
    """The second side's punctuation announces a value, once, and forgets it."""
    join = PunctuatedWindowJoin(None, None)

    assert feed(join, left(1, 0), closes(LEFT, 1, 1), closes(LEFT, 1, 2)) == []
    assert feed(join, closes(RIGHT, 1, 3), closes(RIGHT, 1, 4)) == [Announced(Equals(1))]
    assert join.counters.state_nodes == 0
    assert feed(join, right(1, 5), left(1, 6)) == [Violation(right(1, 5)), Violation(left(1, 6))]


def test_early_propagation() -> None:
    """A closed value is announced when its last row leaves the window; the other side's rows are dropped
    then without a probe (theorem 4.1, figure 6)."""
    join = PunctuatedWindowJoin(10, 10)

    assert feed(join, left(180, 0), left(180, 4), closes(LEFT, 180, 5), right(7, 14)) == []
    assert feed(join, right(7, 14.5)) == [Announced(Equals(180))]
    assert feed(join, right(180, 15), closes(RIGHT, 180, 16)) == []
    assert (join.counters.probes, join.counters.dropped, join.counters.announced) == (0, 1, 1)
    assert set(join.live()) == {right(7, 14), right(7, 14.5)}


def test_value_without_rows_is_announced_at_once_unless_strict() -> None:
    """Figure 5 waits for the other side's punctuation, although no result can come."""
    default, strict = PunctuatedWindowJoin(5, 5), PunctuatedWindowJoin(5, 5, strict_paper=True)
    first: list[Element] = [closes(LEFT, 1, 1), right(1, 2)]

    assert feed(default, *first) == [Announced(Equals(1))]
    assert feed(strict, *first, right(1, 99)) == []
    assert set(default.live()) == set(strict.live()) == set()
    # As in section 4.4, the I-Node waits for the other side's punctuation in both.
    assert (default.counters.state_nodes, strict.counters.state_nodes) == (1, 1)
    assert feed(default, closes(RIGHT, 1, 100)) == []
    assert feed(strict, closes(RIGHT, 1, 100)) == [Announced(Equals(1))]
    assert (default.counters.state_nodes, strict.counters.state_nodes) == (0, 0)


def test_interval_speaks_for_values_never_seen() -> None:
    """Values in the index are announced one by one when they are over, and the rest as intervals."""
    join = PunctuatedWindowJoin(5, 5)
    feed(join, left(2, 0), closes(LEFT, 4, 0))

    assert feed(join, closes(LEFT, Between(1, 9), 1)) == [
        Announced(Equals(1)),
        Announced(Equals(3)),
        Announced(Between(5, 9)),
    ]
    assert feed(join, right(3, 2), left(9, 2)) == [Violation(left(9, 2))]
    assert join.counters.dropped == 1
    assert feed(join, right(0, 6)) == [Announced(Equals(2))]
    assert feed(join, closes(RIGHT, Between(2, 9), 7)) == []


def test_strict_intervals_are_announced_where_they_meet() -> None:
    """Values that were never seen are announced where both sides have closed them."""
    join = PunctuatedWindowJoin(None, None, strict_paper=True)
    assert feed(join, closes(LEFT, Between(None, 5), 0), right(3, 1)) == []

    assert feed(join, closes(RIGHT, Between(4, None), 2)) == [Announced(Between(4, 5))]
    assert feed(join, closes(RIGHT, OneOf(frozenset({3, 9})), 3)) == [Announced(Equals(3))]
    assert feed(join, closes(LEFT, Anything(), 4)) == [Announced(Between(6, None))]


def test_punctuation_of_nothing_does_nothing() -> None:
    """An empty pattern is no promise."""
    join = PunctuatedWindowJoin(5, 5)

    assert feed(join, left(1, 0), closes(RIGHT, Nothing(), 1), closes(RIGHT, OneOf(frozenset()), 1)) == []
    assert list(join.live()) == [left(1, 0)]


def test_keys_of_another_domain() -> None:
    """Text closes as numbers do."""
    join = PunctuatedWindowJoin(None, None, domain=Domain.STRING)
    ann = Row(LEFT, "ann", 0, 0)

    assert feed(join, ann, Closing(RIGHT, Between("a", "b"), 1))[-1:] == [
        Announced(Between("ann", "b", low_open=True))
    ]
    assert list(join.live()) == []


def test_unique_keys_need_no_right_state() -> None:
    """The best case, figure 7: with each right cluster just after the left punctuation, the left side holds
    its largest cluster at most and the right side nothing."""
    join = PunctuatedWindowJoin(None, None)
    for key in range(50):
        feed(join, left(key, key), left(key, key), closes(LEFT, key, key), right(key, key), right(key, key))
        assert all(row.side is LEFT for row in join.live())
        assert feed(join, closes(RIGHT, key, key)) == [Announced(Equals(key))]

    assert (join.counters.peak_rows, join.counters.results) == (2, 50 * 4)
    assert (join.counters.state_rows, join.counters.state_nodes) == (0, 0)


def test_checkpoint_of_long_lists() -> None:
    """Copying does not recurse along the lists."""
    join = PunctuatedWindowJoin(1e6, 1e6)
    feed(join, *(left(serial % 2, serial) for serial in range(5_000)))
    saved = copy.deepcopy(join)

    assert feed(join, right(1, 5_000)) == feed(saved, right(1, 5_000))
    assert len(list(saved.live())) == 5_001


@pytest.mark.parametrize("windows", [(-1, None), (0, -0.5)])
def test_negative_window_is_refused(windows: tuple[float | None, float]) -> None:
    """Time does not run backwards."""
    with pytest.raises(ConfigError, match="window of PWJoin"):
        PunctuatedWindowJoin(*windows)

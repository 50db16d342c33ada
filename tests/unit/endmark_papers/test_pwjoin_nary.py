"""PWJoin of n streams against its definition, against PWJoin, against chains of it, and by hand."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given

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
from endmark_papers.algorithms.pwjoin_nary import (
    NaryClosing,
    NaryElement,
    NaryOutput,
    NaryPunctuatedWindowJoin,
    NaryResult,
    NaryRow,
    NaryViolation,
)
from support.cases import cases
from support.nary_join_definition import VALUES, Joined, NaryHistory, NaryWorld, Windows, histories


class Trial:
    """A join and what it said so far, beside its definition."""

    def __init__(self, windows: Windows) -> None:
        self.join = NaryPunctuatedWindowJoin(windows)
        self.world = NaryWorld(windows)
        self.results: set[Joined] = set()
        self.announced: set[int] = set()
        self.violations: list[NaryRow] = []

    def take(self, element: NaryElement) -> None:
        self.world.arrive(element)
        for output in self.join.process(element):
            match output:
                case NaryResult(rows):
                    assert rows[0].key not in self.announced, "a result after its announcement"
                    assert rows not in self.results, "a result twice"
                    self.results.add(rows)
                case NaryViolation(row):
                    self.violations.append(row)
                case Announced(pattern):
                    keys = {value for value in VALUES if pattern.matches(value)}
                    assert not keys & self.announced, "announced twice"
                    assert keys <= self.world.over(), "announced too early"
                    self.announced |= keys

    def pass_time(self) -> None:
        """Let all sides say that it is now: an element says nothing of its own side's rows."""
        for side in self.world.windows:
            self.take(NaryClosing(side, Nothing(), self.world.now))

    def examine(self) -> None:
        live, counters = list(self.join.live()), self.join.counters
        assert self.results == self.world.results()
        assert self.violations == self.world.violations
        assert len(live) == len(set(live)) == counters.state_rows
        assert self.world.needed() <= set(live), "a row was freed that may still join"
        assert counters.inserts - counters.purged - counters.invalidated == len(live)
        assert counters.inserts + counters.dropped == len(self.world.rows)
        assert (counters.results, counters.violations) == (len(self.results), len(self.violations))


@cases(60)
@given(histories())
def test_outputs_and_state_are_those_of_the_definition(history: NaryHistory) -> None:
    """Once all sides know the time, only rows of use are held, and every key that is over is announced."""
    trial = Trial(history.windows)
    for element in history.elements:
        trial.take(element)
        trial.examine()
        knowing = copy.deepcopy(trial)
        knowing.pass_time()
        knowing.examine()
        assert set(knowing.join.live()) == knowing.world.needed()
        assert knowing.announced == knowing.world.over()


@cases(60)
@given(histories())
def test_nothing_stays_when_everything_is_closed(history: NaryHistory) -> None:
    trial = Trial(history.windows)
    for element in history.elements:
        trial.take(element)
    for side in history.windows:
        trial.take(NaryClosing(side, Anything(), trial.world.now))
    trial.examine()
    trial.pass_time()

    assert trial.announced == set(VALUES)
    assert (trial.join.counters.state_rows, trial.join.counters.state_nodes) == (0, 0)
    assert not trial.join._waiting
    assert trial.join._settled.includes(Between())


@cases(60)
@given(histories())
def test_state_is_within_that_of_windows_alone_and_of_closings_alone(history: NaryHistory) -> None:
    """A row that breaks a closing changes nothing, so it is no sign of the time for the others either."""
    join = NaryPunctuatedWindowJoin(history.windows)
    windows_alone = NaryPunctuatedWindowJoin(history.windows)
    closings_alone = NaryPunctuatedWindowJoin(dict.fromkeys(history.windows))
    for element in history.elements:
        if NaryViolation not in map(type, join.process(element)):
            closings_alone.process(element)
            closes = isinstance(element, NaryClosing)
            windows_alone.process(NaryClosing(element.side, Nothing(), element.time) if closes else element)

        assert set(join.live()) <= set(windows_alone.live()) & set(closings_alone.live())


@cases(60)
@given(histories(sides=2))
def test_two_sides_are_pwjoin(history: NaryHistory) -> None:
    """Outputs in their order, rows held and counters. PWJoin keeps nodes of closed values without rows."""
    left, right = history.windows.values()
    join, pwjoin = NaryPunctuatedWindowJoin(history.windows), PunctuatedWindowJoin(left, right)
    for element in history.elements:
        assert list(map(binary_output, join.process(element))) == pwjoin.process(binary(element))
        assert set(map(binary, join.live())) == set(pwjoin.live())
        assert join.counters.state_nodes <= pwjoin.counters.state_nodes
        for name in ("probes", "results", "inserts", "dropped", "purged", "invalidated", "announced"):
            assert getattr(join.counters, name) == getattr(pwjoin.counters, name), name
        assert join.counters.violations == pwjoin.counters.violations
        assert join.counters.peak_rows == pwjoin.counters.peak_rows


def binary(element: NaryElement, right: str = "b") -> Element:
    side = Side.RIGHT if element.side == right else Side.LEFT
    if isinstance(element, NaryClosing):
        return Closing(side, element.pattern, element.time)
    return Row(side, element.key, element.time, element.serial)


def binary_output(output: NaryOutput) -> Output:
    match output:
        case NaryResult((left, right)):
            return Result.of(binary_row(left), binary_row(right))
        case NaryViolation(row):
            return Violation(binary_row(row))
        case Announced():
            return output
        case _:
            raise ValueError(output)


def binary_row(row: NaryRow) -> Row:
    found = binary(row)
    assert isinstance(found, Row)
    return found


def chain(history: NaryHistory, first: str, second: str, third: str) -> set[frozenset[int]]:
    """Return the serials of the rows that two binary joins find, of which the second one joins pairs.

    A pair has the time of its later row, and the shorter one of the windows of its rows.
    """
    windows = history.windows
    shorter = min((window for side in (first, second) if (window := windows[side]) is not None), default=None)
    of_rows = PunctuatedWindowJoin(windows[first], windows[second])
    of_pairs = PunctuatedWindowJoin(shorter, windows[third])
    pairs, found = list[Result](), set[frozenset[int]]()
    for row in rows_of(history):
        joined: list[Output] = []
        if row.side == third:
            joined = of_pairs.process(binary(row, right=third))
        else:
            for pair in of_rows.process(binary(row, right=second)):
                assert isinstance(pair, Result)
                joined += of_pairs.process(Row(Side.LEFT, row.key, row.time, len(pairs)))
                pairs.append(pair)
        for triple in joined:
            assert isinstance(triple, Result)
            pair = pairs[triple.left.serial]
            found.add(frozenset({pair.left.serial, pair.right.serial, triple.right.serial}))
    return found


def rows_of(history: NaryHistory) -> list[NaryRow]:
    return [element for element in history.elements if isinstance(element, NaryRow)]


def one_operator(history: NaryHistory) -> set[frozenset[int]]:
    join = NaryPunctuatedWindowJoin(history.windows)
    outputs = [output for row in rows_of(history) for output in join.process(row)]
    return {serials(output.rows) for output in outputs if isinstance(output, NaryResult)}


def serials(rows: Joined) -> frozenset[int]:
    return frozenset(row.serial for row in rows)


@cases(60)
@given(histories(sides=3))
def test_a_chain_finds_more_unless_each_two_rows_are_compared_again(history: NaryHistory) -> None:
    rows = {row.serial: row for row in rows_of(history)}
    world = NaryWorld(history.windows)
    found = chain(history, "a", "b", "c")

    assert {each for each in found if world.within(tuple(rows[serial] for serial in each))} == one_operator(
        history
    )


@cases(60)
@given(histories(sides=3))
def test_a_chain_finds_the_same_if_only_its_last_side_has_a_window(history: NaryHistory) -> None:
    windowed = history._replace(windows={"a": None, "b": None, "c": history.windows["c"]})

    assert chain(windowed, "a", "b", "c") == one_operator(windowed)


def test_what_a_chain_finds_depends_on_its_order() -> None:
    """Rows at 0, 4 and 8 in windows of 5: the first is no partner of the last, but the pair of 4 is."""
    rows: list[NaryElement] = [NaryRow("a", 1, 0, 0), NaryRow("b", 1, 4, 1), NaryRow("c", 1, 8, 2)]
    history = NaryHistory({"a": 5, "b": 5, "c": 5}, rows)

    assert one_operator(history) == set()
    assert chain(history, "a", "b", "c") == {frozenset({0, 1, 2})}
    assert chain(history, "b", "c", "a") == set()


def row(side: str, key: int, time: float) -> NaryRow:
    return NaryRow(side, key, time, 0)


def closes(side: str, pattern: Pattern | int, time: float) -> NaryClosing:
    return NaryClosing(side, Equals(pattern) if isinstance(pattern, int) else pattern, time)


def feed(join: NaryPunctuatedWindowJoin, *elements: NaryElement) -> list[NaryOutput]:
    return [output for element in elements for output in join.process(element)]


def test_each_row_has_its_own_window() -> None:
    """The bound belongs to the window. Results name their rows in the order of the sides."""
    join = NaryPunctuatedWindowJoin({"a": 5, "b": 1, "c": None})

    assert feed(join, row("c", 1, 0), row("a", 1, 95), row("b", 1, 100)) == [
        NaryResult((row("a", 1, 95), row("b", 1, 100), row("c", 1, 0)))
    ]
    assert feed(join, row("c", 1, 100)) == [
        NaryResult((row("a", 1, 95), row("b", 1, 100), row("c", 1, 100))),
    ]
    assert feed(join, row("c", 1, 100.5)) == []
    assert join.counters.invalidated == 1


def test_a_row_probes_the_smallest_answer_first() -> None:
    """Two rows and then three for each: 2 + 6 steps. No step at all if a side has no row of the key."""
    join = NaryPunctuatedWindowJoin({"a": None, "b": None, "c": None})
    feed(join, *(row("b", 1, time) for time in range(3)))
    assert (feed(join, row("a", 1, 3)), join.counters.probes) == ([], 0)

    feed(join, row("c", 2, 4), row("c", 1, 4))
    assert join.counters.probes == 1 + 3
    feed(join, row("a", 1, 5), row("c", 1, 5))
    assert join.counters.probes == 4 + (1 + 3) + (2 + 6)


def test_a_row_waits_for_all_other_sides_to_close() -> None:
    join = NaryPunctuatedWindowJoin({"a": None, "b": None, "c": None})
    feed(join, *(row(side, 1, 0) for side in "abc"), closes("a", 1, 1))
    assert set(join.live()) == {row(side, 1, 0) for side in "abc"}

    assert feed(join, closes("b", 1, 2)) == []
    assert set(join.live()) == {row("a", 1, 0), row("b", 1, 0)}
    assert feed(join, row("c", 1, 3)) == [NaryResult((row("a", 1, 0), row("b", 1, 0), row("c", 1, 3)))]
    assert (join.counters.dropped, join.counters.purged) == (1, 1)
    assert feed(join, closes("c", 1, 4)) == [Announced(Equals(1))]
    assert set(join.live()) == set()
    assert feed(join, row("b", 1, 5)) == [NaryViolation(row("b", 1, 5))]


def test_a_closed_side_without_rows_ends_a_value_for_all() -> None:
    """Rows of open sides, which wait for each other, are of no use without a row of the closed side."""
    join = NaryPunctuatedWindowJoin({"a": 5, "b": None, "c": None})
    feed(join, row("a", 1, 0), row("b", 1, 1), row("c", 1, 2), row("b", 2, 2))
    assert feed(join, closes("a", 1, 3), row("b", 1, 5)) == [
        NaryResult((row("a", 1, 0), row("b", 1, 5), row("c", 1, 2)))
    ]

    assert feed(join, row("c", 7, 6)) == [Announced(Equals(1))]
    assert set(join.live()) == {row("b", 2, 2), row("c", 7, 6)}
    assert feed(join, closes("a", 2, 7)) == [Announced(Equals(2))]
    assert feed(join, row("b", 1, 8), closes("b", OneOf(frozenset({1, 2})), 9)) == []
    assert (join.counters.invalidated, join.counters.purged, join.counters.dropped) == (1, 4, 1)


def test_an_element_does_not_invalidate_rows_of_its_own_side() -> None:
    join = NaryPunctuatedWindowJoin({"a": 5, "b": 5, "c": 5})

    assert feed(join, row("a", 1, 0), closes("a", 1, 0), row("a", 2, 10)) == []
    assert set(join.live()) == {row("a", 1, 0), row("a", 2, 10)}
    assert feed(join, closes("c", Nothing(), 10)) == [Announced(Equals(1))]


def test_an_interval_speaks_for_values_never_seen() -> None:
    """A value that another side holds is announced by itself; one that the closing side holds waits."""
    join = NaryPunctuatedWindowJoin({"a": None, "b": None, "c": None})
    feed(join, row("a", 3, 0), row("b", 5, 0), row("c", 5, 0), row("c", 7, 0))

    assert feed(join, closes("a", Between(1, 9), 1)) == [
        Announced(Equals(5)),
        Announced(Equals(7)),
        Announced(Between(1, 2)),
        Announced(Equals(4)),
        Announced(Equals(6)),
        Announced(Between(8, 9)),
    ]
    assert set(join.live()) == {row("a", 3, 0)}
    assert feed(join, closes("b", Anything(), 2)) == [
        Announced(Equals(3)),
        Announced(Between(None, 0)),
        Announced(Between(10, None)),
    ]


def test_keys_of_another_domain() -> None:
    join = NaryPunctuatedWindowJoin({"a": None, "b": None, "c": None}, domain=Domain.STRING)

    assert feed(join, NaryRow("a", "ann", 0, 0), closes("b", Between("a", "b"), 1))[:1] == [
        Announced(Equals("ann"))
    ]
    assert list(join.live()) == []


def test_purged_rows_leave_the_time_list() -> None:
    """They are passed when they reach its head, before their windows end."""
    join = NaryPunctuatedWindowJoin({"a": 100, "b": None, "c": None})
    feed(join, *(row("a", key, key) for key in range(3)), closes("b", Between(0, 1), 3))
    assert join.counters.state_nodes == 2 + 2
    feed(join, closes("c", Nothing(), 4))

    assert join.counters.state_nodes == 2


@pytest.mark.parametrize(
    ("windows", "message"),
    [
        ({"a": 1}, "two sides or more, not 1"),
        ({}, "not 0"),
        ({"a": None, "b": -0.5}, "window of b .* not -0.5"),
    ],
)
def test_impossible_joins_are_refused(windows: Windows, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        NaryPunctuatedWindowJoin(windows)

"""The symmetric hash join against its definition, and by hand."""

from __future__ import annotations

from hypothesis import given

from endmark.punctuation.pattern import Anything
from endmark_papers.algorithms.contract import Closing, Result, Row, Side
from endmark_papers.algorithms.shj import SymmetricHashJoin
from support.cases import cases
from support.join_moves import Move, elements, moves
from support.join_oracle import Subject, check


@cases(90)
@given(moves)
def test_definition(history: list[Move]) -> None:
    """Every pair once, with its later row, whatever is saved and lost on the way."""
    check(Subject(SymmetricHashJoin), history)


@cases(30)
@given(moves)
def test_nodes_are_the_keys_held(history: list[Move]) -> None:
    join = SymmetricHashJoin()
    for element in elements(history):
        if isinstance(element, Row):
            join.process(element)

            assert join.counters.state_nodes == len({(row.side, row.key) for row in join.live()})


def test_many_to_many_by_hand() -> None:
    """Results name the left row first, whichever side came later; punctuations change nothing."""
    early, late = Row(Side.LEFT, "a", 1, 0), Row(Side.LEFT, "a", 4, 3)
    partner, stranger = Row(Side.RIGHT, "a", 2, 1), Row(Side.RIGHT, "b", 3, 2)
    join = SymmetricHashJoin()

    assert join.process(early) == []
    assert join.process(partner) == [Result(early, partner)]
    assert join.process(stranger) == []
    assert join.process(Closing(Side.LEFT, Anything(), 3)) == []
    assert join.process(late) == [Result(late, partner)]
    assert join.idle() == join.finish() == []
    assert sorted(join.live()) == sorted([early, late, partner, stranger])
    assert (join.counters.probes, join.counters.results, join.counters.inserts) == (2, 2, 4)
    assert (join.counters.state_rows, join.counters.peak_rows, join.counters.state_nodes) == (4, 4, 3)

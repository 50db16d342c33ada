"""The window join against its definition, and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.errors import ConfigError
from endmark.punctuation.pattern import Anything
from endmark_papers.algorithms.contract import Closing, Result, Row, Side
from endmark_papers.algorithms.wjoin import WindowJoin
from support.cases import cases
from support.join_moves import Move, elements, moves
from support.join_oracle import Subject, check

windows = st.sampled_from([None, 0, 1, 3, 6])


@cases(150)
@given(moves, windows, windows)
def test_definition(history: list[Move], left: float | None, right: float | None) -> None:
    """Every pair within the windows once; nothing is held that the other side's clock has passed."""
    lengths = {Side.LEFT: left, Side.RIGHT: right}

    check(Subject(lambda: WindowJoin(left, right), windows=lengths), history)


@cases(60)
@given(moves, windows, windows)
def test_counters_agree(history: list[Move], left: float | None, right: float | None) -> None:
    """A node per key and side, and one per row in the time lists; rows come, and go by windows only."""
    join = WindowJoin(left, right)
    for element in elements(history):
        if isinstance(element, Row):
            join.process(element)
            rows = list(join.live())

            assert join.counters.state_nodes == len({(row.side, row.key) for row in rows}) + len(rows)
            assert join.counters.inserts - join.counters.invalidated == len(rows)


def test_the_bound_belongs_to_the_window() -> None:
    """A left row of time 0 lives to 5 and no longer; a right one has a window of its own."""
    left = Row(Side.LEFT, 1, 0, 0)
    at_the_bound, past_it = Row(Side.RIGHT, 1, 5, 1), Row(Side.RIGHT, 1, 6, 2)
    late = Row(Side.LEFT, 1, 7, 3)
    join = WindowJoin(5, 1)

    assert join.process(left) == []
    assert join.process(at_the_bound) == [Result(left, at_the_bound)]
    assert join.process(past_it) == []
    assert set(join.live()) == {at_the_bound, past_it}
    assert join.process(late) == [Result(late, past_it)]
    assert set(join.live()) == {past_it, late}
    assert (join.counters.invalidated, join.counters.peak_rows) == (2, 2)


def test_punctuations_pass_unseen() -> None:
    left = Row(Side.LEFT, 1, 0, 0)
    join = WindowJoin(1, 1)
    join.process(left)

    assert join.process(Closing(Side.RIGHT, Anything(), 9)) == []
    assert list(join.live()) == [left]
    assert join.idle() == join.finish() == []


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(ConfigError, match="-1"):
        WindowJoin(2, -1)

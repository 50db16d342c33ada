"""INLJ against its definition and by hand."""

from __future__ import annotations

import copy
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.errors import ConfigError
from endmark_papers.algorithms.inlj import IndexNestedLoopJoin
from endmark_papers.algorithms.relation import Lookup, MasterRow, Match, Miss, PagedRelation, StreamRow
from support.lookup_oracle import History, Loop, Offer, answers, histories

R = PagedRelation([MasterRow(1, 0), MasterRow(2, 1), MasterRow(2, 2), MasterRow(5, 3)], 2)


@given(history=histories, batch=st.integers(1, 3))
def test_every_row_is_answered(history: History, batch: int) -> None:
    """Whatever arrives when, every row gets all its matches or one miss, and nothing stays in state."""
    join = IndexNestedLoopJoin(history.paged(), batch)
    offered: list[StreamRow] = []
    found: list[Lookup] = []
    for move in history.moves:
        match move:
            case Offer(keys):
                rows = [StreamRow(key, len(offered) + at) for at, key in enumerate(keys)]
                offered += rows
                join.offer(rows)
            case Loop():
                found += join.loop()
            case _:
                join = copy.deepcopy(join)
        answered = {answer.stream for answer in found}
        assert list(join.pending()) == [row for row in offered if row not in answered]
        assert join.counters.state_rows == 0
    found += join.finish()

    assert found == [answer for row in offered for answer in answers(history, row)]


def test_rows_are_answered_in_order_of_arrival() -> None:
    """A match per row of R, and a miss where there is none."""
    join = IndexNestedLoopJoin(R)
    rows = [StreamRow(key, at) for at, key in enumerate([5, 3, 2])]
    join.offer(rows)

    assert join.loop() == [Match(rows[0], MasterRow(5, 3))]
    assert list(join.pending()) == rows[1:]
    assert join.loop() == [Miss(rows[1])]
    assert join.finish() == [Match(rows[2], MasterRow(2, 1)), Match(rows[2], MasterRow(2, 2))]


@given(keys=st.lists(st.integers(0, 6)), batch=st.integers(1, 5))
def test_batch_costs_one_access_per_distinct_key(keys: list[int], batch: int) -> None:
    """Equal keys of one batch share an index access; a last short batch is not waited for."""
    join = IndexNestedLoopJoin(R, batch)
    join.offer([StreamRow(key, at) for at, key in enumerate(keys)])
    join.finish()
    rest = iter(keys)
    batches = list(iter(lambda: list(islice(rest, batch)), []))

    assert join.counters.page_reads == sum(len(set(one)) for one in batches)
    assert join.counters.rows_read == sum(len(R.find(key)) for one in batches for key in set(one))
    assert join.counters.loops == len(batches)
    assert join.counters.inserts == len(keys)
    assert join.counters.peak_rows == max(map(len, batches), default=0)
    assert (join.counters.state_rows, join.counters.state_nodes) == (0, 0)


def test_without_input_a_loop_is_none() -> None:
    """An empty buffer is no loop."""
    join = IndexNestedLoopJoin(R)
    join.offer([])

    assert join.loop() == []
    assert join.counters.loops == 0


def test_batch_of_no_rows_is_refused() -> None:
    """It would never end."""
    with pytest.raises(ConfigError, match="batch=0"):
        IndexNestedLoopJoin(R, 0)

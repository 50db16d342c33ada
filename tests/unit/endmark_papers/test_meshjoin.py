"""MESHJOIN against its definition and by hand."""

from __future__ import annotations

import copy
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.errors import ConfigError
from endmark_papers.algorithms.meshjoin import MeshJoin
from endmark_papers.algorithms.relation import Lookup, MasterRow, Match, Miss, PagedRelation, StreamRow
from support.lookup_oracle import History, Loop, Offer, answers, histories

R = PagedRelation([MasterRow(key, key) for key in range(6)], 2)  # three pages


def rows(*keys: int) -> list[StreamRow]:
    return [StreamRow(key, at) for at, key in enumerate(keys)]


@given(history=histories, pages_per_segment=st.integers(1, 3))
def test_every_row_is_answered(history: History, pages_per_segment: int) -> None:
    """Whatever arrives when, every row gets all its matches or one miss. At any time, rows and nodes held are
    those counted, and within the memory of w * k rows."""
    join = MeshJoin(history.paged(), history.memory_rows, pages_per_segment)
    offered: list[StreamRow] = []
    found: list[Lookup] = []
    for move in history.moves:
        match move:
            case Offer(keys):
                new = [StreamRow(key, len(offered) + at) for at, key in enumerate(keys)]
                offered += new
                join.offer(new)
            case Loop():
                found += join.loop()
            case _:
                join = copy.deepcopy(join)
        held = sum(len(entries) for entries in join._queue)
        assert (join.counters.state_rows, join.counters.state_nodes) == (held, held)
        assert held == sum(len(entries) for entries in join._hash.values()) <= join.memory_rows
        assert {answer.stream for answer in found} | set(join.pending()) == set(offered)
    found += join.finish()

    assert Counter(found) == Counter(answer for row in offered for answer in answers(history, row))
    assert (join.counters.results + join.counters.misses, join.counters.inserts) == (len(found), len(offered))
    assert (join.counters.state_rows, join._hash, list(join.pending())) == (0, {}, [])


def test_loop_waits_for_its_rows() -> None:
    """With fewer than w rows nothing is read; at the end of the stream the rest is answered."""
    join = MeshJoin(R, loop_rows=2)
    join.offer(rows(0))
    assert (join.loop(), join.counters.page_reads) == ([], 0)

    assert join.finish() == [Match(StreamRow(0, 0), MasterRow(0, 0))]
    assert join.counters.page_reads == 3


def test_rows_meet_every_segment_once() -> None:
    """R is read in a circle; a row is matched by the segment with its key and leaves after the third loop."""
    join = MeshJoin(R, loop_rows=1)
    first, second, third, fourth = rows(4, 9, 1, 0)
    join.offer([first, second, third, fourth])

    assert join.loop() == []  # reads 0 and 1
    assert join.loop() == []  # 2 and 3
    assert join.loop() == [Match(first, MasterRow(4, 4))]
    assert list(join.pending()) == [second, third, fourth]
    assert join.loop() == [Match(fourth, MasterRow(0, 0)), Match(third, MasterRow(1, 1)), Miss(second)]
    assert list(join.pending()) == [third, fourth]
    assert join.counters.page_reads == 4


def test_last_segment_may_be_short() -> None:
    """Three pages in segments of two are a whole segment and half of one."""
    join = MeshJoin(R, loop_rows=1, pages_per_segment=2)
    join.offer(rows(9))

    assert join.finish() == [Miss(StreamRow(9, 0))]
    assert (join.counters.loops, join.counters.page_reads, join.counters.rows_read) == (2, 3, 6)
    assert join.memory_rows == 2


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0)])
def test_loop_of_nothing_is_refused(sizes: tuple[int, int]) -> None:
    """It would never end."""
    with pytest.raises(ConfigError, match="at least one row and one page"):
        MeshJoin(R, *sizes)

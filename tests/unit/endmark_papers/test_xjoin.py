"""XJoin against its definition, and its three stages by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.errors import ConfigError
from endmark.punctuation.pattern import Anything
from endmark_papers.algorithms.contract import Closing, Result, Row, Side
from endmark_papers.algorithms.xjoin import XJoin
from support.cases import cases
from support.join_moves import Arrive, Crash, Idle, Move, Save, elements
from support.join_oracle import Subject, check

# Pauses between few keys: what a probe of the disk covers is only asked about when there are many.
ROWS = [Arrive(side, key, 0) for side in Side for key in range(3)]
moves = st.lists(st.sampled_from([*ROWS, *[Idle()] * 3, Save(), Crash()]), max_size=30)
memories = st.sampled_from([1, 2, 3, 4, 6, None])
partition_counts = st.sampled_from([1, 2, 4])


@cases(180)
@given(moves, memories, partition_counts, st.sampled_from([1, 4]))
def test_definition(history: list[Move], memory: int | None, partitions: int, activation: int) -> None:
    """Every pair once, in whichever stage, whatever is saved and lost on the way."""
    check(Subject(lambda: XJoin(memory, partitions, activation), prompt=memory is None), history)


@cases(60)
@given(moves, st.sampled_from([1, 2, 3, 6]), partition_counts)
def test_memory_and_nodes_agree(history: list[Move], memory: int, partitions: int) -> None:
    """Memory is never exceeded, and the nodes counted are those of the hash tables and histories."""
    join = XJoin(memory, partitions)
    for element in elements(history):
        if isinstance(element, Row):
            join.process(element)
        elif isinstance(element, Idle):
            join.idle()
        parts = [part for partition in join._store for part in partition.parts.values()]

        resident = sum(1 for part in parts for _ in part.resident())
        assert resident <= memory
        assert join._store.full == (resident == memory)
        assert join.counters.state_nodes == sum(len(part.memory) + len(part.history) for part in parts)


@cases(60)
@given(moves, st.sampled_from([1, 2, 3, 6]), partition_counts)
def test_a_long_pause_comes_to_an_end(history: list[Move], memory: int, partitions: int) -> None:
    """No disk part is read twice for the same pairs, and the end of input is joined only once."""
    join = XJoin(memory, partitions)
    for element in elements(history):
        if isinstance(element, Row):
            join.process(element)
    for _ in range(2 * partitions):
        join.idle()
    reads = join.counters.page_reads

    assert reads <= 2 * partitions
    assert join.idle() == []
    assert join.counters.page_reads == reads
    join.finish()
    assert join.finish() == join.idle() == []


def left(key: int, serial: int) -> Row:
    return Row(Side.LEFT, key, serial, serial)


def right(key: int, serial: int) -> Row:
    return Row(Side.RIGHT, key, serial, serial)


def test_three_stages_by_hand() -> None:
    """Two rows of memory: the third arrival spills the left part, a pause joins it with the right row that
    came after, and the end joins what was never in memory together."""
    join = XJoin(memory_rows=2, partitions=1)
    join.process(left(1, 0))
    join.process(left(2, 1))

    assert join.process(right(3, 2)) == []
    assert (join.counters.page_writes, join.counters.page_reads) == (1, 0)
    assert join.process(right(1, 3)) == []
    assert join.idle() == [Result(left(1, 0), right(1, 3))]
    assert (join.counters.page_writes, join.counters.page_reads) == (1, 1)
    assert join.idle() == []
    assert join.process(left(3, 4)) == [Result(left(3, 4), right(3, 2))]
    assert join.process(right(2, 5)) == []
    assert (join.counters.page_writes, join.counters.page_reads) == (2, 1)
    assert join.process(left(1, 6)) == []
    assert set(join.finish()) == {Result(left(2, 1), right(2, 5)), Result(left(1, 6), right(1, 3))}
    assert len(list(join.live())) == join.counters.state_rows == join.counters.peak_rows == 7
    assert (join.counters.page_reads, join.counters.probes, join.counters.state_nodes) == (3, 6, 2)


def test_a_probe_says_nothing_of_rows_already_on_disk() -> None:
    """Both rows of the pair are on disk when one part is probed with a third row: they have not met."""
    join = XJoin(memory_rows=1, partitions=1)
    for row in (left(1, 0), left(2, 1), right(1, 2), right(3, 3)):
        join.process(row)

    assert join.idle() == []
    assert join.counters.page_reads == 1
    assert join.finish() == [Result(left(1, 0), right(1, 2))]


def test_an_arrival_meets_the_rows_it_drives_out() -> None:
    """Room is made after the probe, and what was spilled then is known to have met the arrival."""
    join = XJoin(memory_rows=1, partitions=1)
    join.process(left(1, 0))

    assert join.process(right(1, 1)) == [Result(left(1, 0), right(1, 1))]
    assert join.idle() == join.finish() == []


def test_the_activation_threshold_holds_a_small_disk_part_back() -> None:
    """One row on disk and one in memory are a pair; two pairs are asked for."""
    join = XJoin(memory_rows=1, partitions=1, activation=2)
    join.process(left(1, 0))
    join.process(right(2, 1))

    assert join.idle() == []
    assert join.counters.page_reads == 0


def test_punctuations_pass_unseen() -> None:
    join = XJoin(memory_rows=None)
    join.process(left(1, 0))

    assert join.process(Closing(Side.RIGHT, Anything(), 9)) == []
    assert list(join.live()) == [left(1, 0)]


@pytest.mark.parametrize("options", [(0, 4, 1), (None, 0, 1), (None, 4, 0)])
def test_numbers_below_one_are_refused(options: tuple[int | None, int, int]) -> None:
    with pytest.raises(ConfigError, match="=0"):
        XJoin(*options)

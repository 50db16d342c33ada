"""PJoin's purge, purge buffer and propagation by hand."""

from __future__ import annotations

from typing import Any

import pytest

from endmark.errors import ConfigError
from endmark.punctuation.pattern import Anything, Between, Equals, Nothing, OneOf, Pattern
from endmark_papers.algorithms.contract import Announced, Closing, Result, Row, Side, Violation
from endmark_papers.algorithms.pjoin import PJoin


def left(key: int, serial: int = 0) -> Row:
    return Row(Side.LEFT, key, serial, serial)


def right(key: int, serial: int = 0) -> Row:
    return Row(Side.RIGHT, key, serial, serial)


def close(side: Side, pattern: Pattern) -> Closing:
    return Closing(side, pattern, 0)


def test_eager_purge_and_drop_on_the_fly() -> None:
    """A punctuation frees the other side's rows. A later row of that key is joined and never stored; a row
    of the side that closed the key is a violation."""
    join = PJoin()
    join.process(left(1, 0))
    join.process(right(1, 1))
    join.process(right(2, 2))

    assert join.process(close(Side.LEFT, Equals(1))) == []
    assert set(join.live()) == {left(1, 0), right(2, 2)}
    assert join.process(right(1, 3)) == [Result(left(1, 0), right(1, 3))]
    assert join.process(left(1, 4)) == [Violation(left(1, 4))]
    assert set(join.live()) == {left(1, 0), right(2, 2)}
    assert (join.counters.purged, join.counters.dropped, join.counters.violations) == (1, 1, 1)
    assert join.process(close(Side.RIGHT, OneOf(frozenset({1, 3})))) == [Announced(Equals(1))]
    assert set(join.live()) == {right(2, 2)}


def test_lazy_purge_waits_for_its_number_or_a_pause() -> None:
    join = PJoin(purge_every=2)
    for key in (1, 2, 3):
        join.process(right(key))

    join.process(close(Side.LEFT, Equals(1)))
    join.process(close(Side.LEFT, Equals(1)))  # nothing new
    assert join.counters.purged == 0
    join.process(close(Side.LEFT, Equals(2)))
    assert join.counters.purged == 2
    join.process(close(Side.LEFT, Equals(3)))
    assert join.counters.purged == 2
    join.idle()
    assert join.counters.purged == 3


def test_full_memory_is_purged_before_anything_is_written() -> None:
    join = PJoin(memory_rows=1, purge_every=9)
    join.process(right(1))
    join.process(close(Side.LEFT, Equals(1)))
    join.process(right(2))

    assert list(join.live()) == [right(2)]
    assert join.counters.page_writes == 0


def test_a_row_owed_by_disk_waits_and_holds_its_announcement_back() -> None:
    """The left row is on disk when its partner comes, and both sides close the key. Only the disk join gives
    the result, frees both rows, and lets the value go then; the left part is written again, without one."""
    join = PJoin(memory_rows=1, partitions=1)
    for row in (left(1, 0), left(3, 1), right(2, 2), right(1, 3)):
        assert join.process(row) == []

    assert join.process(close(Side.LEFT, Equals(1))) == []
    assert join.process(close(Side.RIGHT, Equals(1))) == []
    assert right(1, 3) in set(join.live())
    assert join.counters.page_writes == 3
    assert join.idle() == [Result(left(1, 0), right(1, 3)), Announced(Equals(1))]
    assert set(join.live()) == {left(3, 1), right(2, 2)}
    assert (join.counters.page_reads, join.counters.page_writes, join.counters.purged) == (2, 4, 2)


def test_a_row_waits_only_for_what_it_has_not_met() -> None:
    """Rows with key 4 were there before the left part was written; the one with key 5 came after, but a disk
    join has been since. So none of them waits."""
    join = PJoin(memory_rows=4, partitions=1)
    for row in (left(1, 0), left(2, 1), left(3, 2), right(4, 3), right(4, 4), right(5, 5)):
        join.process(row)
    assert join.counters.page_writes == 1

    join.process(close(Side.LEFT, Equals(4)))
    assert join.counters.purged == 2
    join.idle()
    join.process(close(Side.LEFT, Equals(5)))
    assert join.counters.purged == 3


def test_a_value_that_one_side_never_had_is_not_held_back_by_disk() -> None:
    join = PJoin(memory_rows=1, partitions=1)
    join.process(left(1, 0))
    join.process(left(2, 1))
    join.process(close(Side.RIGHT, Equals(1)))

    assert join.process(close(Side.LEFT, Equals(1))) == [Announced(Equals(1))]


def test_a_disk_join_before_the_last_row_came_is_not_enough() -> None:
    join = PJoin(memory_rows=1, partitions=1)
    join.process(left(1, 0))
    join.process(right(2, 1))
    join.idle()
    join.process(right(1, 2))
    join.process(close(Side.RIGHT, Equals(1)))

    assert join.process(close(Side.LEFT, Equals(1))) == []
    assert join.idle() == [Result(left(1, 0), right(1, 2)), Announced(Equals(1))]


def test_a_dead_row_waits_only_for_the_disk_it_may_meet() -> None:
    """An arrival of a closed key goes to the purge buffer if the other side's disk part may hold partners;
    a pause reads the partition where it waits."""
    join = PJoin(memory_rows=1, partitions=2)
    join.process(left(1, 0))
    join.process(left(2, 1))
    join.process(close(Side.LEFT, Between(1, 2)))

    assert join.process(right(2, 2)) == [Result(left(2, 1), right(2, 2))]
    assert join.counters.dropped == 1
    assert join.process(right(1, 3)) == []
    assert join.counters.dropped == 1
    assert join.idle() == [Result(left(1, 0), right(1, 3))]
    assert join.counters.state_rows == 2


def test_making_room_announces_what_it_purges() -> None:
    join = PJoin(memory_rows=2, purge_every=9, rule="count_zero")
    join.process(left(1, 0))
    join.process(right(1, 1))
    for side in Side:
        assert join.process(close(side, Equals(1))) == []

    assert join.process(left(2, 2)) == [Announced(Equals(1))]


def test_pull_announces_when_asked() -> None:
    join = PJoin(propagate="pull")
    join.process(close(Side.LEFT, Equals(1)))

    assert join.process(close(Side.RIGHT, Equals(1))) == []
    assert join.pull() == [Announced(Equals(1))]
    assert join.pull() == join.finish() == []


def test_a_pull_purges_first() -> None:
    join = PJoin(purge_every=9, propagate="pull", rule="count_zero")
    join.process(left(1))
    join.process(right(1))
    for side in Side:
        join.process(close(side, Equals(1)))

    assert join.pull() == [Announced(Equals(1))]


def test_ranges_with_nothing_in_common_are_no_candidates() -> None:
    """All that is kept of two punctuations is a range each."""
    join = PJoin(propagate="pull")
    join.process(close(Side.LEFT, Between(1, 2)))
    join.process(close(Side.RIGHT, Between(3, 4)))

    assert join.counters.state_nodes == 2


def test_both_sides_announces_what_both_ranges_hold_and_once() -> None:
    join = PJoin()
    join.process(left(3))
    join.process(close(Side.LEFT, Between(0, 5)))

    assert join.process(close(Side.RIGHT, Equals(3))) == [Announced(Equals(3))]
    assert join.process(close(Side.RIGHT, Between(2, 9))) == [Announced(Equals(2)), Announced(Between(4, 5))]
    assert join.process(close(Side.RIGHT, Between(3, 8))) == []
    assert join.process(close(Side.LEFT, Anything())) == [Announced(Between(6, 9))]
    assert join.counters.announced == 4


def test_count_zero_needs_one_side_only() -> None:
    """A range goes without the value whose rows are still held, which follows when they are purged."""
    join = PJoin(rule="count_zero")
    join.process(left(2))

    assert join.process(close(Side.LEFT, Between(1, 3))) == [Announced(Equals(1)), Announced(Equals(3))]
    assert join.process(close(Side.RIGHT, Equals(1))) == []
    assert join.process(close(Side.RIGHT, Equals(2))) == [Announced(Equals(2))]
    assert join.process(close(Side.RIGHT, Nothing())) == []


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"memory_rows": 0}, "memory_rows=0"),
        ({"partitions": 0}, "partitions=0"),
        ({"purge_every": 0}, "purge_every=0"),
        ({"propagate": "shove"}, "propagate=shove"),
        ({"rule": "one_side"}, "rule=one_side"),
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        PJoin(**wrong)

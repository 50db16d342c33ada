"""MJoin by hand: each constraint, each purge event, each stage."""

from __future__ import annotations

import pytest

from endmark.domain import Domain
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
from endmark_papers.algorithms.mjoin_options import Arrival, MJoinOptions

ONE_TO_MANY = MJoinOptions(one_to_many=True)


def a(key: int | str, serial: int = 0) -> Row:
    return Row(Side.LEFT, key, 0, serial)


def b(key: int | str | None, serial: int = 0) -> Row:
    return Row(Side.RIGHT, key, 0, serial)


def a_closes(what: int | Pattern) -> Closing:
    return Closing(Side.LEFT, Equals(what) if isinstance(what, int) else what, 0)


def b_closes(what: int | Pattern) -> Closing:
    return Closing(Side.RIGHT, Equals(what) if isinstance(what, int) else what, 0)


def feed(join: MetadataJoin, *elements: Element) -> list[Output]:
    return [output for element in elements for output in join.process(element)]


class TestOneToMany:
    def test_right_row_is_dropped_after_its_match(self) -> None:
        join = MetadataJoin(ONE_TO_MANY)

        assert feed(join, a(1), b(1, 1), b(1, 2)) == [Result(a(1), b(1, 1)), Result(a(1), b(1, 2))]
        assert list(join.live()) == [a(1)]
        assert (join.counters.dropped, join.counters.right_inserts) == (2, 0)

    def test_right_rows_are_purged_by_their_match_even_when_purges_come_in_batches(self) -> None:
        join = MetadataJoin(MJoinOptions(one_to_many=True, purge_every=100))

        assert feed(join, b(1, 1), b(1, 2), a(1)) == [Result(a(1), b(1, 1)), Result(a(1), b(1, 2))]
        assert list(join.live()) == [a(1)]
        assert (join.counters.purged, join.counters.purge_runs) == (2, 0)

    def test_left_row_is_purged_by_punctuation_and_announced_at_once(self) -> None:
        join = MetadataJoin(ONE_TO_MANY)

        assert feed(join, a(79), b(79), b_closes(79))[1:] == [Announced(Equals(79))]
        assert list(join.live()) == []

    def test_late_left_row_joins_is_dropped_and_announced(self) -> None:
        """Announcing with the punctuation would have been before the result."""
        join = MetadataJoin(ONE_TO_MANY)

        assert feed(join, b(79), b_closes(79)) == []
        assert feed(join, a(79)) == [Result(a(79), b(79)), Announced(Equals(79))]
        assert list(join.live()) == []
        assert join.counters.dropped == 1

    def test_second_left_row_of_a_key_is_a_violation(self) -> None:
        join = MetadataJoin(ONE_TO_MANY)

        assert feed(join, a(1, 1), b(1), b_closes(1), a(1, 2))[-1] == Violation(a(1, 2))
        assert join.counters.violations == 1

    def test_match_cancels_the_debt_of_a_right_row(self) -> None:
        """What it might have found on disk has another key."""
        join = MetadataJoin(MJoinOptions(one_to_many=True, memory_rows=1, buckets=1))
        feed(join, a(2), a(3), b(1))

        assert feed(join, a(1)) == [Result(a(1), b(1))]
        assert set(join.live()) == {a(1), a(2), a(3)}
        assert feed(join, b(1, 2), b_closes(1)) == [Result(a(1), b(1, 2)), Announced(Equals(1))]
        assert b(1, 2) not in join.live()


class TestArrival:
    def test_change_of_cluster_closes_the_value_before(self) -> None:
        join = MetadataJoin(MJoinOptions(one_to_many=True, right_arrival=Arrival.CLUSTERED))

        assert feed(join, a(1), a(2), b(1), b(2)) == [
            Result(a(1), b(1)),
            Result(a(2), b(2)),
            Announced(Equals(1)),
        ]
        assert list(join.live()) == [a(2)]
        assert feed(join, b(1, 9)) == [Violation(b(1, 9))]

    def test_violation_does_not_end_the_cluster(self) -> None:
        join = MetadataJoin(MJoinOptions(right_arrival=Arrival.CLUSTERED))

        assert feed(join, b(1), b(2, 1), b(1, 9), b(2, 2)) == [Violation(b(1, 9))]

    @pytest.mark.parametrize(("arrival", "closed", "opened"), [("ascending", 1, 9), ("descending", 9, 1)])
    def test_ordered_stream_closes_all_that_it_passed(self, arrival: str, closed: int, opened: int) -> None:
        join = MetadataJoin(MJoinOptions(left_arrival=Arrival(arrival)))
        feed(join, b(closed), b(5, 1), b(opened))

        assert feed(join, a(5), a(closed)) == [Result(a(5), b(5, 1)), Violation(a(closed))]
        assert set(join.live()) == {a(5), b(5, 1), b(opened)}

    def test_ordered_streams_announce_what_both_passed(self) -> None:
        join = MetadataJoin(MJoinOptions(left_arrival=Arrival.ASCENDING, right_arrival=Arrival.ASCENDING))
        feed(join, a(2), b(4))

        assert feed(join, a(8), b(6)) == [
            Announced(Between(2, 3)),
            Announced(Between(4, 5)),
        ]

    def test_keys_may_be_of_any_domain(self) -> None:
        join = MetadataJoin(MJoinOptions(left_arrival=Arrival.ASCENDING, domain=Domain.STRING))

        assert feed(join, b("a"), b("m"), a("m"), a("a")) == [Result(a("m"), b("m")), Violation(a("a"))]
        assert set(join.live()) == {a("m"), b("m")}


class TestPunctuations:
    def test_many_to_many_is_announced_when_both_sides_closed(self) -> None:
        join = MetadataJoin()

        assert feed(join, a(1), b(1), b(1, 1), a_closes(1)) == [Result(a(1), b(1)), Result(a(1), b(1, 1))]
        assert list(join.live()) == [a(1)]
        assert feed(join, b_closes(1)) == [Announced(Equals(1))]
        assert list(join.live()) == []

    def test_each_value_is_announced_once(self) -> None:
        join = MetadataJoin()
        feed(join, a_closes(Between(1, 4)), b_closes(OneOf(frozenset({2, 9}))))

        assert feed(join, b_closes(Anything())) == [Announced(Equals(1)), Announced(Between(3, 4))]
        assert feed(join, a_closes(OneOf(frozenset({2, 9})))) == [Announced(Equals(9))]
        assert feed(join, a_closes(9), b_closes(9), b_closes(Nothing())) == []

    def test_anything_closes_everything(self) -> None:
        join = MetadataJoin()
        feed(join, a(1), b(2))

        assert feed(join, b_closes(Anything()), b(3), b(None)) == [Violation(b(3)), Violation(b(None))]
        assert list(join.live()) == [b(2)]
        assert feed(join, a(2)) == [Result(a(2), b(2))]

    def test_propagation_may_be_off(self) -> None:
        join = MetadataJoin(MJoinOptions(propagate=False))

        assert feed(join, a(1), b(1), a_closes(1), b_closes(1)) == [Result(a(1), b(1))]
        assert join.finish() == []


class TestPurgeEvents:
    def test_immediate(self) -> None:
        join = MetadataJoin()
        feed(join, a(1), a(2), b_closes(1))

        assert list(join.live()) == [a(2)]
        assert (join.counters.purge_runs, join.counters.purge_scans) == (1, 2)

    def test_batch(self) -> None:
        join = MetadataJoin(MJoinOptions(purge_every=2))

        feed(join, a(1), a(2), b_closes(1))
        assert join.counters.state_rows == 2
        feed(join, b_closes(1))
        assert join.counters.state_rows == 2, "a promise made twice is not a second one"
        feed(join, b_closes(2))
        assert (join.counters.state_rows, join.counters.purge_runs) == (0, 1)

    def test_useless_rows_are_dropped_between_batches(self) -> None:
        join = MetadataJoin(MJoinOptions(purge_every=100))
        feed(join, b_closes(1), a(1))

        assert (join.counters.dropped, list(join.live())) == (1, [])

    def test_memory_is_full(self) -> None:
        join = MetadataJoin(MJoinOptions(purge_every=100, memory_rows=2))
        feed(join, a(1), a(2), b_closes(1), a(3))

        assert set(join.live()) == {a(2), a(3)}
        assert (join.counters.purged, join.counters.page_writes) == (1, 0)

    def test_queues_are_empty(self) -> None:
        join = MetadataJoin(MJoinOptions(purge_every=100))
        feed(join, a(1), a(2), b_closes(1))
        join.idle()

        assert list(join.live()) == [a(2)]


class TestStages:
    def test_fullest_bucket_goes_to_disk(self) -> None:
        join = MetadataJoin(MJoinOptions(memory_rows=3, buckets=2))
        feed(join, a(0, 1), a(1, 2), a(1, 3), a(2, 4), b(0))

        assert (join.counters.page_writes, join.counters.page_reads) == (1, 0)
        assert join.idle() == [], "bucket 0 never left memory"

    def test_memory_disk_joins_while_inputs_pause(self) -> None:
        join = MetadataJoin(MJoinOptions(memory_rows=1, buckets=1))
        feed(join, a(1, 1), a(1, 2), a(1, 3))

        assert feed(join, b(1)) == [Result(a(1, 3), b(1))]
        assert join.idle() == [Result(a(1, 1), b(1)), Result(a(1, 2), b(1))]
        assert (join.idle(), join.counters.page_reads) == ([], 1)
        assert join.finish() == []

    def test_clean_up_joins_what_reached_the_disk_in_debt(self) -> None:
        join = MetadataJoin(MJoinOptions(memory_rows=1, buckets=1))
        feed(join, a(1, 1), a(1, 2), b(1, 3), b(1, 4))

        assert join.idle() == [Result(a(1, n), b(1, 4)) for n in (1, 2)]
        assert join.finish() == [Result(a(1, 1), b(1, 3))]

    def test_row_on_disk_is_kept_for_younger_ones_that_went_there_in_debt(self) -> None:
        join = MetadataJoin(MJoinOptions(memory_rows=1, buckets=1))
        feed(join, a(1), a(2), b(1, 1), b(1, 2), b_closes(1))

        assert join.idle() == [Result(a(1), b(1, 2))]
        assert join.finish() == [Result(a(1), b(1, 1))]

    def test_row_on_disk_is_kept_for_its_own_debt(self) -> None:
        join = MetadataJoin(MJoinOptions(memory_rows=1, buckets=1))
        feed(join, a(1), a(2), b(1), b(3), a(4), a_closes(1))

        assert join.idle() == []
        assert join.finish() == [Result(a(1), b(1))]

    def test_a_row_on_disk_that_is_owed_nothing_holds_no_announcement_back(self) -> None:
        join = MetadataJoin(MJoinOptions(memory_rows=1, buckets=1))

        assert feed(join, a(1), a(2), b_closes(1), a_closes(1)) == [Announced(Equals(1))]
        assert a(1) in join.live(), "nothing has read the disk since"

    def test_row_in_debt_waits_in_the_purge_buffer(self) -> None:
        """Dropping it would lose the pair with the left row on disk, and so would announcing its key."""
        join = MetadataJoin(MJoinOptions(memory_rows=1, buckets=1))

        assert feed(join, a(1), a(2), a_closes(1), b(1), b_closes(1)) == []
        assert set(join.live()) == {a(1), a(2), b(1)}
        assert join.idle() == [Result(a(1), b(1)), Announced(Equals(1))]
        assert list(join.live()) == [a(2)], "the buffered row is free, and the row on disk with it"

    def test_disk_part_is_written_again_without_its_useless_rows(self) -> None:
        join = MetadataJoin(MJoinOptions(memory_rows=2, buckets=1))
        feed(join, a(1), a(2), a(3), b_closes(1), b(3))
        before = join.counters.page_writes
        join.idle()

        assert set(join.live()) == {a(2), a(3), b(3)}
        assert join.counters.page_writes == before + 1

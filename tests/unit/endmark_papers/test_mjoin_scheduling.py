"""MJoin's choice of the next queue and the next row, and what it saves."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import islice

import pytest

from endmark.errors import ConfigError
from endmark.punctuation.pattern import Equals
from endmark_papers.algorithms.contract import Announced, Closing, Element, Output, Result, Row, Side
from endmark_papers.algorithms.mjoin import MetadataJoin
from endmark_papers.algorithms.mjoin_options import Arrival, MJoinOptions, StreamScheduling, TupleScheduling
from endmark_papers.algorithms.mjoin_scheduling import PriorityScheduler, RandomScheduler

PRIORITY = StreamScheduling.PRIORITY
BY_VALUE = TupleScheduling.VALUE_ORIENTED


def a(key: int, serial: int = 0) -> Row:
    return Row(Side.LEFT, key, 0, serial)


def b(key: int, serial: int = 0) -> Row:
    return Row(Side.RIGHT, key, 0, serial)


def a_closes(key: int) -> Closing:
    return Closing(Side.LEFT, Equals(key), 0)


def b_closes(key: int) -> Closing:
    return Closing(Side.RIGHT, Equals(key), 0)


def offer(join: MetadataJoin, *elements: Element) -> None:
    for element in elements:
        join.offer(element)


def turns(scheduler: PriorityScheduler | RandomScheduler, count: int) -> str:
    """Return the sides that are served in turn when both queues always have something."""
    served = ""
    for _ in range(count):
        side = scheduler.choose()
        scheduler.took(side)
        served += side.value[0]
    return served


class TestStreams:
    def test_priority_takes_its_quota_from_each_side_in_turn(self) -> None:
        assert turns(PriorityScheduler(3), 12) == "lllrrrlllrrr"

    def test_priority_returns_to_a_left_queue_that_was_empty_too_early(self) -> None:
        scheduler = PriorityScheduler(3)
        scheduler.took(Side.LEFT)
        scheduler.took(Side.RIGHT)  # the left queue was empty

        assert turns(scheduler, 7) == "llrrrll"

    def test_objects_beyond_the_quota_reset_the_other_side(self) -> None:
        scheduler = PriorityScheduler(2)
        for _ in range(5):
            scheduler.took(Side.RIGHT)  # the left queue was empty

        assert turns(scheduler, 6) == "llrrll"

    def test_a_side_beyond_its_quota_leaves_the_other_all_of_its_own(self) -> None:
        scheduler = PriorityScheduler(2)
        for side in (Side.RIGHT, Side.RIGHT, Side.RIGHT, Side.LEFT, Side.RIGHT):
            scheduler.took(side)

        assert turns(scheduler, 4) == "llrr"

    def test_random_serves_both_and_repeats(self) -> None:
        served = turns(RandomScheduler(7), 1000)

        assert served == turns(RandomScheduler(7), 1000) != turns(RandomScheduler(8), 1000)
        assert 400 < served.count("l") < 600

    def test_left_rows_are_there_before_right_ones_come(self) -> None:
        join = MetadataJoin(MJoinOptions(stream_scheduling=PRIORITY, quota=2))
        offer(join, b(1), b(2), b(3), a(1), a(2), a(3))

        assert join.work(4) == [Result(a(1), b(1)), Result(a(2), b(2))]
        assert join.counters.inserts == 4
        assert join.work(0) == []
        assert join.work(1) == []
        assert join.work() == [Result(a(3), b(3))]

    @pytest.mark.parametrize("seed", range(8))
    def test_a_cluster_that_finds_partners_is_read_to_its_end(self, seed: int) -> None:
        join = MetadataJoin(MJoinOptions(right_arrival=Arrival.CLUSTERED, seed=seed))
        join.process(a(1))
        offer(join, *(b(1, n) for n in range(8)), *(a(n, 1) for n in range(50, 90)))
        while not (outputs := join.work(1)):
            pass

        assert outputs + join.work(7) == [Result(a(1), b(1, n)) for n in range(8)]

    @pytest.mark.parametrize(
        ("arrival", "keys"),
        [(Arrival.CLUSTERED, range(8)), (Arrival.ANY, [1] * 8)],
        ids=["other", "unclustered"],
    )
    def test_no_other_rows_are_read_on(self, arrival: Arrival, keys: Sequence[int]) -> None:
        join = MetadataJoin(MJoinOptions(right_arrival=arrival, stream_scheduling=PRIORITY, quota=1))
        for key in range(8):
            join.process(a(key))
        offer(join, *(b(key, n) for n, key in enumerate(keys)), *(a(n) for n in range(50, 90)))

        assert len(join.work(10)) == 5


class TestRows:
    options = MJoinOptions(one_to_many=True, stream_scheduling=PRIORITY, tuple_scheduling=BY_VALUE)

    def test_a_punctuated_value_goes_first_and_the_pool_follows_in_order(self) -> None:
        join = MetadataJoin(self.options)
        for row in (b(1), b(2), b(5)):
            join.process(row)
        join.process(b_closes(5))
        offer(join, a(1), a(2), a(5), a(9))

        assert join.work(2) == []
        assert set(join.live()) == {a(1), a(2), b(1), b(2), b(5)}
        assert join.counters.state_rows == 5
        assert join.work(1) == [
            Result(a(5), b(5)),
            Result(a(1), b(1)),
            Result(a(2), b(2)),
            Announced(Equals(5)),
        ]
        assert join.work(1) == []
        assert set(join.live()) == {a(1), a(2), a(9)}, "sequential again, before the queue is empty"

    def test_the_pool_is_emptied_when_the_other_queue_is_served(self) -> None:
        join = MetadataJoin(MJoinOptions(stream_scheduling=PRIORITY, tuple_scheduling=BY_VALUE, quota=1))
        join.process(b(1))
        join.process(b_closes(5))
        offer(join, a(1), a(2), b(1, 1))

        assert join.work(1) == []
        assert join.work(1) == [Result(a(1), b(1)), Result(a(1), b(1, 1))]

    def test_the_pool_is_emptied_when_the_queue_is(self) -> None:
        join = MetadataJoin(self.options)
        join.process(b(1))
        join.process(b_closes(5))

        assert join.process(a(1)) == [Result(a(1), b(1))]

    def test_a_closed_value_in_the_pool_is_neither_violation_nor_announced_nor_purged_for(self) -> None:
        """The promise came behind the row, and speaks of what is behind itself."""
        join = MetadataJoin(MJoinOptions(stream_scheduling=PRIORITY, tuple_scheduling=BY_VALUE))
        join.process(b(1))
        join.process(b_closes(1))
        join.process(b_closes(5))
        join.process(a(7))  # a switch of sides: nothing is wanted any more
        join.process(b_closes(6))
        offer(join, a(1), a_closes(1), a(9))

        assert join.work(2) == []
        assert set(join.live()) == {a(1), a(7), b(1)}
        assert join.work() == [Result(a(1), b(1)), Announced(Equals(1))]
        assert set(join.live()) == {a(7), a(9)}

    def test_the_last_row_of_a_value_does_not_cancel_debts_to_those_before(self) -> None:
        join = MetadataJoin(
            MJoinOptions(stream_scheduling=PRIORITY, tuple_scheduling=BY_VALUE, memory_rows=1, buckets=1)
        )
        for element in (a(1), a(2), b(1), b_closes(5)):  # a(1) is on disk when b(1) comes
            join.process(element)
        offer(join, a(1, 1), a_closes(1), a(9))

        assert join.work() == [Result(a(1, 1), b(1))]
        assert join.finish() == [Result(a(1), b(1))]

    def test_a_value_that_the_side_has_closed_is_not_worked_for(self) -> None:
        join = MetadataJoin(MJoinOptions(stream_scheduling=PRIORITY, tuple_scheduling=BY_VALUE))
        join.process(a_closes(5))
        join.process(b_closes(5))
        offer(join, a(1), a(2))
        join.work(1)

        assert join.counters.inserts == 1, "nothing waits for a row that will not come"


def news(items: int, seed: int) -> list[Element]:
    """Section 6.1: an item per number on the left, in an order that is random nearby; on the right ten
    accesses to each of the ten latest items, and a punctuation when one is no longer among these."""
    draw = random.Random(seed)
    posted = iter(sorted(range(items), key=lambda item: item + draw.uniform(0, 10)))
    stream: list[Element] = []
    left_to_come = iter(range(items))
    accesses: dict[int, int] = {}
    while True:
        for item in islice(left_to_come, 10 - len(accesses)):
            accesses[item] = 10
            stream.append(a(next(posted), len(stream)))
        if not accesses:
            return stream
        item = draw.choice([item for item, count in accesses.items() if count])
        accesses[item] -= 1
        stream.append(b(item, len(stream)))
        while accesses and not accesses[min(accesses)]:
            over = min(accesses)
            del accesses[over]
            stream.append(b_closes(over))


@pytest.mark.parametrize("burst", [11, 55, 220])
def test_priority_and_value_save_insertions_on_news(burst: int) -> None:
    """Experiment 1, counted: fewer right rows enter state than by random and sequential scheduling, and the
    results are the same."""
    stream = news(items=200, seed=1)
    inserted, found = [], []
    for options in (
        MJoinOptions(one_to_many=True, stream_scheduling=PRIORITY, tuple_scheduling=BY_VALUE),
        MJoinOptions(one_to_many=True),
    ):
        join = MetadataJoin(options)
        outputs: list[Output] = []
        for start in range(0, len(stream), burst):
            offer(join, *stream[start : start + burst])
            outputs += join.work()
        inserted.append(join.counters.right_inserts)
        found.append({output for output in outputs if isinstance(output, Result)})
        assert (join.counters.state_rows, join.counters.announced) == (0, 200)

    assert inserted[0] < inserted[1]
    assert found[0] == found[1]
    assert len(found[0]) == 2000


def test_numbers_below_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="quota of MJoin is 0"):
        MJoinOptions(quota=0)
    with pytest.raises(ConfigError, match="purge_every of MJoin is -1"):
        MJoinOptions(purge_every=-1)
    with pytest.raises(ConfigError, match="memory_rows of MJoin is 0"):
        MJoinOptions(memory_rows=0)
    with pytest.raises(ConfigError, match="buckets of MJoin is 0"):
        MJoinOptions(buckets=0)

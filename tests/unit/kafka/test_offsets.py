"""The share of a batch that each partition gets, and how tasks share out its ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.kafka.offsets import Offsets, UnknownOffsetsError, limited, ranges, shared_out
from endmark.kafka.ranges import Range
from support.cases import cases

UNREAD = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.dictionaries(st.sampled_from("0123"), st.tuples(st.integers(0, 50), st.integers(0, 10_000))),
)


@given(UNREAD, st.integers(1, 3000))
@cases(100)
def test_a_batch_is_limited(unread: dict[str, dict[str, tuple[int, int]]], most: int) -> None:
    """It reads at most so many records and one of each partition. Batch by batch, all is read once."""
    start = {topic: {at: first for at, (first, _) in each.items()} for topic, each in unread.items()}
    ends = {topic: {at: sum(both) for at, both in each.items()} for topic, each in unread.items()}
    partitions = sum(map(len, ends.values()))
    found: list[Range] = []
    end: Offsets = {}
    while end != ends:
        end = limited(start, ends, most)
        batch = ranges(start, end)
        assert sum(each.offsets for each in batch) <= most + partitions
        assert batch or end == ends
        found += batch
        start = end

    read = {(each.topic, each.partition): 0 for each in found}
    for each in found:
        first = unread[each.topic][str(each.partition)][0]
        assert each.first == first + read[each.topic, each.partition]
        read[each.topic, each.partition] += each.offsets
    assert read == {
        (topic, int(at)): count for topic, each in unread.items() for at, (_, count) in each.items() if count
    }


def test_partitions_stay_in_step() -> None:
    assert limited({"a": {"0": 100, "1": 0}}, {"a": {"0": 400, "1": 100}}, 40) == {"a": {"0": 130, "1": 10}}


def test_a_new_partition_is_read_from_its_start() -> None:
    end = limited({"a": {"0": 5}}, {"a": {"0": 5, "1": 3}}, 10)

    assert ranges({"a": {"0": 5}}, end) == [Range("a", 1, 0, 3)]


@pytest.mark.parametrize("ends", [{"a": {"0": 4, "1": 9}}, {"a": {"1": 9}}, {}])
def test_lost_records_are_refused(ends: dict[str, dict[str, int]]) -> None:
    """A partition that ends before what was read, or is gone, has lost records."""
    with pytest.raises(UnknownOffsetsError, match=r"Kafka has lost records: a/0.* begin a new checkpoint"):
        limited({"a": {"0": 5, "1": 0}}, ends, 10)


def test_ranges_are_shared_out() -> None:
    """The longest come first, and no task is without one."""
    found = [Range("a", number, 0, size) for number, size in enumerate((10, 30, 20, 5))]

    assert shared_out(found, 2) == [[found[1], found[3]], [found[2], found[0]]]
    assert shared_out(found[:1], 2) == [found[:1]]

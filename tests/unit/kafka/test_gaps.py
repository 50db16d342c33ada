"""Batches read what is behind a gap, each record once, and a gap makes no batch of its own."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from endmark.kafka.gaps import Gap, dropped, past
from endmark.kafka.offsets import Offsets, limited, ranges
from support.cases import cases

# The offset where each partition's first batch begins, the length of its gap, and the records behind that.
PARTITIONS = st.dictionaries(
    st.sampled_from("0123"),
    st.tuples(st.integers(0, 50), st.integers(0, 10_000), st.integers(0, 1_000)),
    min_size=1,
)


@given(PARTITIONS, st.integers(1, 300), st.integers(0, 9_000))
@cases(100)
def test_all_behind_a_gap_is_read_once(
    partitions: dict[str, tuple[int, int, int]], most: int, planned: int
) -> None:
    """The first batch may have been planned before the gap was found, and ends in it or behind it."""
    begins = {"a": {at: first for at, (first, _, _) in partitions.items()}}
    held = {"a": {at: first + gap for at, (first, gap, _) in partitions.items()}}
    ends = {"a": {at: sum(three) for at, three in partitions.items()}}
    gaps = dropped(begins, held)
    assert sum(gap.offsets for gap in gaps) == sum(gap for _, gap, _ in partitions.values())
    assert not dropped(past(begins, gaps), held)
    read: dict[int, list[int]] = {int(at): [] for at in partitions}
    start: Offsets = begins
    end = {"a": {at: min(first + planned, ends["a"][at]) for at, first in begins["a"].items()}}
    batches = 0
    while True:
        for each in ranges(past(start, gaps), end):
            read[each.partition] += range(each.first, each.end)
        if end == ends:
            break
        start, end = end, limited(past(end, gaps), ends, most)
        batches += 1

    assert read == {int(at): list(range(held["a"][at], ends["a"][at])) for at in partitions}
    assert batches <= 2 * (sum(records for _, _, records in partitions.values()) // most + 1) + 1


def test_a_partition_without_an_offset_is_read_from_its_start() -> None:
    [gap] = dropped({"a": {"0": 3}}, {"a": {"0": 3, "1": 4}})

    assert gap == Gap("a", 1, 0, 4)
    assert past({"a": {"0": 3}, "b": {}}, [gap]) == {"a": {"0": 3, "1": 4}, "b": {}}


def test_a_gap_is_told_by_its_first_and_last_offset() -> None:
    assert str(Gap("bids", 1, 5, 8)) == "offsets 5 to 7 of topic bids partition 1"

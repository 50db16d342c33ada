"""Gaps: offsets that a job skips, since Kafka had dropped their records before a batch read them.

A gap begins at the first offset of a partition that no committed batch has read. So a batch has a gap at the
start of its offsets, or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Offsets = dict[str, dict[str, int]]  # by topic and partition, as `endmark.kafka.offsets` has them


@dataclass(frozen=True)
class Gap:
    """The offsets of one partition from `first` to `end`, without `end`, which no batch reads."""

    topic: str
    partition: int
    first: int
    end: int

    @property
    def offsets(self) -> int:
        """The number of offsets. It is the greatest possible number of records."""
        return self.end - self.first

    def __str__(self) -> str:
        return f"offsets {self.first} to {self.end - 1} of topic {self.topic} partition {self.partition}"


def dropped(unread: Mapping[str, Mapping[str, int]], held: Mapping[str, Mapping[str, int]]) -> list[Gap]:
    """Return the unread offsets that Kafka does not hold any more.

    Args:
        unread: the first unread offsets, by topic and partition. A partition that is missing is read from 0.
        held: the first offsets that Kafka holds, by topic and partition.
    """
    return [
        Gap(topic, int(at), begins, first)
        for topic, partitions in sorted(held.items())
        for at, first in sorted(partitions.items(), key=lambda each: int(each[0]))
        if (begins := unread.get(topic, {}).get(at, 0)) < first
    ]


def past(unread: Mapping[str, Mapping[str, int]], gaps: Iterable[Gap]) -> Offsets:
    """Return first unread offsets, each of them moved to the end of the gap that it is in.

    Args:
        unread: the first unread offsets, by topic and partition. A partition that is missing is read from 0.
        gaps: the gaps, in the order in which they were found.

    >>> past({"bids": {"0": 5, "1": 9}}, [Gap("bids", 0, 5, 7), Gap("bids", 0, 7, 8), Gap("bids", 1, 2, 4)])
    {'bids': {'0': 8, '1': 9}}
    """
    found = {topic: dict(partitions) for topic, partitions in unread.items()}
    for gap in gaps:
        partitions = found.get(gap.topic, {})
        if gap.first <= partitions.get(str(gap.partition), 0) < gap.end:
            partitions[str(gap.partition)] = gap.end
    return found


def by_topic(gaps: Iterable[Gap]) -> dict[str, int]:
    """Return the number of offsets in gaps, by topic."""
    found: dict[str, int] = {}
    for gap in gaps:
        found[gap.topic] = found.get(gap.topic, 0) + gap.offsets
    return found

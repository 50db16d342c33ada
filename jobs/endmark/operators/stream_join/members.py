"""Members of a side: the streams whose partitions it has. A union has several, any other side has one.

A side numbers the partitions of its members in turn: with three members, those of the second one are 1, 4, 7
and so on. So a number does not change if a topic gets more partitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from endmark.state.search import Bools, Ints


@dataclass(frozen=True)
class Member:
    """One stream of a side.

    Args:
        stream: its name.
        partitions: the number of its partitions.
        keyed: each of its keys lives in one partition, so one promise that names a key closes it in the
            stream. If false, every partition of it must have promised a key.
        place: the number of the member among those of its side.
        of: the number of members.
        idle: microseconds of silence after which one of its partitions does not hold back progress; `None`:
            each always does.
    """

    stream: str
    partitions: int = 1
    keyed: bool = True
    place: int = 0
    of: int = 1
    idle: int | None = None

    @property
    def numbers(self) -> range:
        """The numbers of its partitions in the side."""
        return range(self.place, self.place + self.partitions * self.of, self.of)

    def number(self, partition: int) -> int:
        """Return the number in the side of a partition."""
        return partition * self.of + self.place

    def partition(self, number: int) -> int:
        """Return the partition that has a number in the side."""
        return number // self.of

    def partitions_of(self, numbers: Ints) -> Ints:
        """Return the partitions that have some numbers in the side."""
        return numbers // self.of

    def owns(self, number: int) -> bool:
        """Return whether a partition of the member has a number in the side."""
        return number % self.of == self.place

    def has(self, numbers: Ints) -> Bools:
        """Return a mask of the numbers that partitions of the member have."""
        found: Bools = numbers % self.of == self.place
        return found

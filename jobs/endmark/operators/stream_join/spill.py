"""Spilling: segments beyond the memory budget meet new rows later, when there is time or need.

Definition: XJoin's three stages (Data Engineering Bulletin 23(2), 2000), a segment at a time. New rows meet
resident segments at once (`Probe.results`). Spilled segments meet later rows in a pause, or when the rows not
yet met exceed the budget (`catch_up`), or at the end (`StreamJoin.drain`).

Deviations: XJoin keeps the intervals in which a row was in memory. Here, a segment knows the number of the
batch of its newest row. A spilled segment also knows the batch up to which rows of the other side have met
it. So no pair is found twice, as long as segments on two sides of such a number do not merge. Rows that are
about to die first meet the rows that they have not met (`settle`). So PJoin's purge buffer is not needed, and
no announcement is early.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from endmark.operators.stream_join.side import SideState
    from endmark.state.segment import Segment
    from endmark.state.segment_list import SegmentRows


class OwedResults(Protocol):
    """Makes the results that spilled segments are owed."""

    def settle(
        self, side: SideState, rows: SegmentRows, arrived: Sequence[Segment | None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results that some rows are owed.

        Args:
            side: the side of the rows.
            rows: the rows.
            arrived: rows of the batch that are not in state yet, in the order of sides.
        """
        ...

    def catch_up(self) -> Iterator[pa.RecordBatch]:
        """Yield all results that are owed by rows in state."""
        ...


class Spiller:
    """Decides which segments of one bucket's join are spilled, and when they get the results they are owed.

    Args:
        sides: the state of all sides.
        owed: makes the results.
        memory: bytes that resident segments may take between two batches; `None`: any number.

    Attributes:
        batch_number: the number of the last batch of the join.
    """

    def __init__(self, sides: Sequence[SideState], owed: OwedResults, memory: int | None) -> None:
        self._sides = sides
        self._owed = owed
        self._memory = memory
        self.batch_number = 0
        self._arrived: Sequence[Segment | None] = [None] * len(sides)

    def begin(self, arrived: Sequence[Segment | None]) -> None:
        """Give the rows of a new batch its number.

        Args:
            arrived: the rows, which are not in state yet, in the order of sides; `None` for a side without
                any.
        """
        self.batch_number += 1
        self._arrived = arrived
        for rows in arrived:
            if rows is not None:
                rows.batch_number = self.batch_number

    def inserted(self) -> None:
        """Forget the rows of the batch, since they are in state now."""
        self._arrived = [None] * len(self._sides)

    @property
    def spilled(self) -> list[Segment]:
        """The spilled segments of all sides."""
        segments = (segment for side in self._sides for segment in side.rows.segments)
        return [segment for segment in segments if segment.joined_to is not None]

    def _resident(self) -> list[Segment]:
        return [segment for side in self._sides for segment in side.rows.resident]

    def _of_others(self, side: SideState) -> list[Segment]:
        return [segment for other in self._sides if other is not side for segment in other.rows.segments]

    def settle(self, side: SideState, rows: SegmentRows) -> Iterator[pa.RecordBatch]:
        """Yield the results that some rows are owed. Call it before these rows die.

        Args:
            side: the side of the rows.
            rows: the rows.
        """
        yield from self._owed.settle(side, rows, self._arrived)

    def catch_up(self) -> Iterator[pa.RecordBatch]:
        """Yield all results that are owed. The rows of the batch must be in state."""
        spilled = self.spilled
        yield from self._owed.catch_up()
        for segment in spilled:
            segment.joined_to = self.batch_number

    def is_due(self, *, pause: bool) -> bool:
        """Return whether to catch up now: in a pause, or when the rows not yet met exceed the budget."""
        owed = [segment for side in self._sides for segment in self.owed(side)]
        return bool(owed) and (pause or self._is_too_much(owed))

    def owed(self, side: SideState) -> list[Segment]:
        """Return the segments of a side that some spilled segment of another side has not met."""
        others = self._of_others(side)
        return [
            segment for segment in side.rows.segments if any(is_owed(spilled, segment) for spilled in others)
        ]

    @property
    def owes(self) -> bool:
        """True if some results are owed, which a pause would yield."""
        return any(self.owed(side) for side in self._sides)

    @property
    def is_over_budget(self) -> bool:
        """True if the resident segments exceed the memory budget."""
        return self._is_too_much(self._resident())

    def _is_too_much(self, segments: list[Segment]) -> bool:
        return self._memory is not None and sum(segment.memory for segment in segments) > self._memory

    def spill(self) -> None:
        """Spill segments until the rest fits. The oldest come first: spilled neighbours can merge."""
        resident = sorted(self._resident(), key=lambda segment: segment.batch_number)
        while self._is_too_much(resident):
            resident.pop(0).joined_to = self.batch_number

    def barriers(self, side: SideState) -> list[int]:
        """Return batch numbers: segments of `side` up to such a number must not merge with later ones."""
        return [one.joined_to for one in self._of_others(side) if one.joined_to is not None]


def is_owed(spilled: Segment, other: Segment) -> bool:
    """Return whether `other` has rows that came after `spilled` last met the rows of their side."""
    return spilled.joined_to is not None and other.batch_number > spilled.joined_to

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

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from endmark.operators.stream_join.probe import Probe
    from endmark.operators.stream_join.side import SideState
    from endmark.state.segment import Segment
    from endmark.state.segment_list import SegmentRows


class Spiller:
    """Decides which segments of one bucket's join are spilled, and finds the results that they are owed.

    Args:
        left, right: the state of both sides.
        probe: makes results of pairs of segments.
        memory: bytes that resident segments may take between two batches; `None`: any number.

    Attributes:
        batch_number: the number of the last batch of the join.
    """

    def __init__(self, left: SideState, right: SideState, probe: Probe, memory: int | None) -> None:
        self._left = left
        self._right = right
        self._probe = probe
        self._memory = memory
        self.batch_number = 0
        self._arrived: list[tuple[SideState, Segment]] = []

    def begin(self, left: Segment | None, right: Segment | None) -> None:
        """Give the rows of a new batch its number.

        Args:
            left, right: the rows, which are not in state yet; `None` without any.
        """
        self.batch_number += 1
        self._arrived = []
        for side, rows in ((self._left, left), (self._right, right)):
            if rows is not None:
                rows.batch_number = self.batch_number
                self._arrived.append((side, rows))

    def inserted(self) -> None:
        """Forget the rows of the batch, since they are in state now."""
        self._arrived = []

    @property
    def spilled(self) -> list[Segment]:
        """The spilled segments of both sides."""
        return [segment for segment in self._segments() if segment.joined_to is not None]

    def _segments(self) -> list[Segment]:
        return self._left.rows.segments + self._right.rows.segments

    def _resident(self) -> list[Segment]:
        return self._left.rows.resident + self._right.rows.resident

    def settle(self, side: SideState, rows: SegmentRows) -> Iterator[pa.RecordBatch]:
        """Yield the results that some rows are owed. Call it before these rows die.

        Args:
            side: the side of the rows.
            rows: the rows.
        """
        opposite = self._right if side is self._left else self._left
        arrived = [segment for owner, segment in self._arrived if owner is opposite]
        for other in opposite.rows.segments + arrived:
            if _owed(rows.segment, other) or _owed(other, rows.segment):
                yield from self._between(side, rows.segment, other, rows)

    def catch_up(self) -> Iterator[pa.RecordBatch]:
        """Yield all results that are owed. The rows of the batch must be in state."""
        spilled = self.spilled
        for side, opposite in ((self._left, self._right), (self._right, self._left)):
            for segment in side.rows.segments:
                for other in opposite.rows.segments if segment.joined_to is not None else ():
                    if _owed(segment, other):
                        yield from self._between(side, segment, other, None)
        for segment in spilled:
            segment.joined_to = self.batch_number

    def _between(
        self, side: SideState, segment: Segment, other: Segment, rows: SegmentRows | None
    ) -> Iterator[pa.RecordBatch]:
        pair = (segment, other) if side is self._left else (other, segment)
        yield from self._probe.between(*pair, rows)

    def is_due(self, *, pause: bool) -> bool:
        """Return whether to catch up now: in a pause, or when the rows not yet met exceed the budget."""
        owed = self.owed(self._left) + self.owed(self._right)
        return bool(owed) and (pause or self._is_too_much(owed))

    def owed(self, side: SideState) -> list[Segment]:
        """Return the segments of a side that some spilled segment of the other side has not met."""
        opposite = self._right if side is self._left else self._left
        return [
            segment
            for segment in side.rows.segments
            if any(_owed(spilled, segment) for spilled in opposite.rows.segments)
        ]

    @property
    def owes(self) -> bool:
        """True if some results are owed, which a pause would yield."""
        return any(self.owed(side) for side in (self._left, self._right))

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
        opposite = self._right if side is self._left else self._left
        return [one.joined_to for one in opposite.rows.segments if one.joined_to is not None]


def _owed(spilled: Segment, other: Segment) -> bool:
    """Return whether `other` has rows that came after `spilled` last met the rows of their side."""
    return spilled.joined_to is not None and other.batch_number > spilled.joined_to

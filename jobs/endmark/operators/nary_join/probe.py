"""Probing: the rows of a batch find combinations with resident rows, and spilled rows find those owed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from endmark.operators.nary_join.combinations import Combinations
from endmark.state.segment_list import SegmentRows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from endmark.expressions.condition import Condition
    from endmark.operators.stream_join.side import SideState
    from endmark.state.segment import Segment


class NaryProbe:
    """Finds each result once, of several new rows with the first side that has one.

    Attributes:
        failures: the combinations on which the residual condition failed. They are no results.

    Args:
        sides: the state of all sides.
        residual: the condition that results must meet; `None` is always met.
    """

    def __init__(self, sides: Sequence[SideState], residual: Condition | None) -> None:
        self._sides = sides
        self._combinations = Combinations(sides, residual)
        self.failures = self._combinations.failures

    def results(self, arrived: Sequence[Segment | None]) -> Iterator[pa.RecordBatch]:
        """Yield the results of the rows of a batch with resident rows, and with each other.

        Args:
            arrived: the rows of each side, which are not in state yet; `None` without any.
        """
        old = [side.rows.resident for side in self._sides]
        for first, rows in enumerate(arrived):
            if rows is not None:
                every = [*old[:first], *_with(old[first:], arrived[first:])]
                yield from self._combinations.find(first, _live(rows), _without(every, first))

    def settle(
        self, side: SideState, rows: SegmentRows, arrived: Sequence[Segment | None]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results that some rows are owed.

        Args:
            side: the side of the rows.
            rows: the rows.
            arrived: rows of the batch that are not in state yet, in the order of sides.
        """
        first = next(number for number, each in enumerate(self._sides) if each is side)
        others = _without(_with([each.rows.segments for each in self._sides], arrived), first)
        segments = [rows.segment, *(segment for found in others.values() for segment in found)]
        if any(segment.joined_to is not None for segment in segments):
            yield from self._combinations.find(first, rows.alive, others, owed=True)

    def catch_up(self) -> Iterator[pa.RecordBatch]:
        """Yield all results that spilled rows are owed. The rows of the batch must be in state.

        Each of them has a row that came after the spilled row that met others longest ago last met them.
        """
        every = [side.rows.segments for side in self._sides]
        met = [one.joined_to for segments in every for one in segments if one.joined_to is not None]
        if not met:
            return
        early = [[segment for segment in segments if segment.batch_number <= min(met)] for segments in every]
        for first, segments in enumerate(every):
            others = _without([*early[:first], *every[first:]], first)
            for segment in segments:
                if segment.batch_number > min(met):
                    yield from self._combinations.find(first, _live(segment), others, owed=True)


def _with(segments: Sequence[list[Segment]], arrived: Sequence[Segment | None]) -> list[list[Segment]]:
    return [old if new is None else [*old, new] for old, new in zip(segments, arrived, strict=True)]


def _without(segments: Sequence[list[Segment]], first: int) -> dict[int, list[Segment]]:
    return {number: each for number, each in enumerate(segments) if number != first}


def _live(segment: Segment) -> SegmentRows:
    return SegmentRows(segment, np.arange(segment.rows)).alive

"""Combinations of rows, one of each side, which have equal keys and are within their windows.

The rows of one side probe all other sides. Each other side answers with its rows of the keys probed, and keys
without an answer drop out before the next side is asked. The answers are then combined, the smallest first.
No combination of fewer rows is stored.

Every two rows are within their windows exactly if the window of each row reaches the last row. So a
combination carries two times, and no pair of rows is compared.

A condition on results is asked last, once for each combination that is within all windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.expressions.condition_failures import Failures
from endmark.state import codec, search
from endmark.state.row_bytes import cut

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from endmark.expressions.condition import Condition
    from endmark.operators.stream_join.side import SideState
    from endmark.state.keys import Keys
    from endmark.state.search import Bools, Ints
    from endmark.state.segment import Segment
    from endmark.state.segment_list import SegmentRows

# After any event time and any number of a batch.
_NEVER_REACHED = 1 << 62


class Combinations:
    """Builds the results of one join.

    Attributes:
        failures: the combinations on which the residual condition failed. They are no results.

    Args:
        sides: the state of all sides. Results have their columns in this order.
        residual: the condition that results must meet; `None` is always met.
    """

    def __init__(self, sides: Sequence[SideState], residual: Condition | None) -> None:
        self._sides = sides
        self._residual = residual
        self.failures = Failures("where" if residual is None else residual.field)
        self._windowed = any(side.spec.window is not None for side in sides)

    def find(
        self,
        first: int,
        rows: SegmentRows,
        candidates: Mapping[int, Sequence[Segment]],
        *,
        owed: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results of some rows of one side with live rows of all other sides, in pieces.

        Args:
            first: the number of the rows' side.
            rows: the rows.
            candidates: the segments of each other side, by its number.
            owed: whether to leave out the results that were found before: those of which no row came after a
                spilled row last met the others.
        """
        if not len(rows):
            return
        keys, group = rows.distinct_keys()
        alive = np.arange(len(keys))
        pieces = {}
        for number in sorted(candidates, key=lambda each: sum(one.live for one in candidates[each])):
            pieces[number] = list(_lookup(candidates[number], keys, alive))
            if not pieces[number]:
                return
            answered = np.zeros(len(keys), bool)
            for piece in pieces[number]:
                answered[piece.group] = True
            alive = np.flatnonzero(answered)
        pieces[first] = [_Piece(rows.segment, group, rows.positions)]
        kept = np.zeros(len(keys), bool)
        kept[alive] = True
        if owed:
            kept &= _owed_keys([piece for found in pieces.values() for piece in found], len(keys))
        answers = [self._answer(number, found, kept) for number, found in pieces.items()]
        if all(answer.rows for answer in answers):
            answers.sort(key=lambda answer: answer.rows)
            yield from self._combine(answers, owed=owed)

    def _answer(self, number: int, pieces: list[_Piece], kept: Bools) -> _Answer:
        """Put the rows of one side together, in order of key, without those of keys that have no result."""
        narrowed = [found for piece in pieces if len((found := piece.of(kept)).group)]
        return _Answer(self._sides[number], number, narrowed, len(kept))

    def _combine(self, answers: list[_Answer], *, owed: bool) -> Iterator[pa.RecordBatch]:
        smallest, *others = answers
        every = np.arange(smallest.rows)
        partial = _Partial(
            smallest.group,
            {smallest.number: every},
            smallest.bounds if self._windowed else None,
            smallest.met if owed else None,
        )
        yield from self._extend(partial, others, {answer.number: answer for answer in answers})

    def _extend(
        self, partial: _Partial, rest: list[_Answer], answers: Mapping[int, _Answer]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the results that combinations become with rows of the sides that are missing in them."""
        if not rest:
            at = {number: answers[number].at[rows] for number, rows in partial.rows.items()}
            batches = {number: answer.batch for number, answer in answers.items()}
            for part in cut([(batches[number], positions) for number, positions in at.items()]):
                some = {number: positions[part] for number, positions in at.items()}
                if self._residual is not None:
                    some = self._meeting(self._residual, batches, some)
                if len(some[0]):
                    yield self._columns(batches, some)
            return
        answer, *later = rest
        of_all = np.arange(len(partial.group))
        for i, j in search.spread(of_all, answer.first[partial.group], answer.counts[partial.group]):
            extended = partial.extended(answer, i, j, last=not later)
            if len(extended.group):
                yield from self._extend(extended, later, answers)

    def _meeting(
        self, residual: Condition, batches: Mapping[int, pa.RecordBatch], at: Mapping[int, Ints]
    ) -> dict[int, Ints]:
        """Return the combinations that meet the condition, and count those on which it fails.

        Args:
            residual: the condition.
            batches: a batch with the rows of each side, by the side's number.
            at: the position of each combination's row in each of these.
        """
        answer = residual.ask(self._columns(batches, at, residual.columns))
        if len(answer.failed):
            first = int(answer.failed[0])
            coordinates = [
                side.spec.coordinates(batches[number], int(at[number][first]))
                for number, side in enumerate(self._sides)
            ]
            self.failures.add(len(answer.failed), answer.why, coordinates)
        return {number: positions[answer.holds] for number, positions in at.items()}

    def _columns(
        self,
        batches: Mapping[int, pa.RecordBatch],
        at: Mapping[int, Ints],
        only: Collection[str] | None = None,
    ) -> pa.RecordBatch:
        """Return the columns of combinations, as `_meeting` takes them; `only` names some, `None` all."""
        names, columns = [], []
        for number in range(len(self._sides)):
            own = [name for name in batches[number].schema.names if only is None or name in only]
            names += own
            columns += batches[number].select(own).take(pa.array(at[number])).columns
        return pa.record_batch(columns, names=names)


@dataclass(frozen=True)
class _Piece:
    """Rows of one segment.

    Args:
        segment: the segment.
        group: the number of each row's key among the keys probed.
        positions: the positions of the rows in the segment.
    """

    segment: Segment
    group: Ints
    positions: Ints

    def of(self, kept: Bools) -> _Piece:
        """Return the rows whose key is kept, by a mask of the keys probed."""
        mask = kept[self.group]
        return self if mask.all() else _Piece(self.segment, self.group[mask], self.positions[mask])


class _Answer:
    """The rows of one side that some keys found, in order of the keys' numbers.

    Attributes:
        number: the number of the side.
        rows: the number of rows.
        group: the number of each row's key.
        first, counts: the position of the first row of each key, and the number of its rows.
        batch: a batch that has the rows, with the columns that results show.
        at: the position of each row in `batch`.

    Args:
        side: the side.
        number: its number.
        pieces: the rows.
        keys: the number of keys.
    """

    def __init__(self, side: SideState, number: int, pieces: list[_Piece], keys: int) -> None:
        self._side = side
        self._pieces = pieces
        self.number = number
        group = _joined([piece.group for piece in pieces])
        self._order = np.argsort(group, kind="stable")
        self.group = group[self._order]
        self.rows = len(group)
        self.counts = np.bincount(group, minlength=keys)
        self.first = np.cumsum(self.counts) - self.counts

    @cached_property
    def batch(self) -> pa.RecordBatch:
        names = self._side.spec.schema.names
        if len(self._pieces) == 1:
            return self._pieces[0].segment.batch.select(names)
        batches = [
            piece.segment.batch.select(names).take(pa.array(piece.positions)) for piece in self._pieces
        ]
        return codec.concat(batches)

    @cached_property
    def at(self) -> Ints:
        return self._pieces[0].positions[self._order] if len(self._pieces) == 1 else self._order

    @cached_property
    def bounds(self) -> tuple[Ints, Ints]:
        """The time of each row, and the last time that its window reaches, in microseconds."""
        times = _joined([piece.segment.times[piece.positions] for piece in self._pieces])[self._order]
        window = self._side.spec.window
        return times, np.full(self.rows, _NEVER_REACHED) if window is None else times + window

    @cached_property
    def met(self) -> tuple[Ints, Ints]:
        """The number of each row's batch, and the number of the batch up to which it has met the others.

        The second one is `_NEVER_REACHED` for resident rows.
        """
        found = [_met(piece) for piece in self._pieces]
        came, met = (_joined([each[at] for each in found])[self._order] for at in (0, 1))
        return came, met


@dataclass(frozen=True)
class _Partial:
    """Combinations of rows of some sides.

    Args:
        group: the number of the key of each combination.
        rows: for each side in it, by number, the row of each combination in the side's answer.
        bounds: the time of the last row, and the time up to which all windows reach; `None` if no side has a
            window.
        met: the number of the newest row's batch, and that of the batch up to which all spilled rows have met
            the others; `None` if it does not matter.
    """

    group: Ints
    rows: dict[int, Ints]
    bounds: tuple[Ints, Ints] | None
    met: tuple[Ints, Ints] | None

    def extended(self, answer: _Answer, i: Ints, j: Ints, *, last: bool) -> _Partial:
        """Return combinations of one side more, without those that cannot be results.

        Args:
            answer: the rows of the side.
            i, j: positions of combinations, and of the row that joins each.
            last: whether no side is missing then.
        """
        bounds = None if self.bounds is None else _both(self.bounds, i, answer.bounds, j)
        met = None if self.met is None else _both(self.met, i, answer.met, j)
        good = np.ones(len(i), bool)
        if bounds is not None:
            good &= bounds[0] <= bounds[1]
        if met is not None and last:
            good &= met[0] > met[1]
        if not good.all():
            i, j = i[good], j[good]
            bounds = None if bounds is None else (bounds[0][good], bounds[1][good])
            met = None if met is None else (met[0][good], met[1][good])
        rows = {number: own[i] for number, own in self.rows.items()}
        return _Partial(self.group[i], {**rows, answer.number: j}, bounds, met)


def _both(mine: tuple[Ints, Ints], i: Ints, theirs: tuple[Ints, Ints], j: Ints) -> tuple[Ints, Ints]:
    """Return the greater first and the lesser second numbers."""
    return np.maximum(mine[0][i], theirs[0][j]), np.minimum(mine[1][i], theirs[1][j])


def _lookup(segments: Sequence[Segment], keys: Keys, alive: Ints) -> Iterator[_Piece]:
    """Yield the live rows of some of the keys."""
    asked = keys if len(alive) == len(keys) else keys.take(alive)
    for segment in segments:
        for i, j in segment.find(asked):
            if len(i):
                yield _Piece(segment, alive[i], j)


def _owed_keys(pieces: list[_Piece], keys: int) -> Bools:
    """Return a mask of the keys of which a row came after a spilled row last met the others."""
    newest, least = np.zeros(keys, np.int64), np.full(keys, _NEVER_REACHED)
    for piece in pieces:
        came, met = _met(piece)
        np.maximum.at(newest, piece.group, came)
        np.minimum.at(least, piece.group, met)
    owed: Bools = newest > least
    return owed


def _met(piece: _Piece) -> tuple[Ints, Ints]:
    segment = piece.segment
    joined_to = _NEVER_REACHED if segment.joined_to is None else segment.joined_to
    rows = len(piece.positions)
    return np.full(rows, segment.batch_number), np.full(rows, joined_to)


def _joined(arrays: list[Ints]) -> Ints:
    return arrays[0] if len(arrays) == 1 else np.concatenate([np.empty(0, np.int64), *arrays])

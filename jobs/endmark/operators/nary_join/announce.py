"""Announcements of keys: a key is announced once no later result has it.

By the rule `early`, a key that some side has closed is announced once all sides have closed it, or one that
has closed it holds no row of it. Until then it is *pending*. By the rule `closed`, all sides must have closed
it. If patterns close keys, `final` returns which keys are announced.

A pending key is kept by one side that has closed it (`SideState.pending_keys`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.operators.nary_join.ended_keys import without_rows
from endmark.operators.stream_join.announce import closed_before, newly_closed_keys
from endmark.operators.stream_join.event_times import FOR_EVER
from endmark.operators.stream_join.presets import Propagation
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from endmark.operators.stream_batch import StreamBatch
    from endmark.operators.stream_join.side import SideState
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys
    from endmark.state.search import Bools
    from endmark.state.segment_list import SegmentRows


class KeyAnnouncer:
    """Announces each key once.

    Args:
        sides: the state of all sides.
        rule: the rule of propagation.
    """

    def __init__(self, sides: Sequence[SideState], rule: Propagation) -> None:
        self._sides = sides
        self._key = sides[0].key
        self._rule = rule
        self._closed: list[pa.RecordBatch] = []
        self._closed_first: list[pa.RecordBatch] = []

    def closed_before(self, batches: Sequence[StreamBatch]) -> list[Keys | None]:
        """Return the keys that each side may close by name, and that another one has closed before.

        Call it before the sides take the batches. An entry is `None` if the batch of a side names no key, or
        if no pattern of another side comes.
        """
        found = []
        for number, (side, batch) in enumerate(zip(self._sides, batches, strict=True)):
            others = [*self._sides[:number], *self._sides[number + 1 :]]
            news = [*batches[:number], *batches[number + 1 :]]
            found.append(closed_before(side, others, batch, news))
        return found

    def close(self, closed_keys: Sequence[pa.RecordBatch | None], before: Sequence[Keys | None]) -> None:
        """Let the newly closed keys of each side count as closed. Call it once a batch.

        Keys that no other side has closed before the batch have not been announced yet.

        Args:
            closed_keys: the newly closed keys of each side.
            before: the answer of `closed_before`.
        """
        self._closed, self._closed_first = [], []
        for side, closed, earlier in zip(self._sides, closed_keys, before, strict=True):
            if closed is not None:
                keys = self._key.keys(closed)
                others = [other.has_closed(keys) for other in self._sides if other is not side]
                known = np.logical_or.reduce(others) if earlier is None else keys.among(earlier)
                self._closed.append(closed)
                self._closed_first.append(closed.filter(pa.array(~known)))
        for side in self._sides:
            side.closed_keys.close()

    def closed(
        self, key_promises: Sequence[Sequence[Punctuation]], gone: Iterable[tuple[int, SegmentRows]]
    ) -> pa.RecordBatch | None:
        """Return the keys that the closings of a batch complete, in order of code; keep others pending.

        Args:
            key_promises: the key promises of each side in the batch.
            gone: the rows that have left state because of the closings, by the number of their side.
        """
        asked = [*self._closed, *self._pending_of(gone)]
        for side, promises in zip(self._sides, key_promises, strict=True):
            if promises:
                for holder in self._sides:
                    found = holder.pending_keys.where(side.key_promises.positions)
                    asked += [rows.batch.select(self._key.stored) for rows in found]
        return self._complete(asked)

    def expired(self, gone: Iterable[tuple[int, SegmentRows]]) -> pa.RecordBatch | None:
        """Return the pending keys that are complete, in order of code, since rows have left their window."""
        self._closed_first = []
        return self._complete(self._pending_of(gone))

    def _pending_of(self, gone: Iterable[tuple[int, SegmentRows]]) -> list[pa.RecordBatch]:
        """Return the keys of some rows that are pending."""
        found = []
        some_pending = any(side.pending_keys.rows for side in self._sides)
        for number, rows in gone if some_pending else []:
            keys = rows.segment.keys.take(rows.positions)
            at = rows.positions[self._pending(keys)]
            stored = rows.segment.batch.select(self._sides[number].spec.key.stored).take(pa.array(at))
            found.append(stored.rename_columns(self._key.stored))
        return found

    def _complete(self, asked: list[pa.RecordBatch]) -> pa.RecordBatch | None:
        """Return the keys to announce among newly closed and pending ones; keep the others pending."""
        asked = [keys for keys in asked if keys.num_rows]
        if not asked or self._rule is Propagation.NEVER:
            return None
        distinct = self._key.distinct(codec.concat(asked))
        keys = self._key.keys(distinct)
        closed = self._closed_by_side(keys)
        over = self._over(keys, closed)
        if self._rule is Propagation.CLOSED:
            return distinct.filter(pa.array(over))
        pending = self._pending(keys)
        waiting = ~over & ~pending
        for side, mask in zip(self._sides, closed, strict=True):
            self._hold(side, distinct.filter(pa.array(waiting & mask)))
            waiting &= ~mask
        announced = distinct.filter(pa.array(over & (pending | self._closed_now(keys))))
        for side in self._sides:
            side.pending_keys.remove(self._key.keys(announced))
        return announced

    def _pending(self, keys: Keys) -> Bools:
        """Return a mask of the keys that are pending."""
        found: Bools = np.logical_or.reduce([side.pending_keys.contains(keys) for side in self._sides])
        return found

    def _hold(self, side: SideState, closed: pa.RecordBatch) -> None:
        side.hold(closed, np.full(closed.num_rows, FOR_EVER))

    def _closed_now(self, keys: Keys) -> Bools:
        """Return a mask of the keys that no side had closed before this batch."""
        found = np.zeros(len(keys), bool)
        for first in self._closed_first:
            found |= keys.among(self._key.keys(first))
        return found

    def _closed_by_side(self, keys: Keys) -> list[Bools]:
        """Return, for each side, a mask of the keys that it has closed."""
        return [side.has_closed(keys) for side in self._sides]

    def _over(self, keys: Keys, closed: list[Bools]) -> Bools:
        """Return a mask of the keys of which no result can come, among those that some side has closed.

        Args:
            keys: the keys.
            closed: for each side, a mask of the keys that it has closed.
        """
        over: Bools = np.logical_and.reduce(closed)
        if self._rule is Propagation.EARLY:
            over |= without_rows(keys, closed, [side.rows for side in self._sides], ~over)
        return over

    def hold_back(self, key_promises: Sequence[Sequence[Punctuation]]) -> None:
        """Keep the keys pending that the key promises of a batch close, if they are not complete.

        A side drops the closed keys that its patterns match, since it remembers the patterns.
        """
        for side, promises in zip(self._sides, key_promises, strict=True):
            if promises:
                side.closed_keys.forget()
                if self._rule is Propagation.EARLY:
                    self._hold_live(side)

    def _hold_live(self, side: SideState) -> None:
        for distinct in newly_closed_keys(side):
            keys = self._key.keys(distinct)
            over = self._over(keys, self._closed_by_side(keys))
            self._hold(side, distinct.filter(pa.array(~self._pending(keys) & ~over)))

    def final(self, keys: Keys) -> Bools:
        """Return a mask of the keys that are announced. Call it between two batches."""
        if self._rule is Propagation.NEVER:
            return np.zeros(len(keys), bool)
        closed = self._closed_by_side(keys)
        everywhere = self._rule is Propagation.CLOSED
        over: Bools = (np.logical_and if everywhere else np.logical_or).reduce(closed)
        return over if everywhere else over & ~self._pending(keys)

"""Pending rows: rows that wait for R beyond their batch, in segments that a checkpoint keeps.

`waiting_rows` has those that wait in a batch, grouped for the reads that answer them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.operators.lookup.waiting_rows import SERIAL, Piece
from endmark.state import manifest
from endmark.state.keys import nulls
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.state.keys import KeySpec
    from endmark.state.search import Bools
    from endmark.state.store import SegmentStore

ASKED = "$asked"  # int16: the number of times that R has been asked for the row in vain
DUE = "$due"  # int64: the time, in microseconds since 1970, from which R is to be asked again


class Pending:
    """Rows that are not answered yet (`queue`), and rows for which R is to be asked again (`parked`).

    Args:
        key: the stream's key.
        columns: the first columns of the rows.
        store: keeps the segments.
        restored: a snapshot; `None` to begin without rows.
        others: lists of the caller, which a snapshot keeps, too; `None` without any.

    Attributes:
        notes: the notes of the snapshot.
    """

    def __init__(
        self,
        key: KeySpec,
        columns: pa.Schema,
        store: SegmentStore,
        restored: bytes | None = None,
        others: Mapping[str, SegmentList] | None = None,
    ) -> None:
        self._key = key
        self._queue = SegmentList(store, key, columns=columns)
        self._parked = SegmentList(store, key, DUE, columns=columns)
        self._others = others or {}
        self.notes: dict[str, Any] = {}
        self._serial = 0
        if restored is not None:
            self.notes = manifest.load(restored, {**self._lists(), **self._others})
            self._serial = self.notes["serial"]

    def snapshot(self, notes: Mapping[str, Any]) -> bytes:
        """Return the state. `notes` are JSON values by name, which a restored object has as its `notes`."""
        return manifest.save({**self._lists(), **self._others}, {**notes, "serial": self._serial})

    @property
    def arrived_rows(self) -> int:
        """The number of rows that ever arrived."""
        return self._serial

    @property
    def answered_rows(self) -> int:
        """The number of rows, counted from the first that ever arrived, that are all answered."""
        first = self._least(self._lists().values(), SERIAL)
        return self._serial if first is None else first

    @property
    def waiting_rows(self) -> int:
        """The number of rows that are not answered, without parked ones."""
        return self._queue.rows

    @property
    def parked_rows(self) -> int:
        return self._parked.rows

    @property
    def first_due(self) -> int | None:
        """The time (µs since 1970) at which R is to be asked again for a parked row; `None` without one."""
        return self._least([self._parked], DUE)

    @property
    def size(self) -> int:
        """The bytes in the store, dead rows included."""
        return self._queue.size + self._parked.size

    def arrived(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Number new stream rows; return them with their code and the columns `SERIAL` and `ASKED`.

        Rows with a null in the key are numbered, too, but left out: they have no answer to wait for.
        """
        first, self._serial = self._serial, self._serial + rows.num_rows
        serials = np.arange(first, self._serial)
        if (null := nulls(rows, self._key.columns)).any():
            rows, serials = rows.filter(pa.array(~null)), serials[~null]
        numbered = self._key.coded(rows).append_column(SERIAL, pa.array(serials))
        return numbered.append_column(ASKED, pa.array(np.zeros(rows.num_rows, np.int16)))

    def due(self, now: int) -> list[pa.RecordBatch]:
        """Return the parked rows whose time has come; they are parked no longer."""
        gone = self._parked.expire(now + 1)
        return [one.batch.drop_columns([DUE]) for one in gone]

    def waiting(self) -> list[Piece]:
        """Return the rows of earlier batches that wait, in the order in which `settle` takes them."""
        return [
            Piece(segment.batch, segment.live_positions) for segment in self._queue.segments if segment.live
        ]

    def settle(self, unanswered: Bools, new: pa.RecordBatch) -> None:
        """Keep the rows that a batch has not answered.

        Args:
            unanswered: a mask of the rows of `waiting`.
            new: rows that did not wait before and still have no answer, sorted by key.
        """
        at = 0
        for segment in self._queue.segments:
            if not segment.live:
                continue
            alive, live = segment.live_positions, segment.live
            answered = np.flatnonzero(~unanswered[at : at + live])
            if len(answered):
                segment.kill(answered if alive is None else alive[answered])
            at += live
        self._queue.append(new)
        for segments in self._lists().values():
            segments.maintain()

    def park(self, rows: pa.RecordBatch, due: int) -> None:
        """Park rows until the time `due` (µs since 1970), when R is to be asked again."""
        asked = pc.add(rows.column(ASKED), pa.scalar(1, pa.int16()))
        position = rows.schema.get_field_index(ASKED)
        again = rows.set_column(position, ASKED, asked)
        self._parked.append(self._key.sorted(again.append_column(DUE, pa.array(np.full(rows.num_rows, due)))))

    def _least(self, lists: Iterable[SegmentList], column: str) -> int | None:
        """Return the least value of a column among live rows; `None` if there are none."""
        found = []
        for segment in (segment for each in lists for segment in each.segments if segment.live):
            values = int64(segment.batch.column(column))
            found.append(int((values if segment.dead is None else values[~segment.dead]).min()))
        return min(found, default=None)

    def _lists(self) -> dict[str, SegmentList]:
        return {"queue": self._queue, "parked": self._parked}

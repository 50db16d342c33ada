"""Rows that wait beyond their batch: columns in segments that a checkpoint carries over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.operators.lookup.pieces import Piece
from endmark.operators.lookup.waiting_rows import SERIAL
from endmark.state import manifest
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from endmark.state.keys import KeySpec
    from endmark.state.search import Bools
    from endmark.state.store import SegmentStore

ASKED = "$asked"  # int16: how often R has been asked for the row, in vain
DUE = "$due"  # int64: microseconds since 1970 from when R is to be asked again


class Pending:
    """Rows not answered yet (`queue`) and rows to ask again for later (`parked`).

    Args:
        key: the stream's key.
        store: where segments rest.
        restored: a snapshot.
        others: the caller's lists, which a snapshot keeps beside these.
    """

    def __init__(
        self,
        key: KeySpec,
        store: SegmentStore,
        restored: bytes | None = None,
        others: Mapping[str, SegmentList] | None = None,
    ) -> None:
        self._key = key
        self._queue = SegmentList(store, key)
        self._parked = SegmentList(store, key, DUE)
        self._others = others or {}
        self.notes: dict[str, Any] = {}
        self._serial = 0
        if restored is not None:
            self.notes = manifest.load(restored, {**self._lists(), **self._others})
            self._serial = self.notes["serial"]

    def snapshot(self, notes: Mapping[str, Any]) -> bytes:
        """All there is to remember; `notes` is any JSON value by name, and comes back as `notes`."""
        return manifest.save({**self._lists(), **self._others}, {**notes, "serial": self._serial})

    @property
    def arrived_rows(self) -> int:
        """Rows that ever arrived."""
        return self._serial

    @property
    def answered_rows(self) -> int:
        """How many of them, from the first on, are all answered."""
        first = self._least(self._lists().values(), SERIAL)
        return self._serial if first is None else first

    @property
    def waiting_rows(self) -> int:
        """Rows that are not answered, parked ones aside."""
        return self._queue.rows

    @property
    def parked_rows(self) -> int:
        return self._parked.rows

    @property
    def first_due(self) -> int | None:
        """When R is to be asked again for the first of them, in microseconds since 1970."""
        return self._least([self._parked], DUE)

    @property
    def size(self) -> int:
        """Durable bytes, dead rows included."""
        return self._queue.size + self._parked.size

    def arrived(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Stream rows with their code, numbered in their order."""
        first, self._serial = self._serial, self._serial + rows.num_rows
        numbered = self._key.coded(rows).append_column(SERIAL, pa.array(np.arange(first, self._serial)))
        return numbered.append_column(ASKED, pa.array(np.zeros(rows.num_rows, np.int16)))

    def due(self, now: int) -> list[pa.RecordBatch]:
        """Parked rows whose time has come; they are parked no longer."""
        gone = self._parked.expire(now + 1)
        return [one.batch.drop_columns([DUE]) for one in gone]

    def waiting(self) -> list[Piece]:
        """Rows left over from earlier batches, in the order in which `settle` wants to hear of them."""
        return [
            Piece(segment.batch, segment.live_positions) for segment in self._queue.segments if segment.live
        ]

    def settle(self, unanswered: Bools, new: pa.RecordBatch) -> None:
        """Keep what a batch left unanswered: of `waiting()`, then of `new`, which has come since."""
        at = 0
        for segment in self._queue.segments:
            if not segment.live:
                continue
            alive, live = segment.live_positions, segment.live
            answered = np.flatnonzero(~unanswered[at : at + live])
            if len(answered):
                segment.kill(answered if alive is None else alive[answered])
            at += live
        self._queue.append(self._key.sorted(new.filter(pa.array(unanswered[at:]))))
        for segments in self._lists().values():
            segments.maintain()

    def park(self, rows: pa.RecordBatch, due: int) -> None:
        """Ask again for these rows from a time on."""
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

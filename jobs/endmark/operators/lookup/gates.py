"""The gates of all lookups of one stream: all relations are asked for a row at the same time.

A row enters the stream join when all relations have answered it. All gates get the same rows in the same
batches, so they hold back the same batches. The first gate hands on everything that came with the rows. The
others hand on the columns of their relations alone.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from endmark.operators.stream_batch import StreamBatch
from endmark.state import codec
from endmark.state.keys import CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from endmark.operators.lookup.gate import Gate
    from endmark.punctuation.punctuation import Punctuation

T = TypeVar("T")
MISSED = "$missed"  # int64: the place of the lookup that has given a row up


class Gates:
    """The gates of one stream in one bucket.

    Args:
        gates: at least one. The first has the key by which rows enter the stream join. The others have the
            partition and offset of a record as their key, and keep these and the columns of R.
    """

    def __init__(self, gates: Sequence[Gate]) -> None:
        self._gates = gates

    @property
    def held_promises(self) -> list[Punctuation]:
        """The promises that have not entered the stream join."""
        return self._gates[0].held.promises

    @property
    def waits_since(self) -> int | None:
        """The arrival time of the oldest batch that is held back, in microseconds since 1970."""
        return self._gates[0].held.since

    def due(self, now: int) -> int | None:
        """Return the time at which another batch would let rows in (µs since 1970); `None` if none waits."""
        until = self._gates[0].held.until
        if until is not None and until <= min(gate.answered_rows for gate in self._gates):
            return now
        times = [gate.asks_at(now) for gate in self._gates]
        return min((time for time in times if time is not None), default=None)

    def process(self, came: StreamBatch, now: int, *, pause: bool) -> list[StreamBatch]:
        """Look up one batch; return the batches of the stream that enter the join, in order.

        Args:
            came: the batch; its rows have the stream's columns.
            now: microseconds since 1970.
            pause: leave no row waiting, parked ones aside.
        """
        answered = side_by_side([partial(each.ask, came.rows, now, pause=pause) for each in self._gates])
        complete = min(one.complete for one in answered)
        shares = [came, *(StreamBatch(rows=came.rows) for _ in self._gates[1:])]
        entering = [
            gate.enter(share, answers, complete, now)
            for gate, share, answers in zip(self._gates, shares, answered, strict=True)
        ]
        return [self._together(batch) for batch in zip(*entering, strict=True)]

    def _together(self, batch: Sequence[StreamBatch]) -> StreamBatch:
        """Return one batch of the stream, given the share of each lookup in it."""
        first, *others = batch
        rows = reduce(self._joined, (other.rows for other in others), first.rows)
        return replace(first, rows=rows, bystanders=self._given_up([one.bystanders for one in batch]))

    def _joined(self, rows: pa.RecordBatch | None, others: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """Return each row beside all matches that another lookup has found for its record."""
        if rows is None or others is None:
            return None
        found = pa.Table.from_batches([others.drop_columns([CODE])])
        joined = pa.Table.from_batches([rows]).join(found, self._record, join_type="inner", use_threads=False)
        return self._sorted(joined)

    def _given_up(self, missed: Sequence[pa.RecordBatch | None]) -> pa.RecordBatch | None:
        """Return the rows that some lookup has given up, each once, with the first lookup that did."""
        found: pa.Table | None = None
        for place, given_up in enumerate(missed):
            if given_up is None:
                continue
            by_record = place > 0
            rows = self._gates[0].key.coded(given_up.drop_columns([CODE])) if by_record else given_up
            more = pa.Table.from_batches([rows.append_column(MISSED, pa.repeat(place, rows.num_rows))])
            if found is not None:
                more = more.join(
                    found.select(self._record), self._record, join_type="left anti", use_threads=False
                )
                more = pa.concat_tables([found, more.select(found.column_names)])
            found = more
        return None if found is None else self._sorted(found)

    @property
    def _record(self) -> list[str]:
        """The columns that identify a record of the stream."""
        return list(self._gates[-1].key.columns)

    def _sorted(self, rows: pa.Table) -> pa.RecordBatch | None:
        return self._gates[0].key.sorted(codec.concat(rows.to_batches())) if rows.num_rows else None


def side_by_side(reads: Sequence[Callable[[], T]]) -> list[T]:
    """Call all of them in threads and return their results: they mostly wait for a database."""
    if len(reads) < 2:
        return [read() for read in reads]
    first, *others = reads
    with ThreadPoolExecutor(len(others), thread_name_prefix="lookup") as pool:
        found = [pool.submit(other) for other in others]
        return [first(), *(one.result() for one in found)]

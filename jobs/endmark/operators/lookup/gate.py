"""The gate between a lookup and the stream join: it holds a batch back until R has answered all its rows.

Rows that wait for R hold back all that came with them and after them: rows, punctuations, progress. So the
stream join sees the stream as it would without a lookup, only later. Nothing is closed, announced, purged or
late before the rows that precede it have entered.

The number of rows that R answers within a batch depends on time, but a batch that is repeated must give the
same. So a batch lets in either everything, or what was complete when it began. In a pause it lets in
everything, unless rows without a match are parked: then R may change, so its answers enter a batch later.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.operators.lookup.held_batches import Held, numbered, unnumbered
from endmark.operators.lookup.join import LookupJoin, LookupOutput
from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from endmark.operators.lookup.cache import FrontCache
    from endmark.operators.lookup.join import LookupSpec, Source
    from endmark.operators.promise_codec import PromiseCodec
    from endmark.operators.stream_batch import StreamBatch
    from endmark.state.keys import KeySpec
    from endmark.state.store import SegmentStore


@dataclass(frozen=True)
class GateSpec:
    """The specification of a gate.

    Args:
        lookup: the join with R; its schema ends with `BATCH`.
        key: by which rows enter the stream join.
        codec: of the stream's promises.
        dropped: columns, beside `BATCH`, that rows with a match do not keep.
        carries: whether batches that are no pause leave rows waiting; it counts from the batch after.
    """

    lookup: LookupSpec
    key: KeySpec
    codec: PromiseCodec
    dropped: tuple[str, ...] = ()
    carries: bool = False

    @property
    def parks(self) -> bool:
        """True if rows without a match are asked for again."""
        return self.lookup.misses.attempts > 1


@dataclass(frozen=True)
class Answered:
    """The rows that R has answered in one batch.

    Args:
        complete: how many rows of the stream, from the first on, may enter now: as many if it is repeated.
        joined, missed: rows with their match, and those without; with `BATCH`.
    """

    complete: int
    joined: pa.RecordBatch | None
    missed: pa.RecordBatch | None


class Gate:
    """The gate between one lookup and the stream join, for one bucket's share of a stream; see `Gates`.

    Args:
        spec: its specification.
        source: R, and the way it is read.
        store: keeps rows that wait beyond their batch.
        cache: rows of R in memory.
        restored: a snapshot.
        reading: entered around the reads of a batch.
    """

    def __init__(
        self,
        spec: GateSpec,
        source: Source,
        store: SegmentStore,
        cache: FrontCache | None = None,
        restored: bytes | None = None,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._spec = spec
        self._reading = reading
        self.held = Held(store, spec.key, spec.codec)
        self._join = LookupJoin(spec.lookup, source, store, cache, restored, self.held.lists)
        notes = self._join.notes
        self.held.restore(notes.get("held", []))
        self._number: int = notes.get("number", 0)
        self._carries: bool = notes.get("carries", False)

    def snapshot(self) -> bytes:
        self._join.notes = {
            "held": self.held.notes(),
            "number": self._number,
            "carries": self._spec.carries,
        }
        return self._join.snapshot()

    @property
    def key(self) -> KeySpec:
        """The key by which rows leave the gate."""
        return self._spec.key

    @property
    def output(self) -> LookupOutput:
        """The output of the lookup's last batch."""
        return self._join.output

    @property
    def answered_rows(self) -> int:
        """The number of rows of the stream, counted from the first, that R has answered."""
        return self._join.pending.answered_rows

    def asks_at(self, now: int) -> int | None:
        """Return the time at which R is to be asked next, in µs since 1970; `None` if no row waits."""
        pending = self._join.pending
        if pending.waiting_rows:
            return now
        return pending.first_due

    def ask(self, rows: pa.RecordBatch | None, now: int, *, pause: bool) -> Answered:
        """Look up the rows of one batch, and those that wait; `enter` is to follow.

        Args:
            rows: rows of the stream, in its columns; `None` without any.
            now: microseconds since 1970.
            pause: leave no row waiting, parked ones aside.
        """
        drain = pause or not self._carries
        whole = drain and not self._spec.parks
        pending = self._join.pending
        complete = pending.answered_rows
        self._number += 1
        if rows is None and complete == pending.arrived_rows:
            output = self._join.process(None, now)
        else:
            if rows is not None:
                rows = numbered(rows, self._number).select(self._spec.lookup.schema.names)
            with self._reading():
                output = self._join.process(rows, now, drain=drain, beside=self.held.memory)
        joined = self._leaving(output.joined, self._spec.dropped)
        missed = self._leaving(output.missed, ())
        return Answered(pending.arrived_rows if whole else complete, joined, missed)

    def enter(self, came: StreamBatch, answered: Answered, complete: int, now: int) -> list[StreamBatch]:
        """Return the batches of the stream that enter the join with its first `complete` rows, in order.

        Args:
            came: the batch that `ask` was given the rows of.
            answered: the result of `ask`.
            complete: a number of rows of the stream, counted from the first that ever came.
            now: microseconds since 1970.
        """
        until = self._join.pending.arrived_rows
        if complete == until and not self.held:
            return [replace(came, rows=unnumbered(answered.joined), bystanders=unnumbered(answered.missed))]
        self.held.hold(self._number, until, came, now)
        self.held.keep(answered.joined, answered.missed)
        entering = self.held.let_go(complete)
        self.held.maintain()
        return entering

    def _leaving(self, pieces: list[pa.RecordBatch], dropped: tuple[str, ...]) -> pa.RecordBatch | None:
        """Return rows as the stream join takes them, but with `BATCH`."""
        if not pieces:
            return None
        return self._spec.key.sorted(self._spec.key.coded(codec.concat(pieces).drop_columns(list(dropped))))

"""The gate between the lookups of a stream and the stream join. A batch passes once R has answered its rows.

Rows that wait for R hold back everything that came with them or after them: rows, punctuations and progress.
So the stream join sees the stream as without a lookup, only later. All earlier rows have entered before a
punctuation closes, announces or purges anything, and before progress makes a row late.

The number of rows that R answers in a batch depends on time. But a repeated batch must give the same results.
So a batch lets in either everything, or only what was complete when it began. In a pause it lets in
everything, unless rows without a match may be parked. Then R may change, so its answers enter a batch later.

All lookups of a stream look a row up at the same time, each in its own relation R. The row enters the stream
join when all have answered it. All lookups get the same rows in the same batches, so they hold back the same
batches. The first lookup passes on everything that came with the rows. The other lookups pass on only the
columns of their relations.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from endmark.operators.lookup.held_batches import HeldBatches, numbered, unnumbered
from endmark.operators.lookup.join import LookupJoin, LookupOutput
from endmark.operators.stream_batch import StreamBatch
from endmark.state import codec
from endmark.state.keys import CODE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from endmark.operators.lookup.cache import FrontCache
    from endmark.operators.lookup.join import LookupSpec, Source
    from endmark.operators.promise_codec import PromiseCodec
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import KeySpec
    from endmark.state.store import SegmentStore

T = TypeVar("T")
MISSED = "$missed"  # int64: the place of the lookup that has given a row up


@dataclass(frozen=True)
class GateSpec:
    """The specification of a gated lookup: its join with R, and the form in which rows leave it.

    Args:
        lookup: the join with R; its schema ends with `BATCH`.
        key: the key by which rows leave the gate.
        codec: reads and writes the promises of the stream.
        dropped: columns that rows with a match do not keep. `BATCH` is always dropped.
        carries: whether batches that are no pause leave rows waiting. A new value counts from the next batch
            on.
    """

    lookup: LookupSpec
    key: KeySpec
    codec: PromiseCodec
    dropped: tuple[str, ...] = ()
    carries: bool = False

    @property
    def parks(self) -> bool:
        """True if R is asked again for rows without a match."""
        return self.lookup.misses.attempts > 1


@dataclass(frozen=True)
class Answered:
    """The answers of one lookup in one batch.

    Args:
        complete: the number of rows of the stream, counted from its first, that may enter now. A repeated
            batch has the same number.
        batch: the batch as it came, but with the rows that R has answered. Its `rows` have a match, whose
            columns are added. Its `bystanders` have none. The column `BATCH` has the number of the batch in
            which a row came.
    """

    complete: int
    batch: StreamBatch


class Gate:
    """The gate of one stream in one bucket.

    Args:
        lookups: the lookups of the stream, at least one. Rows of the first one have the key by which they
            enter the stream join. Rows of the others have the partition and offset of a record as their key.
            They keep only this key and the columns of R.
    """

    def __init__(self, lookups: Sequence[GatedLookup]) -> None:
        self._lookups = lookups

    @property
    def held_promises(self) -> list[Punctuation]:
        """The promises that have not entered the stream join."""
        return self._lookups[0].held.promises

    @property
    def waits_since(self) -> int | None:
        """The arrival time of the oldest held batch, in microseconds since 1970; `None` without one."""
        return self._lookups[0].held.since

    def due(self, now: int) -> int | None:
        """Return the time (µs since 1970) at which another batch would let rows in; `None` if none waits."""
        until = self._lookups[0].held.until
        if until is not None and until <= min(one.answered_rows for one in self._lookups):
            return now
        times = [one.asks_at(now) for one in self._lookups]
        return min((time for time in times if time is not None), default=None)

    def asks(self, came: StreamBatch, now: int, *, pause: bool) -> list[Callable[[], Answered]]:
        """Return functions that look up one batch, one for each relation. `enter` takes their answers.

        Args:
            came: the batch; its rows have the stream's columns.
            now: microseconds since 1970.
            pause: whether to leave no row waiting, except parked ones.
        """
        shares = [came, *(StreamBatch(rows=came.rows) for _ in self._lookups[1:])]
        return [
            partial(lookup.ask, share, now, pause=pause)
            for lookup, share in zip(self._lookups, shares, strict=True)
        ]

    def enter(self, answers: Sequence[Answered], now: int) -> list[StreamBatch]:
        """Return the batches of the stream that enter the join, in order.

        Args:
            answers: the results of the functions that `asks` has returned, in their order.
            now: microseconds since 1970.
        """
        complete = min(one.complete for one in answers)
        entering = [
            lookup.enter(one.batch, complete, now) for lookup, one in zip(self._lookups, answers, strict=True)
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
        """Return the rows that lookups have given up, each once, with the place of the first such lookup."""
        found: pa.Table | None = None
        for place, given_up in enumerate(missed):
            if given_up is None:
                continue
            by_record = place > 0
            rows = self._lookups[0].key.coded(given_up.drop_columns([CODE])) if by_record else given_up
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
        return list(self._lookups[-1].key.columns)

    def _sorted(self, rows: pa.Table) -> pa.RecordBatch | None:
        return self._lookups[0].key.sorted(codec.concat(rows.to_batches())) if rows.num_rows else None


class GatedLookup:
    """One lookup of a stream in one bucket, with the batches that it holds back.

    Attributes:
        held: the held batches.

    Args:
        spec: the specification of the lookup.
        source: R, and the way it is read.
        store: keeps rows that wait beyond their batch.
        cache: rows of R in memory; `None` without one.
        restored: a snapshot; `None` to begin without state.
        reading: makes a context that is entered around the reads of a batch.
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
        self.held = HeldBatches(store, spec.key, spec.codec)
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

    def ask(self, came: StreamBatch, now: int, *, pause: bool) -> Answered:
        """Look up the rows of one batch and the rows that wait. Call `enter` afterwards.

        Args:
            came: the batch; its rows have the stream's columns.
            now: microseconds since 1970.
            pause: whether to leave no row waiting, except parked ones.
        """
        drain = pause or not self._carries
        whole = drain and not self._spec.parks
        rows, pending = came.rows, self._join.pending
        complete = pending.answered_rows
        self._number += 1
        if rows is None and complete == pending.arrived_rows:
            output = self._join.process(None, now)
        else:
            if rows is not None:
                rows = numbered(rows, self._number).select(self._spec.lookup.schema.names)
            with self._reading():
                output = self._join.process(rows, now, drain=drain, reserved=self.held.memory)
        joined = self._leaving(output.joined, self._spec.dropped)
        missed = self._leaving(output.missed, ())
        batch = replace(came, rows=joined, bystanders=missed)
        return Answered(pending.arrived_rows if whole else complete, batch)

    def enter(self, answered: StreamBatch, complete: int, now: int) -> list[StreamBatch]:
        """Return the batches of the stream that enter the join with its first `complete` rows, in order.

        Args:
            answered: the batch that `ask` has returned.
            complete: the number of rows of the stream that may have entered, counted from its first.
            now: microseconds since 1970.
        """
        until = self._join.pending.arrived_rows
        if complete == until and not self.held:
            rows, missed = unnumbered(answered.rows), unnumbered(answered.bystanders)
            return [replace(answered, rows=rows, bystanders=missed)]
        self.held.hold(self._number, until, answered, now)
        entering = self.held.let_go(complete)
        self.held.maintain()
        return entering

    def _leaving(self, pieces: list[pa.RecordBatch], dropped: tuple[str, ...]) -> pa.RecordBatch | None:
        """Return rows in the form that the stream join takes, but with `BATCH`; `None` without any."""
        if not pieces:
            return None
        return self._spec.key.sorted(self._spec.key.coded(codec.concat(pieces).drop_columns(list(dropped))))


def side_by_side(reads: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions in threads and return their results. They mostly wait for a database."""
    if len(reads) < 2:
        return [read() for read in reads]
    first, *others = reads
    with ThreadPoolExecutor(len(others), thread_name_prefix="lookup") as pool:
        found = [pool.submit(other) for other in others]
        return [first(), *(one.result() for one in found)]

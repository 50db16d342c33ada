"""The gate behind lookups of a stream. A batch passes once R has answered its rows.

Rows that wait for R hold back everything that came with them or after them: rows, punctuations and progress.
So the stream join sees the stream as without a lookup, only later. All earlier rows have entered before a
punctuation closes, announces or purges anything, and before progress makes a row late.

The number of rows that R answers in a batch depends on time. But a repeated batch must give the same results.
So a batch lets out either everything, or only what was complete when it began. In a pause it lets out
everything, unless rows without a match may be parked. Then R may change, so its answers leave a batch later.

All lookups of a gate look a row up at the same time, each in its own relation R. The row leaves when all have
answered it. All lookups get the same rows in the same batches, so they hold back the same batches. The first
lookup passes on everything that came with the rows. The other lookups pass on only the columns of their
relations.

What a gate lets out comes to the gate of the stream's next lookups, or enters the stream join. So the next
lookups may ask by what earlier ones have found, and see the stream as without them, only later. A record may
be several rows by then. It is given up once the last of its rows is.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa

from endmark.operators.lookup.held_batches import HeldBatches, NumberedBatch, numbered, unnumbered
from endmark.operators.lookup.join import LookupJoin, LookupOutput
from endmark.operators.stream_batch import StreamBatch
from endmark.state import codec
from endmark.state.keys import CODE
from endmark.state.segment import int64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from endmark.operators.lookup.cache import FrontCache
    from endmark.operators.lookup.join import LookupSpec, Source
    from endmark.operators.promise_codec import PromiseCodec
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import KeySpec
    from endmark.state.search import Ints
    from endmark.state.store import SegmentStore

T = TypeVar("T")
MISSED = "$missed"  # int64: the number of the lookup or row step that has given a row up
ROW = "$row"  # int64: the number of a row in a batch that came to a gate of several lookups
_EARLIER = -1  # ROW of a row that an earlier gate has given up


@dataclass(frozen=True)
class GateSpec:
    """The specification of a gated lookup: its join with R, and the form in which rows leave it.

    Args:
        lookup: the join with R; its schema ends with `BATCH`. It has `ROW` if the gate has several lookups.
        key: the key by which rows leave the gate.
        codec: reads and writes the promises of the stream.
        dropped: columns that rows with a match do not keep. `BATCH` is always dropped.
        carries: whether batches that are no pause leave rows waiting. A new value counts from the next batch
            on.
        number: the number of the lookup among the lookups and row steps of its stream.
        record: the columns that identify a record of the stream, if earlier gates may have made several rows
            of a record. Empty if each row is a record.
        found: columns that earlier gates have added. Rows without a match do not keep them.
    """

    lookup: LookupSpec
    key: KeySpec
    codec: PromiseCodec
    dropped: tuple[str, ...] = ()
    carries: bool = False
    number: int = 0
    record: tuple[str, ...] = ()
    found: tuple[str, ...] = ()

    @property
    def parks(self) -> bool:
        """True if R is asked again for rows without a match."""
        return self.lookup.misses.attempts > 1


@dataclass(frozen=True)
class Answered:
    """The answers of one lookup in one batch of the bucket.

    Args:
        complete: the number of rows, counted from the first that came to the gate, that may leave now. A
            repeated batch has the same number.
        came: the batches that have come to the gate, without rows.
        rows: the rows that R has answered and that have a match, with the columns of R. The column `BATCH`
            has the number of the batch in which a row came.
        missed: the rows that are given up, with `BATCH` and `MISSED`.
    """

    complete: int
    came: list[NumberedBatch]
    rows: pa.RecordBatch | None
    missed: pa.RecordBatch | None


class Gate:
    """The gate behind some lookups of one stream in one bucket.

    Args:
        lookups: the lookups, at least one. Rows of the first one have the key by which they enter the stream
            join. Rows of the others have `ROW` as their key. They keep only this key and the columns of R.
    """

    def __init__(self, lookups: Sequence[GatedLookup]) -> None:
        self._lookups = lookups

    @property
    def held_promises(self) -> list[Punctuation]:
        """The promises that have come and not left."""
        return self._lookups[0].held.promises

    @property
    def waits_since(self) -> int | None:
        """The arrival time of the oldest held batch, in microseconds since 1970; `None` without one."""
        return self._lookups[0].held.since

    def due(self, now: int) -> int | None:
        """Return the time (µs since 1970) at which another batch would let rows out; `None` if none waits."""
        until = self._lookups[0].held.until
        if until is not None and until <= min(one.answered_rows for one in self._lookups):
            return now
        times = [one.due(now) for one in self._lookups]
        return min((time for time in times if time is not None), default=None)

    def asks(self, came: Sequence[StreamBatch], now: int, *, pause: bool) -> list[Callable[[], Answered]]:
        """Return functions that look up batches, one for each relation. `enter` takes their answers.

        Args:
            came: the batches that come to the gate in one batch of the bucket, in order.
            now: microseconds since 1970.
            pause: whether to leave no row waiting, except parked ones.
        """
        rows = [StreamBatch(rows=one.rows) for one in came]
        shares = [came, *(rows for _ in self._lookups[1:])]
        return [
            partial(lookup.ask, share, now, pause=pause)
            for lookup, share in zip(self._lookups, shares, strict=True)
        ]

    def enter(self, answers: Sequence[Answered]) -> list[StreamBatch]:
        """Return the batches of the stream that leave the gate, in order.

        Args:
            answers: the results of the functions that `asks` has returned, in their order.
        """
        complete = min(one.complete for one in answers)
        leaving = [lookup.enter(one, complete) for lookup, one in zip(self._lookups, answers, strict=True)]
        return [self._together(batch) for batch in zip(*leaving, strict=True)]

    def _together(self, batch: Sequence[StreamBatch]) -> StreamBatch:
        """Return one batch of the stream, given the share of each lookup in it."""
        first, *others = batch
        rows = reduce(self._joined, (other.rows for other in others), first.rows)
        missed = [one.bystanders for one in batch if one.bystanders is not None]
        if others and rows is not None:
            rows = rows.drop_columns([ROW])
        return replace(first, rows=rows, bystanders=self._given_up(missed, rows) if missed else None)

    def _joined(self, rows: pa.RecordBatch | None, others: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """Return each row beside all matches that another lookup has found for it."""
        if rows is None or others is None:
            return None
        found = pa.Table.from_batches([others])
        joined = pa.Table.from_batches([rows]).join(found, ROW, join_type="inner", use_threads=False)
        return self._sorted(joined)

    def _given_up(
        self, missed: Sequence[pa.RecordBatch], rows: pa.RecordBatch | None
    ) -> pa.RecordBatch | None:
        """Return one row of each record that is given up, with the number of the lookup that decides.

        The first lookup without a match gives a row up. The last lookup that gives up a row of a record
        decides, if no other row of the record goes on.

        Args:
            missed: the rows that each lookup gives up; the first also has what earlier gates have given up.
            rows: the rows that go on.
        """
        several, record = len(self._lookups) > 1, self._lookups[0].record
        if not several and not record:
            return missed[0]
        names = [name for name in missed[0].schema.names if name != CODE]
        found = codec.concat([one.select(names) for one in missed])
        if several:
            found = found.take(least(found, [*record, ROW], int64(found.column(MISSED))))
            found = found.drop_columns([ROW])
        if record:
            found = found.take(least(found, record, -int64(found.column(MISSED))))
        table = pa.Table.from_batches([found])
        if record and rows is not None:
            going_on = pa.Table.from_batches([rows.select(list(record))])
            table = table.join(going_on, list(record), join_type="left anti", use_threads=False)
        return self._sorted(table)

    def _sorted(self, rows: pa.Table) -> pa.RecordBatch | None:
        """Return rows by the key of the gate; `None` without any."""
        if not rows.num_rows:
            return None
        batch, key = codec.concat(rows.to_batches()), self._lookups[0].key
        return key.sorted(batch if CODE in batch.schema.names else key.coded(batch))


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
        self.held = HeldBatches(
            store,
            spec.key,
            spec.codec,
            self._columns_without(spec.dropped),
            self._columns_without(spec.found),
        )
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
    def record(self) -> tuple[str, ...]:
        """The columns that identify a record; empty if each row is a record."""
        return self._spec.record

    @property
    def output(self) -> LookupOutput:
        """The output of the lookup's last batch."""
        return self._join.output

    @property
    def answered_rows(self) -> int:
        """The number of rows, counted from the first that came to the gate, that R has answered."""
        return self._join.pending.answered_rows

    @property
    def is_idle(self) -> bool:
        """True if no row waits or is parked, and no batch is held back."""
        pending = self._join.pending
        return not (pending.waiting_rows or pending.parked_rows or self.held)

    def due(self, now: int) -> int | None:
        """Return the time at which R is to be asked next, in µs since 1970; `None` if no row waits."""
        pending = self._join.pending
        if pending.waiting_rows:
            return now
        return pending.first_due

    def ask(self, came: Sequence[StreamBatch], now: int, *, pause: bool) -> Answered:
        """Look up the rows of batches and the rows that wait. Call `enter` afterwards.

        Args:
            came: the batches that have come, in order.
            now: microseconds since 1970.
            pause: whether to leave no row waiting, except parked ones.
        """
        drain = pause or not self._carries
        whole = drain and not self._spec.parks
        pending = self._join.pending
        complete, arrived = pending.answered_rows, pending.arrived_rows
        batches, pieces, missed = list[NumberedBatch](), list[pa.RecordBatch](), list[pa.RecordBatch]()
        until = arrived
        for one in came:
            self._number += 1
            if one.rows is not None:
                pieces.append(self._numbered(one.rows))
                until += one.rows.num_rows
            if one.bystanders is not None:
                missed.append(self._passed_on(one.bystanders))
            since = now if one.since is None else one.since
            batches.append(NumberedBatch(self._number, until, replace(one, rows=None, since=since)))
        if not pieces and complete == arrived:
            output = self._join.process(None, now)
        else:
            with self._reading():
                rows = codec.concat(pieces) if pieces else None
                output = self._join.process(rows, now, drain=drain, reserved=self.held.memory)
        missed += [self._given_up(rows) for rows in output.missed]
        joined = [rows.drop_columns(list(self._spec.dropped)) for rows in output.joined]
        return Answered(until if whole else complete, batches, self._leaving(joined), self._leaving(missed))

    def enter(self, answered: Answered, complete: int) -> list[StreamBatch]:
        """Return the batches that leave the gate with its first `complete` rows, in order.

        Args:
            answered: what `ask` has returned.
            complete: the number of rows that may have left, counted from the first that came to the gate.
        """
        if len(answered.came) == 1 and complete == self._join.pending.arrived_rows and not self.held:
            rows, missed = unnumbered(answered.rows), unnumbered(answered.missed)
            return [replace(answered.came[0].batch, rows=rows, bystanders=missed)]
        self.held.hold(answered.came, answered.rows, answered.missed)
        leaving = self.held.let_go(complete)
        self.held.maintain()
        return leaving

    def _numbered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch with the columns of the lookup."""
        names = self._spec.lookup.schema.names
        rows = numbered(rows, self._number)
        if ROW in names:
            rows = rows.append_column(ROW, pa.array(np.arange(rows.num_rows)))
        return rows.select(names)

    def _passed_on(self, missed: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows that an earlier gate has given up, with the columns of those that this lookup does."""
        rows = numbered(missed, self._number)
        if ROW in self._spec.lookup.schema.names:
            rows = rows.append_column(ROW, pa.array(np.full(rows.num_rows, _EARLIER)))
        return rows.select([*self._kept, MISSED])

    def _given_up(self, missed: pa.RecordBatch) -> pa.RecordBatch:
        return missed.select(self._kept).append_column(
            MISSED, pa.array(np.full(missed.num_rows, self._spec.number))
        )

    @property
    def _kept(self) -> list[str]:
        """The columns that rows without a match keep."""
        names: list[str] = self._columns_without(self._spec.found).names
        return names

    def _columns_without(self, those: Sequence[str]) -> pa.Schema:
        """Return the columns of the lookup's rows that are not among some."""
        return pa.schema([field for field in self._spec.lookup.schema if field.name not in those])

    def _leaving(self, pieces: list[pa.RecordBatch]) -> pa.RecordBatch | None:
        """Return rows sorted by the key by which they leave; `None` without any."""
        return self._spec.key.sorted(self._spec.key.coded(codec.concat(pieces))) if pieces else None


def least(rows: pa.RecordBatch, among: Sequence[str], order: Ints) -> pa.Array:
    """Return the positions of the rows that come first in `order` among those equal in some columns."""
    columns = [int64(rows.column(name)) for name in among]
    by = np.lexsort((order, *columns))
    differ = np.any([column[by[1:]] != column[by[:-1]] for column in columns], axis=0)
    return pa.array(by[np.append(True, differ)])


def side_by_side(reads: Sequence[Callable[[], T]]) -> list[T]:
    """Call functions in threads and return their results. They mostly wait for a database."""
    if len(reads) < 2:
        return [read() for read in reads]
    first, *others = reads
    with ThreadPoolExecutor(len(others), thread_name_prefix="lookup") as pool:
        found = [pool.submit(other) for other in others]
        return [first(), *(one.result() for one in found)]

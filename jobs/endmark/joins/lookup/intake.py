"""The way of a stream through the lookup join into the stream join: what came in one batch enters together.

Rows that wait for R hold back what came with them and after them: rows, punctuations, progress. The stream
join sees the stream as it would without a lookup, only later, so nothing is closed, announced, purged or
judged late before the rows that precede it have come.

How many rows R answers within a batch is a matter of time, but a batch that is repeated must give what it
gave. So a batch lets in all there is, or what was complete when it began. It is all there is in a pause,
unless rows without a match are parked: then R is expected to change, and its answers enter a batch later.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.joins.lookup.operator import LookupJoin, LookupOutput
from endmark.joins.runs import RunNews
from endmark.state import codec
from endmark.state.keys import KeySpec
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from endmark.joins.lookup.cache import FrontCache
    from endmark.joins.lookup.operator import LookupSpec, Source
    from endmark.state.store import SegmentStore

_BY_PARTITION = KeySpec(("partition",))
BATCH = "$batch"  # int64: the number of the batch in which a row came


@dataclass
class Arrivals:
    """What one batch brings of one stream to one bucket.

    Args:
        rows: data rows.
        bystanders: rows that are not to be joined, but may be violations.
        punctuations: keys closed, as `SideInput` has them.
        promises: other punctuations, as they were packed.
        newest: newest event time in microseconds by partition.
        marks, heard, runs: as `SideInput` has them.
    """

    rows: pa.RecordBatch | None = None
    bystanders: pa.RecordBatch | None = None
    punctuations: pa.RecordBatch | None = None
    promises: list[dict[str, Any]] = field(default_factory=list)
    newest: dict[int, int] = field(default_factory=dict)
    marks: pa.RecordBatch | None = None
    heard: dict[int, tuple[int, int]] = field(default_factory=dict)
    runs: RunNews = field(default_factory=RunNews)

    def said(self) -> dict[str, pa.RecordBatch | None]:
        """What it says in batches, by name."""
        return {"closed": self.punctuations, "marks": self.marks, **self.runs._asdict()}


@dataclass(frozen=True)
class IntakeSpec:
    """How a stream is looked up, and how it leaves.

    Args:
        lookup: the join with R; its schema ends with `BATCH`.
        key: by which rows enter the stream join.
        dropped: columns, beside `BATCH`, that rows with a match do not keep.
        carries: whether batches that are no pause leave rows waiting; it counts from the batch after.
    """

    lookup: LookupSpec
    key: KeySpec
    dropped: tuple[str, ...] = ()
    carries: bool = False

    @property
    def parks(self) -> bool:
        """Whether rows without a match are asked for again."""
        return self.lookup.misses.attempts > 1


@dataclass
class _Held:
    """What waits of a batch beside `Intake`'s lists; `until` rows of the stream had come at its end, `since`
    microseconds after 1970, which is unknown of what an earlier version has kept."""

    number: int
    until: int
    promises: list[dict[str, Any]]
    newest: dict[int, int]
    heard: dict[int, tuple[int, int]] = field(default_factory=dict)
    since: int | None = None

    @classmethod
    def of(cls, written: dict[str, Any]) -> _Held:
        """From JSON, whose members are named by text."""
        newest = {int(partition): time for partition, time in written["newest"].items()}
        heard = {int(partition): (first, last) for partition, (first, last) in written["heard"].items()}
        return cls(**{**written, "newest": newest, "heard": heard})


@dataclass(frozen=True)
class Asked:
    """What R has answered in one batch.

    Args:
        complete: how many rows of the stream, from the first on, may enter now: as many if it is repeated.
        joined, missed: rows with their match, and those without; with `BATCH`.
    """

    complete: int
    joined: pa.RecordBatch | None
    missed: pa.RecordBatch | None


class Intake:
    """One bucket's share of a stream on its way through one lookup; see `Intakes`.

    Args:
        spec: how.
        source: R, and how it is read.
        store: where rows rest that wait beyond their batch.
        cache: rows of R at hand.
        restored: a snapshot.
        reading: entered around the reads of a batch.
    """

    def __init__(
        self,
        spec: IntakeSpec,
        source: Source,
        store: SegmentStore,
        cache: FrontCache | None = None,
        restored: bytes | None = None,
        reading: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._spec = spec
        self._reading = reading
        self._rows = SegmentList(store, spec.key, BATCH)
        self._missed = SegmentList(store, spec.key, BATCH)
        by_key = spec.key.shared
        keys = {"closed": by_key, "marks": _BY_PARTITION}
        keys |= {"ended": by_key, "first": _BY_PARTITION, "last": by_key}
        said = {name: SegmentList(store, key, BATCH) for name, key in keys.items()}
        self._lists = {"rows": self._rows, "missed": self._missed} | said
        lists = {f"held_{name}": held for name, held in self._lists.items()}
        self._join = LookupJoin(spec.lookup, source, store, cache, restored, lists)
        notes = self._join.notes
        self._held = [_Held.of(one) for one in notes.get("held", [])]
        self._number: int = notes.get("number", 0)
        self._carries: bool = notes.get("carries", False)

    def snapshot(self) -> bytes:
        self._join.notes = {
            "held": [asdict(one) for one in self._held],
            "number": self._number,
            "carries": self._spec.carries,
        }
        return self._join.snapshot()

    @property
    def key(self) -> KeySpec:
        """By which rows leave."""
        return self._spec.key

    @property
    def output(self) -> LookupOutput:
        """Of the last batch."""
        return self._join.output

    @property
    def held_rows(self) -> int:
        """Rows that R has answered, and that wait for others."""
        return self._rows.rows + self._missed.rows

    @property
    def held_bytes(self) -> int:
        return sum(segment.memory for each in (self._rows, self._missed) for segment in each.segments)

    @property
    def held_promises(self) -> list[dict[str, Any]]:
        """Those that have not entered the stream join."""
        return [promise for one in self._held for promise in one.promises]

    @property
    def waits_since(self) -> int | None:
        """When the oldest came of what waits, in microseconds since 1970."""
        return min((one.since for one in self._held if one.since is not None), default=None)

    @property
    def answered_rows(self) -> int:
        """How many rows of the stream, from the first on, R has answered."""
        return self._join.pending.answered_rows

    @property
    def held_until(self) -> int | None:
        """How many rows of the stream had come at the end of the first batch that waits, if one does."""
        return self._held[0].until if self._held else None

    def asks_at(self, now: int) -> int | None:
        """When R is to be asked for what waits, in microseconds since 1970; `None` if nothing does."""
        pending = self._join.pending
        if pending.waiting_rows:
            return now
        return pending.first_due

    def ask(self, rows: pa.RecordBatch | None, now: int, *, pause: bool) -> Asked:
        """Look up what has come in one batch, and what waits; `enter` is to follow.

        Args:
            rows: of the stream, in its columns.
            now: microseconds since 1970.
            pause: leave no row waiting, parked ones aside.
        """
        drain = pause or not self._carries
        whole = drain and not self._spec.parks
        complete = self._join.pending.answered_rows
        self._number += 1
        output = self._look_up(rows, now, drain=drain)
        joined = self._leaving(output.joined, self._spec.dropped)
        missed = self._leaving(output.missed, ())
        return Asked(self._join.pending.arrived_rows if whole else complete, joined, missed)

    def enter(self, came: Arrivals, asked: Asked, complete: int, now: int) -> list[Arrivals]:
        """What enters the stream join with the first `complete` rows, one batch of the stream after the
        other."""
        if complete == self._join.pending.arrived_rows and not self._held:
            return [replace(came, rows=_rows(asked.joined), bystanders=_rows(asked.missed))]
        self._hold(came, now)
        self._keep(asked.joined, asked.missed)
        entering = self._let_in(complete)
        for each in self._lists.values():
            each.maintain()
        return entering

    def _hold(self, came: Arrivals, now: int) -> None:
        until = self._join.pending.arrived_rows
        self._held.append(_Held(self._number, until, came.promises, came.newest, came.heard, now))
        for name, said in came.said().items():
            if said is not None:
                self._lists[name].append(self._lists[name].key.sorted(self._numbered(said)))

    def _look_up(self, rows: pa.RecordBatch | None, now: int, *, drain: bool) -> LookupOutput:
        pending = self._join.pending
        if rows is None and pending.answered_rows == pending.arrived_rows:
            return self._join.process(None, now)
        if rows is not None:
            rows = self._numbered(rows).select(self._spec.lookup.schema.names)
        with self._reading():
            return self._join.process(rows, now, drain=drain, beside=self.held_bytes)

    def _numbered(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.append_column(BATCH, pa.array(np.full(rows.num_rows, self._number)))

    def _leaving(self, pieces: list[pa.RecordBatch], dropped: tuple[str, ...]) -> pa.RecordBatch | None:
        """Rows as the stream join wants them, but with `BATCH`."""
        if not pieces:
            return None
        return self._spec.key.sorted(self._spec.key.coded(codec.concat(pieces).drop_columns(list(dropped))))

    def _keep(self, joined: pa.RecordBatch | None, missed: pa.RecordBatch | None) -> None:
        for rows, held in ((joined, self._rows), (missed, self._missed)):
            if rows is not None:
                held.append(rows)

    def _let_in(self, complete: int) -> list[Arrivals]:
        """Everything of batches whose rows are all among the first `complete`."""
        free = [one for one in self._held if one.until <= complete]
        self._held = self._held[len(free) :]
        if not free:
            return [Arrivals()]
        last = free[-1].number
        lists = self._lists.values()
        taken = [(held.key, [gone.batch for gone in held.expire(last + 1)]) for held in lists]
        entering = []
        for one in free:
            rows, missed, closed, marks, *runs = (_of_batch(gone, one.number, key) for key, gone in taken)
            entering.append(
                Arrivals(rows, missed, closed, one.promises, one.newest, marks, one.heard, RunNews(*runs))
            )
        return entering


def _rows(batch: pa.RecordBatch | None) -> pa.RecordBatch | None:
    return None if batch is None else batch.drop_columns([BATCH])


def _of_batch(pieces: list[pa.RecordBatch], number: int, key: KeySpec) -> pa.RecordBatch | None:
    """The rows of one batch, sorted by key."""
    found = [piece.filter(pa.array(int64(piece.column(BATCH)) == number)) for piece in pieces]
    filled = [rows for rows in found if rows.num_rows]
    return _rows(key.sorted(codec.concat(filled))) if filled else None

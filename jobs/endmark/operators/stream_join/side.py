"""One input of the stream join: its rows, what it has closed, and how far its time has come."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.operators.stream_join.closed_patterns import Promises
from endmark.operators.stream_join.clustering import RunNews, Runs
from endmark.operators.stream_join.idle import Silence
from endmark.operators.stream_join.named_keys import NamedKeys
from endmark.operators.stream_join.order import Order
from endmark.operators.stream_join.partition_promises import Promised
from endmark.punctuation.punctuation import Punctuation
from endmark.state import codec
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.segment_list import Gone
    from endmark.state.store import SegmentStore
    from endmark.types import Direction

# Before any event time, with room to subtract a window or a lateness.
NEVER = -(1 << 62)


def late_rows(times: Ints, newest: int, lateness: int) -> tuple[Bools, int]:
    """Which rows of one partition, in offset order, are late, and the newest time after them.

    `newest` is the newest time before them, or `NEVER`; all times in microseconds.
    """
    seen = np.maximum.accumulate(np.concatenate([np.array([newest]), times]))
    return times < seen[:-1] - lateness, int(seen[-1])


@dataclass(frozen=True)
class SideSpec:
    """The specification of one input of the join.

    Args:
        name: the stream's name.
        key: the key of its rows; both sides have as many columns, of the same types.
        time: the column of their event time.
        schema: what results show of its rows, the key among it.
        partition, offset: columns that order its rows; `None` for a stream without an order within a
            batch, of which all rows count as one partition and precede the batch's punctuations.
        window: microseconds of event time for which a row stays joinable; `None` is for ever.
        lateness: microseconds a row may be older than the newest of its partition.
        ahead: microseconds a row's event time may be after its record's timestamp in Kafka; `None` is any.
        partitions: how many partitions must have shown rows before time makes progress.
        punctuated_on: columns that its punctuations may restrict.
        keyed: a key lives in one partition, so that a promise which names it closes it; else every partition
            must have promised it.
        ordered: rows come in this order of the key's one column, in each partition.
        unique: no partition has two rows of a key.
        idle: microseconds of silence after which a partition does not hold progress back; `None` is never.
        clustered: no partition has two runs of rows of a key.
    """

    name: str
    key: KeySpec
    time: str
    schema: pa.Schema
    partition: str | None
    offset: str | None
    window: int | None
    lateness: int = 0
    ahead: int | None = None
    partitions: int = 1
    punctuated_on: tuple[str, ...] = ()
    keyed: bool = True
    ordered: Direction | None = None
    unique: bool = False
    idle: int | None = None
    clustered: bool = False


@dataclass
class SideInput:
    """The share of one batch that one side of one bucket gets.

    Args:
        rows: data rows with their code, in its order; rows late within their own batch are not among them.
        bystanders: rows that are not to be joined, but are checked for violations like the others.
        punctuations: keys closed, under the names that both sides share, with their code, `partition` and
            `offset`; if rows name keys too, also `by_row`.
        promises: punctuations on the key, by the same names, that do not name one; each with its origin.
        patterns: the same by the names of the side's own columns, and those that restrict other columns.
        newest: newest event time in microseconds by partition, over all buckets.
        marks: how far an ordered side has come, over all buckets, as `Order` takes it.
        heard: oldest and newest timestamp of Kafka's records in microseconds, likewise; only where
            partitions can be idle.
        runs: those of a clustered side.
    """

    rows: pa.RecordBatch | None = None
    bystanders: pa.RecordBatch | None = None
    punctuations: pa.RecordBatch | None = None
    promises: Sequence[Punctuation] = ()
    patterns: Sequence[Punctuation] = ()
    newest: Mapping[int, int] = field(default_factory=dict)
    marks: pa.RecordBatch | None = None
    heard: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    runs: RunNews = field(default_factory=RunNews)


class SideState:
    """State of one side in one bucket.

    `named` holds every key the side has closed by name, less those that `promises` match; `pending` closed
    keys that are not announced yet with the time of the side's last row: PWJoin's flags PUNCTUATED (pending)
    and PROPAGATED (not). `spent` holds key and time of rows that a semi join has put out, since their
    punctuation still waits for the newest of them. `unpurged` holds closed keys, and
    `unpurged_promises` counts patterns, whose rows on the other side are still to be purged.
    `promises` are the patterns that close keys: those in `said`, and those that a declared order implies.

    Args:
        preserved: whether its rows without a partner become results.
    """

    def __init__(self, spec: SideSpec, store: SegmentStore, *, preserved: bool = False) -> None:
        self.spec = spec
        self.preserved = preserved
        self.key = spec.key.shared
        self.rows = SegmentList(store, spec.key, spec.time)
        types = [spec.schema.field(name).type for name in spec.key.columns]
        self.said = self.promises = Promises(spec.name, self.key, types, spec.partitions)
        self.order: Order | None = None
        if spec.ordered is not None:
            (name,), (kind,) = self.key.columns, types
            self.order = Order(spec.name, name, kind, descending=spec.ordered == "descending")
            self.promises = Promises(spec.name, self.key, types, spec.partitions)
        needed = 1 if spec.keyed else spec.partitions
        self.named = NamedKeys(store, self.key, self.promises, needed, by_rows=spec.unique or spec.clustered)
        self.runs = Runs(self.key, types)
        restricted = pa.schema([spec.schema.field(name) for name in spec.punctuated_on])
        self.promised = Promised(spec.name, restricted, spec.key.columns, spec.partitions)
        self.pending = SegmentList(store, self.key, "time")
        self.spent = SegmentList(store, self.key, "time", merge=partial(_newest_traces, self.key))
        self.unpurged = SegmentList(store, self.key)
        self.unpurged_promises = 0
        self.newest: dict[int, int] = {}
        self.silence = Silence(spec.idle)
        self._reached = NEVER

    def lists(self) -> dict[str, SegmentList]:
        lists = {
            "rows": self.rows,
            "closed": self.named.closed,
            "named": self.named.promised,
            "pending": self.pending,
            "spent": self.spent,
            "unpurged": self.unpurged,
        }
        return {f"{self.spec.name}.{name}": segments for name, segments in lists.items()}

    def on_key(self, patterns: Sequence[Punctuation]) -> list[Punctuation]:
        """Return the patterns that restrict only columns of the key, in the names that both sides share."""
        shared = dict(zip(self.spec.key.columns, self.key.columns, strict=True))
        return [
            Punctuation.of(each.stream, {shared[name]: one for name, one in each.patterns}, each.origin)
            for each in patterns
            if shared.keys() >= set(each.names())
        ]

    @property
    def progress(self) -> int:
        """No row older than this (microseconds) will be joined; `NEVER` while a partition that is not idle
        has shown none. An idle partition that comes back does not take back the progress made without it."""
        return max(self._reached, self._common())

    def _common(self) -> int:
        known = {*range(self.spec.partitions), *self.newest}
        waited_for = [partition for partition in known if not self.silence.is_idle(partition)]
        if not all(partition in self.newest for partition in waited_for):
            return NEVER
        return min((self.newest[partition] for partition in waited_for), default=NEVER) - self.spec.lateness

    def advance(self, given: SideInput) -> None:
        for partition, time in given.newest.items():
            self.newest[partition] = max(time, self.newest.get(partition, NEVER))
        self.silence.hear(given.heard)
        if self.spec.idle is not None:
            self._reached = self.progress

    def snapshot_progress(self) -> dict[str, Any]:
        """Return the state that `restore_progress` needs beside `newest`."""
        return {"silence": self.silence.snapshot(), "reached": self._reached}

    def restore_progress(self, snapshot: Mapping[str, Any]) -> None:
        self.silence.restore(snapshot["silence"])
        self._reached = snapshot["reached"]

    def promise(self, given: SideInput) -> list[Punctuation]:
        """Remember what a batch promises of the key beyond naming it; returns that."""
        if self.order is None:
            self.promises.add(given.promises)
            return list(given.promises)
        promised = [*given.promises, *self.order.take(given.marks)]
        self.said.add(given.promises)
        self.promises.add(promised)
        return promised

    def restore_order(self, snapshot: Mapping[str, Any]) -> None:
        """Restore `order`; follows `said`."""
        if self.order is not None:
            self.promises.restore(self.said.snapshot())
            self.promises.add(self.order.restore(snapshot))

    def horizon(self, opposite_progress: int) -> int:
        """Rows older than this can meet no future row of the other side."""
        if self.spec.window is None or opposite_progress == NEVER:
            return NEVER
        return opposite_progress - self.spec.window

    def has_closed(self, keys: Keys, closing: pa.RecordBatch | None = None) -> Bools:
        """Which keys it has closed, one by one or by a pattern; `closing` are further keys that the present
        batch names, which `named` takes up when the batch ends."""
        closed = self.named.closed.contains(keys) | self.promises.contain(keys)
        return closed if closing is None else closed | keys.among(self.key.keys(closing))

    def hold(self, closed: pa.RecordBatch, times: Ints) -> None:
        """Remember closed keys that wait for their last row, whose event time is given."""
        self.pending.append(closed.append_column("time", pa.array(times)))

    def traces(self, gone: list[Gone]) -> pa.RecordBatch:
        """Keys and times of rows, as `spent` holds them."""
        names = [*self.spec.key.stored, self.spec.time]
        rows = codec.concat([one.segment.batch.select(names).take(pa.array(one.positions)) for one in gone])
        times = pa.array(int64(rows.column(self.spec.time)))
        keys = rows.columns[:-1]
        return self.key.sorted(pa.record_batch([*keys, times], names=[*self.key.stored, "time"]))

    def last_times(self, keys: Keys) -> Ints:
        """Newest event time of the rows of each key that have not left the window; `NEVER` for keys without
        one."""
        last = np.full(len(keys), NEVER)
        for segments in (self.rows, self.spent):
            for segment, i, j in segments.find(keys):
                np.maximum.at(last, i, segment.times[j])
        return last

    def maintain(self, barriers: Sequence[int]) -> None:
        """Tidy up; rows of batches up to a barrier stay apart from later ones."""
        self.rows.maintain(barriers)
        for segments in (self.named.closed, self.named.promised, self.pending, self.spent, self.unpurged):
            segments.maintain()


def _newest_traces(key: KeySpec, traces: pa.RecordBatch) -> pa.RecordBatch:
    """One trace for each key."""
    table = pa.Table.from_batches([traces]).group_by(key.stored, use_threads=False)
    newest = table.aggregate([("time", "max")]).rename_columns(traces.schema.names)
    return key.sorted(codec.concat(newest.to_batches()))

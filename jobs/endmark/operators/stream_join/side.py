"""One input of the stream join: its rows, what it has closed, and how far its time has come."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.operators.promise_codec import PromiseCodec
from endmark.operators.stream_join.closed_keys import ClosedKeys
from endmark.operators.stream_join.idle_partitions import IdlePartitions
from endmark.operators.stream_join.key_promises import KeyPromises
from endmark.operators.stream_join.key_runs import KeyRuns
from endmark.operators.stream_join.order import Order
from endmark.operators.stream_join.promises import Promises
from endmark.state import codec
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.operators.stream_batch import StreamBatch
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys, KeySpec
    from endmark.state.search import Bools, Ints
    from endmark.state.segment_list import Gone
    from endmark.state.store import SegmentStore
    from endmark.types import Direction

# Before any event time, with room to subtract a window or a lateness.
NEVER = -(1 << 62)


def late_rows(times: Ints, newest: int, lateness: int) -> tuple[Bools, int]:
    """Return a mask of the late rows of one partition, and the newest event time after them.

    Args:
        times: event times of the rows in the order of offsets, in microseconds.
        newest: the newest event time before them in microseconds, or `NEVER`.
        lateness: microseconds that a row may be older than the newest one before it.
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

    @cached_property
    def codec(self) -> PromiseCodec:
        """Reads and writes the stream's promises."""
        restricted = pa.schema([self.schema.field(name) for name in self.punctuated_on])
        return PromiseCodec(self.name, restricted, self.key)


class SideState:
    """The state of one side of the join in one bucket.

    Attributes:
        rows: rows that a partner may still come for.
        closed_keys: keys that punctuations close by name, less those that `key_promises` match.
        key_promises: patterns that close keys: those that were sent, and those that a declared order implies.
        sent_key_promises: the first of these.
        promises: patterns on any columns, as `Promises` keeps them for violations and announcements.
        pending_keys: closed keys that are not announced yet, with the time of the side's last row. PWJoin's
            flags are PUNCTUATED for these, and PROPAGATED for all other closed keys.
        spent: key and time of rows that a semi join has put out, since their punctuation still waits for the
            newest of them.
        unpurged_keys: closed keys whose rows on the other side are still to be purged.
        unpurged_promise_count: how many key promises have such rows.
        newest: newest event time by partition in microseconds.

    Args:
        spec: its specification.
        store: keeps its segments.
        preserved: its rows without a partner become results.
    """

    def __init__(self, spec: SideSpec, store: SegmentStore, *, preserved: bool = False) -> None:
        self.spec = spec
        self.preserved = preserved
        self.key = spec.key.shared
        self.rows = SegmentList(store, spec.key, spec.time)
        types = [spec.schema.field(name).type for name in spec.key.columns]
        self.sent_key_promises = self.key_promises = KeyPromises(spec.name, self.key, types, spec.partitions)
        self.order: Order | None = None
        if spec.ordered is not None:
            (name,), (kind,) = self.key.columns, types
            self.order = Order(spec.name, name, kind, descending=spec.ordered == "descending")
            self.key_promises = KeyPromises(spec.name, self.key, types, spec.partitions)
        needed = 1 if spec.keyed else spec.partitions
        self.closed_keys = ClosedKeys(
            store, self.key, self.key_promises, needed, by_rows=spec.unique or spec.clustered
        )
        self.runs = KeyRuns(self.key, types)
        self.promises = Promises(spec.codec, spec.key, spec.partitions)
        self.pending_keys = SegmentList(store, self.key, "time")
        self.spent = SegmentList(store, self.key, "time", merge=partial(_newest_traces, self.key))
        self.unpurged_keys = SegmentList(store, self.key)
        self.unpurged_promise_count = 0
        self.newest: dict[int, int] = {}
        self.idle_partitions = IdlePartitions(spec.idle)
        self._reached = NEVER

    def lists(self) -> dict[str, SegmentList]:
        lists = {
            "rows": self.rows,
            "closed_keys": self.closed_keys.closed,
            "promised_keys": self.closed_keys.promised,
            "pending_keys": self.pending_keys,
            "spent": self.spent,
            "unpurged_keys": self.unpurged_keys,
        }
        return {f"{self.spec.name}.{name}": segments for name, segments in lists.items()}

    @property
    def progress(self) -> int:
        """No row older than this (microseconds) will be joined; `NEVER` while a partition that is not idle
        has shown none. An idle partition that comes back does not take back the progress made without it."""
        return max(self._reached, self._common())

    def _common(self) -> int:
        known = {*range(self.spec.partitions), *self.newest}
        waited_for = [partition for partition in known if not self.idle_partitions.is_idle(partition)]
        if not all(partition in self.newest for partition in waited_for):
            return NEVER
        return min((self.newest[partition] for partition in waited_for), default=NEVER) - self.spec.lateness

    def advance(self, batch: StreamBatch) -> None:
        for partition, time in batch.newest.items():
            self.newest[partition] = max(time, self.newest.get(partition, NEVER))
        self.idle_partitions.hear(batch.heard)
        if self.spec.idle is not None:
            self._reached = self.progress

    def snapshot(self) -> dict[str, Any]:
        """Return the state beside `lists` for `restore`, ready for JSON."""
        return {
            "key_promises": self.sent_key_promises.snapshot(),
            "promises": self.promises.snapshot(),
            "unpurged_promise_count": self.unpurged_promise_count,
            "order": {} if self.order is None else self.order.snapshot(),
            "runs": self.runs.snapshot(),
            "newest": self.newest,
            "silence": self.idle_partitions.snapshot(),
            "reached": self._reached,
        }

    def restore(self, notes: Mapping[str, Any]) -> None:
        self.sent_key_promises.restore(notes["key_promises"])
        self.promises.restore(notes["promises"])
        self.unpurged_promise_count = notes["unpurged_promise_count"]
        if self.order is not None:
            self.key_promises.restore(notes["key_promises"])
            self.key_promises.add(self.order.restore(notes["order"]))
        self.runs.restore(notes["runs"])
        self.newest = {int(partition): time for partition, time in notes["newest"].items()}
        self.idle_partitions.restore(notes["silence"])
        self._reached = notes["reached"]

    def take(self, batch: StreamBatch) -> tuple[pa.RecordBatch | None, Sequence[Punctuation]]:
        """Remember what a batch closes; return the newly closed keys that it names, and its key promises.

        The keys are in the order of their codes; `None` without any. A declared order implies key promises.
        """
        key_promises = batch.key_promises
        self.sent_key_promises.add(key_promises)
        if self.order is not None:
            key_promises = [*key_promises, *self.order.take(batch.marks)]
            self.key_promises.add(key_promises)
        return self.closed_keys.take(batch.closed_keys, widened=bool(key_promises)), key_promises

    def horizon(self, opposite_progress: int) -> int:
        """Rows older than this can meet no future row of the other side."""
        if self.spec.window is None or opposite_progress == NEVER:
            return NEVER
        return opposite_progress - self.spec.window

    def has_closed(self, keys: Keys, closed_keys: pa.RecordBatch | None = None) -> Bools:
        """Return a mask of the keys that this side has closed, by name or by a pattern.

        Args:
            keys: any keys.
            closed_keys: newly closed keys of the present batch, which count as closed when the batch ends.
        """
        closed = self.closed_keys.closed.contains(keys) | self.key_promises.contain(keys)
        return closed if closed_keys is None else closed | keys.among(self.key.keys(closed_keys))

    def hold(self, closed: pa.RecordBatch, times: Ints) -> None:
        """Keep closed keys pending until their last row, of this event time (µs), leaves the window."""
        self.pending_keys.append(closed.append_column("time", pa.array(times)))

    def traces(self, gone: list[Gone]) -> pa.RecordBatch:
        """Return the keys and event times of rows, as `spent` holds them."""
        names = [*self.spec.key.stored, self.spec.time]
        rows = codec.concat([one.segment.batch.select(names).take(pa.array(one.positions)) for one in gone])
        times = pa.array(int64(rows.column(self.spec.time)))
        keys = rows.columns[:-1]
        return self.key.sorted(pa.record_batch([*keys, times], names=[*self.key.stored, "time"]))

    def last_times(self, keys: Keys) -> Ints:
        """Return the newest event time (µs) of each key's rows within the window; `NEVER` without a row."""
        last = np.full(len(keys), NEVER)
        for segments in (self.rows, self.spent):
            for segment, i, j in segments.find(keys):
                np.maximum.at(last, i, segment.times[j])
        return last

    def maintain(self, barriers: Sequence[int]) -> None:
        """Merge segments; rows of batches up to a barrier stay apart from later ones."""
        self.rows.maintain(barriers)
        for keys in (self.closed_keys, self.pending_keys, self.spent, self.unpurged_keys):
            keys.maintain()


def _newest_traces(key: KeySpec, traces: pa.RecordBatch) -> pa.RecordBatch:
    """Merge the traces of each key to its newest one."""
    table = pa.Table.from_batches([traces]).group_by(key.stored, use_threads=False)
    newest = table.aggregate([("time", "max")]).rename_columns(traces.schema.names)
    return key.sorted(codec.concat(newest.to_batches()))

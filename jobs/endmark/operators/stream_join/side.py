"""One input of the stream join: its rows, the keys and patterns that it has closed, and its progress."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.operators.promise_codec import PromiseCodec
from endmark.operators.stream_join.closed_keys import ClosedKeys
from endmark.operators.stream_join.event_times import FOR_EVER, NEVER
from endmark.operators.stream_join.first_rows import FirstRows
from endmark.operators.stream_join.idle_partitions import IdlePartitions
from endmark.operators.stream_join.key_promises import KeyPromises
from endmark.operators.stream_join.key_runs import KeyRuns
from endmark.operators.stream_join.members import Member
from endmark.operators.stream_join.order import Order
from endmark.operators.stream_join.promises import Promises
from endmark.state import codec
from endmark.state.segment import int64
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.expressions.derived_times import DerivedTimes
    from endmark.operators.stream_batch import StreamBatch
    from endmark.operators.stream_join.first_rows import Deduplication
    from endmark.punctuation.punctuation import Punctuation
    from endmark.state.keys import Keys, KeySpec, Share
    from endmark.state.search import Bools, Ints
    from endmark.state.segment_list import SegmentRows
    from endmark.state.store import SegmentStore
    from endmark.types import Direction


@dataclass(frozen=True)
class SideSpec:
    """The specification of one input of the join.

    Args:
        name: the stream's name.
        key: the key of its rows; both sides have as many columns, of the same types.
        time: the column of their event time.
        schema: the columns of its rows in results, with the columns of the key.
        partition, offset: the columns that order its rows; `None` for a frame, which has no order within a
            batch. Then all rows count as one partition, before the punctuations of their batch.
        window: microseconds of event time for which a row stays joinable; `None`: for ever.
        lateness: microseconds by which a row may be older than the newest one of its partition.
        ahead: microseconds by which the event time of a row may be after its record's timestamp in Kafka;
            `None`: any number.
        members: the streams of a union; empty for any other side, which has its own partitions.
        partitions: the number of partitions of the stream, or of all members.
        punctuated_on: the columns that its punctuations may restrict.
        keyed: each key lives in one partition, so one promise that names a key closes it. If false, every
            partition must have promised a key. Each member of a union says so by itself.
        ordered: the direction in which the key's one column goes in each partition; `None`: any order.
        unique: no partition has two rows of one key.
        idle: microseconds of silence after which a partition does not hold back progress; `None`: it always
            does. Each member of a union says so by itself.
        clustered: no partition has two runs of rows of one key.
        forget_after: microseconds of event time after which a closed key is forgotten; `None`: never.
        ended: the stream has ended before its first row, so it has closed every key, and results do not show
            its columns.
        deduplication: which of its rows are duplicates, and so are dropped; `None`: no row is.
        lost: the columns that arriving rows have and results do not. They are dropped behind admission, since
            violations and the tables of earlier steps have them.
        times: the derived times of its rows that are columns of the group key; `None` without any.
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
    forget_after: int | None = None
    ended: bool = False
    deduplication: Deduplication | None = None
    members: tuple[Member, ...] = ()
    lost: tuple[str, ...] = ()
    times: DerivedTimes | None = None

    @property
    def streams(self) -> tuple[Member, ...]:
        """The members, or the side itself as its only one."""
        return self.members or (Member(self.name, self.partitions, self.keyed, idle=self.idle),)

    @property
    def can_idle(self) -> bool:
        """True if partitions of some stream can be idle."""
        return any(stream.idle is not None for stream in self.streams)

    @property
    def numbers(self) -> frozenset[int]:
        """The numbers of all partitions."""
        return frozenset(number for member in self.streams for number in member.numbers)

    @property
    def shown(self) -> pa.Schema:
        """The columns that results show."""
        return pa.schema([]) if self.ended else self.schema

    def coordinates(self, rows: pa.RecordBatch, number: int) -> dict[str, Any]:
        """Return the stream, partition and offset of a row; for a row of a frame, the stream alone."""
        names = {"partition": self.partition, "offset": self.offset}
        found = {part: rows.column(name)[number].as_py() for part, name in names.items() if name is not None}
        return {"stream": self.name, **found}

    @cached_property
    def codec(self) -> PromiseCodec:
        """Reads and writes the stream's promises."""
        restricted = pa.schema([self.schema.field(name) for name in self.punctuated_on])
        return PromiseCodec(self.name, restricted, self.key)


class SideState:
    """The state of one side of the join in one bucket.

    Attributes:
        rows: rows for which a partner may still come.
        closed_keys: keys that punctuations close by name, without keys that `key_promises` match.
        key_promises: patterns that close keys. They were sent, or a declared order implies them.
        sent_key_promises: the key promises that were sent.
        promises: patterns on any columns, for violations and announcements.
        pending_keys: closed keys that are not announced yet, with the time of the side's last row. PWJoin's
            flags are PUNCTUATED for these keys, and PROPAGATED for all other closed keys.
        spent: keys and times of rows that a semi join has put out. A key is not announced while such a row of
            it is within the window.
        unpurged_keys: closed keys whose rows on the other side are still to be purged.
        first_rows: the last row of each value that passed, if the stream is deduplicated.
        unpurged_promise_count: the number of key promises whose rows on the other side are still to be
            purged.
        newest: the newest event time of each partition, in microseconds.

    Args:
        spec: the specification of the side.
        store: keeps the segments.
        buckets: the number of buckets that share the keys.
        preserved: rows of the side without a partner become results.
    """

    def __init__(
        self, spec: SideSpec, store: SegmentStore, *, buckets: int = 1, preserved: bool = False
    ) -> None:
        self.spec = spec
        self.preserved = preserved
        self.key = spec.key.shared
        self.rows = SegmentList(store, spec.key, spec.time, columns=spec.schema)
        types = [spec.schema.field(name).type for name in spec.key.columns]
        self.sent_key_promises = self.key_promises = KeyPromises(spec.name, self.key, types, spec.partitions)
        self.order: Order | None = None
        if spec.ordered is not None:
            (name,), (kind,) = self.key.columns, types
            self.order = Order(spec.name, name, kind, descending=spec.ordered == "descending")
            self.key_promises = KeyPromises(spec.name, self.key, types, spec.partitions)
        self.closed_keys = ClosedKeys(
            store,
            self.key,
            self.key_promises,
            spec.streams,
            buckets=buckets,
            by_rows=spec.unique or spec.clustered,
            in_kafka=spec.offset is not None,
        )
        self.runs = KeyRuns(self.key, types)
        self.promises = Promises(spec.codec, spec.key, spec.partitions)
        self.pending_keys = SegmentList(store, self.key, "time")
        self.spent = SegmentList(store, self.key, "time", merge=partial(_newest_traces, self.key))
        self.unpurged_keys = SegmentList(store, self.key)
        self.first_rows: FirstRows | None = None
        if spec.deduplication is not None:
            coordinates = str(spec.partition), str(spec.offset), spec.time
            self.first_rows = FirstRows(spec.deduplication, spec.key, coordinates, store)
        self.unpurged_promise_count = 0
        self.newest: dict[int, int] = {}
        # A partition is idle beside others of its own topic.
        self._idle_partitions = [IdlePartitions(stream.idle) for stream in spec.streams]
        self._reached = NEVER

    def lists(self) -> dict[str, SegmentList]:
        """Return the lists of segments, by name in a manifest."""
        lists = {
            "rows": self.rows,
            **self.closed_keys.lists(),
            "pending_keys": self.pending_keys,
            "spent": self.spent,
            "unpurged_keys": self.unpurged_keys,
            **({} if self.first_rows is None else {"first_rows": self.first_rows.passed}),
        }
        return {f"{self.spec.name}.{name}": segments for name, segments in lists.items()}

    @property
    def progress(self) -> int:
        """The event time (µs) before which no later row is joined.

        It is `NEVER` while a partition that is not idle has had no row. If an idle partition comes back,
        progress does not go back.
        """
        return max(self._reached, self._common({*self.spec.numbers, *self.newest}))

    def progress_of(self, member: Member) -> int:
        """Return the progress (µs) of one stream of the side; that of a union is the least one."""
        return max(self._reached, self._common({*member.numbers, *filter(member.owns, self.newest)}))

    def _common(self, known: set[int]) -> int:
        """Return the event time (µs) that all of some partitions have reached, unless they are idle."""
        waited_for = [partition for partition in known if not self.is_idle(partition)]
        if not all(partition in self.newest for partition in waited_for):
            return NEVER
        return min((self.newest[partition] for partition in waited_for), default=NEVER) - self.spec.lateness

    def is_idle(self, partition: int) -> bool:
        """Return whether a partition is idle, given its number in the side."""
        return self._idle_partitions[partition % len(self._idle_partitions)].is_idle(partition)

    def advance(self, batch: StreamBatch) -> None:
        """Take the event times of a batch, and the timestamps by which partitions are idle."""
        for partition, time in batch.newest.items():
            self.newest[partition] = max(time, self.newest.get(partition, NEVER))
        for stream, partitions in zip(self.spec.streams, self._idle_partitions, strict=True):
            partitions.hear({at: times for at, times in batch.heard.items() if stream.owns(at)})
        if self.spec.can_idle:
            self._reached = self.progress
        if self.first_rows is not None:
            self.first_rows.expire(self.progress)

    def snapshot(self) -> dict[str, Any]:
        """Return the state for `restore` as JSON, without the segments of `lists`."""
        return {
            "key_promises": self.sent_key_promises.snapshot(),
            "promises": self.promises.snapshot(),
            "unpurged_promise_count": self.unpurged_promise_count,
            "order": {} if self.order is None else self.order.snapshot(),
            "runs": self.runs.snapshot(),
            "newest": self.newest,
            "silence": [partitions.snapshot() for partitions in self._idle_partitions],
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
        for partitions, silence in zip(self._idle_partitions, notes["silence"], strict=True):
            partitions.restore(silence)
        self._reached = notes["reached"]

    def keep(self, share: Share) -> None:
        """Drop what belongs to other buckets, which had this state together with this one."""
        for segments in (self.rows, self.pending_keys, self.spent, self.unpurged_keys):
            segments.keep(share)
        self.closed_keys.keep(share)
        self.runs.keep(share)
        if self.first_rows is not None:
            self.first_rows.keep(share)

    def take(self, batch: StreamBatch) -> tuple[pa.RecordBatch | None, Sequence[Punctuation]]:
        """Remember the keys and patterns that a batch closes.

        Returns:
            The newly closed keys that punctuations name, in order of code, or `None` without any. The key
            promises of the batch, with those that a declared order implies.
        """
        key_promises = batch.key_promises
        self.sent_key_promises.add(key_promises)
        if self.order is not None:
            key_promises = [*key_promises, *self.order.take(batch.marks)]
            self.key_promises.add(key_promises)
        newest = {**self.newest, **batch.newest}
        # A key that is closed before its partition has a time is never forgotten.
        times = [*self.newest.values(), *batch.newest.values()]
        time = max(times) if len(newest) >= self.spec.partitions else FOR_EVER
        closed_keys = self.closed_keys.take(batch.closed_keys, widened=bool(key_promises), time=time)
        if self.first_rows is not None:
            self.first_rows.close(closed_keys, self.key_promises if key_promises else None)
        return closed_keys, key_promises

    def forget(self, progress: int) -> None:
        """Forget the keys that were closed long ago. Call it when a batch is over.

        A later row of the time at which such a key was closed, and until `forget_after` later, is late in its
        partition. So partitions that are idle count here.

        Args:
            progress: the least progress of all sides, in microseconds. `NEVER` forgets nothing.
        """
        if self.spec.forget_after is None or not self.spec.numbers <= self.newest.keys():
            return
        reached = min(progress, min(self.newest.values()) - self.spec.lateness)
        if reached != NEVER:
            self.closed_keys.expire(reached - self.spec.forget_after)

    def horizon(self, opposite_progress: int) -> int:
        """Return the event time (µs) before which rows of this side have left the window.

        `opposite_progress` is the progress of the other side. `NEVER` means that no row has left it.
        """
        if self.spec.window is None or opposite_progress == NEVER:
            return NEVER
        return opposite_progress - self.spec.window

    def has_closed(self, keys: Keys, closed_keys: pa.RecordBatch | None = None) -> Bools:
        """Return a mask of the keys that this side has closed, by name or by a pattern.

        Args:
            keys: any keys.
            closed_keys: newly closed keys of the present batch, which are stored when the batch ends; `None`
                without any.
        """
        if self.spec.ended:
            return np.ones(len(keys), bool)
        closed = self.closed_keys.contain(keys) | self.key_promises.contain(keys)
        return closed if closed_keys is None else closed | keys.among(self.key.keys(closed_keys))

    def hold(self, closed: pa.RecordBatch, times: Ints) -> None:
        """Keep closed keys pending until their last row leaves the window.

        Args:
            closed: the keys, in order of code.
            times: the event time (µs) of each key's last row.
        """
        self.pending_keys.append(closed.append_column("time", pa.array(times)))

    def traces(self, gone: list[SegmentRows]) -> pa.RecordBatch:
        """Return the keys and event times of rows, in the form that `spent` holds."""
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
        """Merge segments; `rows` of batches up to a barrier do not merge with later ones."""
        self.rows.maintain(barriers)
        for keys in (self.closed_keys, self.pending_keys, self.spent, self.unpurged_keys):
            keys.maintain()
        if self.first_rows is not None:
            self.first_rows.passed.maintain()


def _newest_traces(key: KeySpec, traces: pa.RecordBatch) -> pa.RecordBatch:
    """Keep only the newest event time of each key."""
    table = pa.Table.from_batches([traces]).group_by(key.stored, use_threads=False)
    newest = table.aggregate([("time", "max")]).rename_columns(traces.schema.names)
    return key.sorted(codec.concat(newest.to_batches()))

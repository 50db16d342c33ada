"""Ingest: Kafka records become packed rows, split by bucket. Dead letters and late rows are set aside.

Rows go through the row steps of their stream first. A row that these filter is not packed, but what it
promises is. Then a row with a null in the join key, or whose event time is too far after Kafka's timestamp,
is set aside and has no other effect. A heartbeat that far ahead is a dead letter. A task reads one partition
of one topic in the order of offsets, so it finds rows that are late within the batch. The join keeps each
partition's newest event time, and finds rows that are late because of earlier batches.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from endmark.engine import channels
from endmark.engine.channels import VALUE, Buckets, Packer, stream_channel
from endmark.engine.ingest.control_rows import ControlPacker
from endmark.engine.ingest.heartbeats import FUTURE, late_behind, without_future_heartbeats
from endmark.engine.ingest.punctuation_rows import PromisePacker
from endmark.engine.ingest.record_times import count_times
from endmark.engine.ingest.stepped_rows import SteppedRows, through_steps
from endmark.engine.violation_rows import NULL, violation_rows
from endmark.errors import failing_at
from endmark.expressions.condition_failures import Failures
from endmark.metrics import sample
from endmark.operators.stream_join.event_times import NEVER
from endmark.operators.stream_join.key_runs import ended_runs
from endmark.operators.stream_join.order import Mark, marks, marks_table
from endmark.profile import Profile
from endmark.state import codec
from endmark.state.keys import nulls
from endmark.state.segment import int64
from endmark.stored_text import storable
from endmark.wire.unavailable_values import without_unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from endmark.engine.ingest.control_rows import ControlPlan
    from endmark.engine.streams import StreamPlan
    from endmark.state.search import Bools, Ints
    from endmark.wire.json.records import Parsed, Parser
    from endmark.wire.record_columns import RecordColumns, RecordReader
    from endmark.wire.rejection import Rejection


_EXAMPLE_LENGTH = 300  # the most characters of an error that is an example of its reason


class Ingest:
    """A function from batches of Kafka's records (`endmark.kafka.ranges.RECORDS`) to packed rows.

    A batch has records of one partition, in the order of offsets, and is not empty.

    Args:
        streams: the plans of the streams, by name.
        buckets: the buckets of the join.
        control: the control topic and the settings that have knobs.
    """

    def __init__(self, streams: dict[str, StreamPlan], buckets: Buckets, control: ControlPlan) -> None:
        self._by_topic = {read.topic: read for stream in streams.values() for read in stream.read}
        self._buckets = buckets
        self._control = control

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = _Task(self._by_topic, self._buckets, self._control)
        profile = task.profile
        for batch in profile.each("read", batches):
            with profile.phase("pack"):
                task.read(batch)
            for packed in task.packer.flush():
                with profile.phase("hand_over"):
                    yield packed
        task.finish()
        yield from task.packer.flush()


class _Task:
    """Packs the records of one task, batch by batch. Call `finish` behind the last one.

    Partitions have their numbers in the side of their stream.

    Attributes:
        packer: collects the packed rows.
        profile: collects the seconds of the task.

    Args:
        by_topic: the plans of the streams that are read, by topic.
        buckets: the buckets of the join.
        control: the control topic and the settings that have knobs.
    """

    def __init__(self, by_topic: dict[str, StreamPlan], buckets: Buckets, control: ControlPlan) -> None:
        self._by_topic = by_topic
        self._buckets = buckets
        self._records = 0
        self._parsers: dict[str, Parser] = {}
        self._readers: dict[str, RecordReader] = {}
        # These have, by stream and partition, the newest event time, the last row of a clustered stream, the
        # last mark of an ordered one, and the oldest and the newest timestamp of Kafka.
        self._newest: dict[tuple[str, int], int] = {}
        self._last: dict[tuple[str, int], pa.RecordBatch] = {}
        self._marks: dict[tuple[str, int], Mark] = {}
        self._heard: dict[tuple[str, int], tuple[int, int]] = {}
        self._until: dict[str, dict[str, int]] = {}  # the next offsets, by topic and Kafka's partition
        self._began = time.time()
        self._times: dict[str, Counter[int]] = {}  # records by Kafka's timestamp, by stream
        self._counts: Counter[str] = Counter()
        self._unreadable: dict[str, dict[str, Any]] = {}
        self._failures: dict[str, Failures] = {}  # failures of closing rules, by stream
        self.packer = Packer()
        self._control = ControlPacker(self.packer, buckets, control)
        self.profile = Profile()

    def read(self, batch: pa.RecordBatch) -> None:
        """Pack a batch of records of one partition, in the order of offsets."""
        topic, partition = (batch.column(name)[0].as_py() for name in ("topic", "partition"))
        first, last = (int(int64(batch.column("offset"))[at]) for at in (0, -1))
        self._records += batch.num_rows
        self._until.setdefault(topic, {})[str(partition)] = last + 1
        with failing_at(lambda: f"topic {topic}, partition {partition}, offsets {first} to {last}"):
            if topic == self._control.plan.topic:
                self._read_control(partition, batch)
            else:
                stream = self._by_topic[topic]
                self._read_partition(stream, stream.member.number(partition), batch)

    def _read_control(self, partition: int, batch: pa.RecordBatch) -> None:
        rejections, asked = self._control.pack(partition, batch)
        for asks, records in asked.items():
            self._counts[sample("control_records_total", asks=asks)] += records
        for rejection in rejections:
            self._counts[sample("dead_letters_total", reason=rejection.reason)] += 1
        self._pack_dead_letters(
            self._control.plan.topic, partition, rejections, int64(batch.column("offset"))
        )

    def _read_partition(self, stream: StreamPlan, partition: int, batch: pa.RecordBatch) -> None:
        """Read records of one partition, given its number in the stream's side."""
        own = stream.member.partition(partition)
        timestamps = int64(batch.column("timestamp"))
        self._times.setdefault(stream.name, Counter()).update(count_times(timestamps, self._began))
        if stream.side.idle is not None:
            self._note_timestamps(stream, partition, timestamps)
        self._counts[sample("records_total", stream=stream.name)] += batch.num_rows
        batch = self._without_tombstones(stream, batch)
        offsets, timestamps = int64(batch.column("offset")), int64(batch.column("timestamp"))
        with self.profile.phase("parse"):
            parsed = without_unavailable(
                self._parser(stream).parse(batch.column("value")), batch.column("value")
            )
            if stream.beside_value is not None:
                parsed = self._reader(stream, stream.beside_value).added(parsed, batch)
        parsed = without_future_heartbeats(stream, parsed, timestamps, batch.column("value"))
        self._counts[sample("rows_total", stream=stream.name)] += parsed.rows.num_rows
        punctuations = parsed.closed_keys.num_rows + len(parsed.promises)
        self._counts[sample("punctuations_total", stream=stream.name)] += punctuations
        self._count("partition_punctuations_total", stream, partition, punctuations)
        if parsed.skipped:
            self._counts[sample("tombstones_total", stream=stream.name)] += parsed.skipped
        if parsed.extra:
            self._counts[sample("extra_rows_total", stream=stream.name)] += parsed.extra
        stepped = through_steps(stream, parsed, batch.column("value"))
        for step, filtered in stepped.filtered.items():
            self._counts[sample("filtered_rows_total", stream=stream.name, step=step)] += filtered
        stepped = self._without_null_keys(stream, partition, stepped, offsets)
        stepped = self._without_future(stream, partition, stepped, batch)
        self._pack_rows(stream, partition, stepped, offsets, batch.column("value"))
        parsed = stepped.parsed
        self._pack_promises(stream, partition, parsed, offsets)
        for rejection in parsed.rejections:
            self._counts[sample("dead_letters_total", stream=stream.name, reason=rejection.reason)] += 1
            self._note_unreadable(stream, f"{stream.topic}/{own}/{offsets[rejection.at]}", rejection)
        self._pack_dead_letters(stream.topic, own, parsed.rejections, offsets)

    def _without_tombstones(self, stream: StreamPlan, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Leave out the records without a value. Kafka's compaction needs them, and they say nothing."""
        values = batch.column("value")
        if not values.null_count:
            return batch
        self._counts[sample("tombstones_total", stream=stream.name)] += values.null_count
        return batch.filter(values.is_valid())

    def _note_unreadable(self, stream: StreamPlan, at: str, rejection: Rejection) -> None:
        """Count a rejection for the quarantine, and keep the first one of its reason as an example.

        Args:
            stream: the plan of the stream.
            at: the coordinates of the record as text.
            rejection: the rejection.
        """
        reasons = self._unreadable.setdefault(stream.name, {})
        example = {"records": 0, "at": at, "error": storable(rejection.error, _EXAMPLE_LENGTH)}
        reasons.setdefault(rejection.reason, example)["records"] += 1

    def _note_timestamps(self, stream: StreamPlan, partition: int, times: np.ndarray) -> None:
        heard = self._heard.get((stream.side.name, partition), ())
        both = np.array([*heard, times.min(), times.max()])
        self._heard[stream.side.name, partition] = int(both.min()), int(both.max())

    def _count(self, name: str, stream: StreamPlan, partition: int, count: int) -> None:
        at = str(stream.member.partition(partition))
        self._counts[sample(name, stream=stream.name, partition=at)] += count

    def _parser(self, stream: StreamPlan) -> Parser:
        if stream.name not in self._parsers:
            self._parsers[stream.name] = cast("Callable[[], Parser]", stream.parser)()
        return self._parsers[stream.name]

    def _reader(self, stream: StreamPlan, taken: RecordColumns) -> RecordReader:
        if stream.name not in self._readers:
            self._readers[stream.name] = taken.reader()
        return self._readers[stream.name]

    def _without_null_keys(
        self, stream: StreamPlan, partition: int, stepped: SteppedRows, offsets: np.ndarray
    ) -> SteppedRows:
        """Set aside the rows with a null in the join key; return the others.

        A filtered row needs no key: it may be filtered before its key is derived.
        """
        bad = np.zeros(len(stepped.kept), bool)
        bad[stepped.kept] = nulls(stepped.rows, stream.on)
        return self._without(stream, partition, stepped, offsets, NULL, bad)

    def _without_future(
        self, stream: StreamPlan, partition: int, stepped: SteppedRows, batch: pa.RecordBatch
    ) -> SteppedRows:
        """Set aside the rows whose event time is too far after Kafka's timestamp; return the others."""
        if stream.side.ahead is None:
            return stepped
        times = _event_times(stream, stepped.parsed)
        # A producer may send any number as timestamp, so nothing is added to it: it could overflow.
        future = times - stream.side.ahead > int64(batch.column("timestamp"))[stepped.parsed.row_at]
        return self._without(stream, partition, stepped, int64(batch.column("offset")), FUTURE, future)

    def _without(
        self,
        stream: StreamPlan,
        partition: int,
        stepped: SteppedRows,
        offsets: np.ndarray,
        reason: str,
        bad: Bools,
    ) -> SteppedRows:
        """Set aside some rows for a reason; return the others. Filtered rows are no violations.

        Args:
            stream: the plan of the stream.
            partition: the partition of all records.
            stepped: the rows.
            offsets: the offsets of the records.
            reason: the reason of the violations.
            bad: a mask of the rows to set aside.
        """
        if not bad.any():
            return stepped
        if (bad & stepped.kept).any():
            self._pack_violations(
                stream, partition, reason, _kept(stream, partition, stepped.where(bad), offsets)
            )
        return stepped.where(~bad)

    def _pack_violations(self, stream: StreamPlan, partition: int, reason: str, rows: pa.RecordBatch) -> None:
        broken = violation_rows(stream, reason, rows)
        self._counts[sample("violations_total", stream=stream.name, reason=reason)] += broken.num_rows
        self._count("partition_violations_total", stream, partition, broken.num_rows)
        self.packer.add(self._buckets.labels[0], channels.VIOLATIONS, broken)

    def _pack_rows(
        self,
        stream: StreamPlan,
        partition: int,
        stepped: SteppedRows,
        offsets: np.ndarray,
        values: pa.Array,
    ) -> None:
        """Pack the rows of one partition, with their marks and ended runs. Late rows become violations."""
        parsed, kept = stepped.parsed, stepped.kept
        late = self._late(stream, partition, parsed)
        if parsed.rows.num_rows == 0:
            return
        own = _placed(stream, partition, parsed.rows, offsets[parsed.row_at])
        self._end_runs(stream, partition, own)
        self._mark(stream, partition, own)
        if stream.side.unique and not kept.all():
            # A filtered row ends its key like a row that ends a run: later rows of the key break a promise.
            self._pack_keys(stream, channels.ENDED, _keys(stream, own.filter(pa.array(~kept))))
        rows, late = _kept(stream, partition, stepped, offsets), late[kept]
        if stream.keeps_value:
            rows = rows.append_column(VALUE, values.take(pa.array(parsed.row_at[kept])))
        if late.any():
            self._pack_violations(stream, partition, "late", rows.filter(pa.array(late)))
            rows = rows.filter(pa.array(~late))
        for label, share in self._buckets.by_key(rows, stream.side.key):
            self.packer.add(label, stream_channel(channels.ROWS, stream.side.name), share)

    def _late(self, stream: StreamPlan, partition: int, parsed: Parsed) -> Bools:
        """Return a mask of the rows that are late within the batch; remember the newest event time."""
        before = self._newest.get((stream.name, partition), NEVER)
        late, newest = late_behind(stream, parsed, _event_times(stream, parsed), before)
        if newest != NEVER:
            self._newest[stream.name, partition] = newest
        return late

    def _mark(self, stream: StreamPlan, partition: int, rows: pa.RecordBatch) -> None:
        """Remember the farthest key of an ordered stream; pack the marks that rows fall behind."""
        if stream.side.ordered is None:
            return
        keys = rows.column(stream.side.key.columns[0])
        broken, self._marks[stream.name, partition] = marks(
            keys,
            int64(rows.column(stream.side.offset)),
            self._marks.get((stream.name, partition)),
            descending=stream.side.ordered == "descending",
        )
        self._pack_marks(stream, [(partition, mark) for mark in broken])

    def _end_runs(self, stream: StreamPlan, partition: int, rows: pa.RecordBatch) -> None:
        """Pack the keys whose runs end in a clustered stream, and the first row of the partition."""
        if not stream.side.clustered:
            return
        key, rows = stream.side.key.shared, _keys(stream, rows)
        last = self._last.get((stream.name, partition))
        if last is None:
            for label in self._buckets.labels:
                self.packer.add(label, stream_channel(channels.FIRST, stream.side.name), rows.slice(0, 1))
        found = ended_runs(rows if last is None else codec.concat([last, rows]), key.columns)
        self._pack_keys(stream, channels.ENDED, found)
        self._last[stream.name, partition] = rows.slice(rows.num_rows - 1)

    def _pack_keys(self, stream: StreamPlan, channel: str, keys: pa.RecordBatch) -> None:
        for label, share in self._buckets.by_key(keys, stream.side.key.shared):
            self.packer.add(label, stream_channel(channel, stream.side.name), share)

    def _pack_marks(self, stream: StreamPlan, found: list[tuple[int, Mark]]) -> None:
        if found:
            table = marks_table(found, stream.columns[stream.on[0]].arrow)
            for label in self._buckets.labels:
                self.packer.add(label, stream_channel(channels.MARKS, stream.side.name), table)

    def _pack_promises(self, stream: StreamPlan, partition: int, parsed: Parsed, offsets: np.ndarray) -> None:
        packed = PromisePacker(self.packer, self._buckets, stream)
        packed.named_keys(partition, parsed.closed_keys, offsets[parsed.closed_keys_at])
        if stream.closing is not None:
            failures = self._failures.setdefault(stream.name, Failures(stream.closing.condition.field))
            closing = packed.close_by_rows(
                partition, parsed.rows, offsets[parsed.row_at], stream.closing, failures
            )
            self._counts[sample("closing_rows_total", stream=stream.name)] += closing
            self._count("partition_punctuations_total", stream, partition, closing)
        for at, promise in parsed.promises:
            if set(promise.names()) <= set(stream.punctuated_on):  # else a heartbeat, which is in `newest`
                packed.promise(partition, int(offsets[at]), promise)

    def _pack_dead_letters(
        self, topic: str, partition: int, rejections: list[Rejection], offsets: np.ndarray
    ) -> None:
        if not rejections:
            return
        letters = [
            {
                "topic": topic,
                "partition": partition,
                "offset": int(offsets[rejection.at]),
                "reason": rejection.reason,
                "error": rejection.error,
                "value": rejection.value,
            }
            for rejection in rejections
        ]
        batch = channels.report_rows(letters, channels.DEAD_LETTER_SCHEMA)
        self.packer.add(self._buckets.labels[0], channels.DEAD_LETTERS, batch)

    def finish(self) -> None:
        """Send the newest event times to every bucket, and a report of the records read to the sink.

        Every bucket gets a blob from each task that has read any record, so all buckets run.
        """
        for (name, _), last in self._last.items():
            plan = next(stream for stream in self._by_topic.values() if stream.name == name)
            self._pack_keys(plan, channels.LAST, last)
        for topic in self._until.keys() & self._by_topic.keys():
            stream = self._by_topic[topic]
            newest = {
                str(partition): at - stream.lag
                for (name, partition), at in self._newest.items()
                if name == stream.name
            }
            reached = [
                (partition, mark) for (name, partition), mark in self._marks.items() if name == stream.name
            ]
            self._pack_marks(stream, reached)
            for label in self._buckets.labels:
                self.packer.add_json(label, stream_channel(channels.PROGRESS, stream.side.name), newest)
        for (side, partition), heard in self._heard.items():
            for label in self._buckets.labels:
                self.packer.add_json(label, stream_channel(channels.HEARD, side), {str(partition): heard})
        if self._until:
            for label in self._buckets.labels:
                self.packer.add_json(label, channels.READ, {"records": self._records})
            for name, failures in self._failures.items():
                self._counts[sample("closing_failed_rows_total", stream=name)] += failures.count
            samples = self._counts | self.profile.take()
            report = {"samples": samples, "offsets": self._until, "turns": self._control.turns}
            report["times"] = self._times
            report["unreadable"] = self._unreadable
            report["failures"] = [each for failures in self._failures.values() for each in failures.reports()]
            self.packer.add_json(self._buckets.labels[0], channels.METRICS, report)


def _event_times(stream: StreamPlan, parsed: Parsed) -> Ints:
    return int64(parsed.rows.column(stream.side.time.removeprefix(f"{stream.side.name}_")))


def _kept(stream: StreamPlan, partition: int, stepped: SteppedRows, offsets: np.ndarray) -> pa.RecordBatch:
    """Return the rows that row steps keep as `_placed` does, given the offsets of all records."""
    rows = stepped.rows.select(list(stream.columns))
    return _placed(stream, partition, rows, offsets[stepped.parsed.row_at[stepped.kept]])


def _placed(stream: StreamPlan, partition: int, rows: pa.RecordBatch, offsets: np.ndarray) -> pa.RecordBatch:
    """Return rows by the column names of results, with their partition and offset.

    Args:
        stream: the plan of the stream.
        partition: the partition of all rows.
        rows: the rows.
        offsets: their offsets.
    """
    coordinates = [pa.repeat(pa.scalar(partition, pa.int64()), rows.num_rows), pa.array(offsets)]
    names = [f"{stream.side.name}_{name}" for name in rows.schema.names]
    return pa.record_batch(
        rows.columns + coordinates, names=[*names, stream.side.partition, stream.side.offset]
    )


def _keys(stream: StreamPlan, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the keys of rows by the names that both sides share, with `partition` and `offset`."""
    side = stream.side
    rows = rows.select([*side.key.columns, str(side.partition), str(side.offset)])
    return rows.rename_columns([*side.key.shared.columns, "partition", "offset"])

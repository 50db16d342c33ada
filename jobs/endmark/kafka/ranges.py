"""Reads ranges of offsets by librdkafka, as Arrow batches of records. Tasks of a job read Kafka here.

librdkafka parses and decompresses on threads of its own, without Python's lock. A record of 150 bytes takes
about 2 µs of CPU on all threads together, most of it to make Python's objects and columns of them. A call of
a message's method is 0.04 to 0.1 µs of that. So messages are asked as little as possible.
"""

from __future__ import annotations

import gc
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import methodcaller
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from endmark.errors import EndmarkError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from endmark.state.search import Ints

    At = tuple[str, int]  # topic and partition
    Messages = list[Any]  # the library's own type says that even a record may have no topic and no offset

RECORDS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("value", pa.binary()),
    ]
)
# Columns that are read of those topics alone which need them. Headers are null if they cannot be read.
KEY, HEADERS = pa.field("key", pa.binary()), pa.field("headers", pa.map_(pa.string(), pa.binary()))


# Kafka takes any bytes as a header's name. The library decodes UTF-8, and returns beside its exception.
# Calls from C notice that. A call that Python has specialised would raise the exception anywhere later.
_decoded_headers = methodcaller("headers")


def _headers(message: Message) -> Any:
    try:
        return _decoded_headers(message) or []
    except SystemError:
        return None


_OTHERS = ((KEY, Message.key), (HEADERS, _headers))
# Few and large Arrow batches cost least, but records may have a megabyte.
_BYTES = 8 << 20
# Messages become Arrow while they are in the processor's cache: reading takes 1.9 µs a record, and 3.3 with
# 50,000 messages at once.
_CHUNK = 500
_WAIT_SECONDS = 0.02
_DEADLINE_SECONDS = 30.0  # without a record
_ASK_SECONDS = 5.0
_LAST_MILLISECOND = (2**63 - 1) // 1000
_SETTINGS = {
    # librdkafka demands a group, which a consumer that is told its partitions never joins.
    "group.id": "endmark",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "allow.auto.create.topics": False,
    # Any other setting would silently skip records that expire while they are read.
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    # At a topic's end a fetch waits for half a second by default.
    "fetch.wait.max.ms": 1,
    "fetch.queue.backoff.ms": 1,
    # A connection without an answer for so long is lost. By default, librdkafka waits for a minute, and our
    # tasks for records only for half a minute. A job took up to 53 s to catch up then, and 3 to 8 s now.
    "socket.timeout.ms": 10_000,
    # By default, librdkafka reads 100,000 records ahead of each partition, but ranges end before. Those in
    # vain were a third of the CPU of reading.
    "queued.min.messages": 1,
    "log_level": 0,  # errors are raised here, so nothing is written to standard error
}
_REFUSED = "correct kafka.sasl, or give the user the rights of docs/secured-kafka.md, and run the job again"


class UnreadableRangeError(EndmarkError):
    """Kafka does not give the records of a range: they are gone, it refuses us, or it is away."""


@dataclass(frozen=True)
class Range:
    """The offsets of one partition from `first` to `end`, without `end`.

    Not every offset has a record: transactions leave some out, and so does compaction.
    """

    topic: str
    partition: int
    first: int
    end: int

    @property
    def offsets(self) -> int:
        """The number of offsets."""
        return self.end - self.first


def read(
    settings: Mapping[str, Any],
    ranges: Sequence[Range],
    needs: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Iterator[pa.RecordBatch]:
    """Read all records of some ranges.

    A process keeps its consumer for the next ranges. It must read one call's records to the end before the
    next call.

    Args:
        settings: the settings by which librdkafka connects, as `KafkaCluster.librdkafka` returns them.
        ranges: ranges of different partitions, none of them empty.
        needs: the names of those of `KEY` and `HEADERS` with which a topic's records are read, by topic.

    Returns:
        batches of `RECORDS`, and of what their topic needs beside. Each is of one partition, in the order of
        offsets. Batches of several partitions alternate.

    Raises:
        UnreadableRangeError: records of a range are gone, the cluster refuses us, or it sends nothing for
            half a minute.
    """
    connection = _connection(tuple(sorted(settings.items())))
    consumer = connection.consumer
    left = {(each.topic, each.partition): each for each in ranges}
    consumer.assign([TopicPartition(each.topic, each.partition, each.first) for each in ranges])
    try:
        while left:
            for at, (batch, until) in connection.next_records(left, needs).items():
                if until < left[at].end:
                    left[at] = replace(left[at], first=max(left[at].first, until))
                else:
                    del left[at]
                    # Its further records would come, too, in place of those of other partitions.
                    consumer.incremental_unassign([TopicPartition(*at)])
                if batch.num_rows:
                    yield batch
    finally:
        consumer.unassign()


class _Connection:
    """A consumer, and the last error of its connections."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.consumer = Consumer({**settings, **_SETTINGS, "error_cb": self._note})
        self._failed: KafkaError | None = None
        self._place = f"Kafka at {settings['bootstrap.servers']}"

    def _note(self, error: KafkaError) -> None:
        self._failed = error

    def next_records(
        self, left: Mapping[At, Range], needs: Mapping[str, Collection[str]]
    ) -> dict[At, tuple[pa.RecordBatch, int]]:
        """Return the next records of some ranges by partition, each with the offset that is read next.

        Raises:
            UnreadableRangeError: records of a range are gone, the cluster refuses us, or nothing comes for
                half a minute.
        """
        found = {at: _Records(each, needs.get(each.topic, ())) for at, each in left.items()}
        want, size = min(_CHUNK, sum(each.offsets for each in left.values())), 0
        with _uncollected():
            # librdkafka waits until it has as many messages as it is asked for. Messages behind the end of a
            # range come, too, so they must not count. A small batch of a busy topic waited 20 ms in vain.
            messages = self._wait(want, left)
            while messages:
                for at, mine in _by_partition(messages).items():
                    if at in left:
                        errors = [error for error in map(Message.error, mine) if error is not None]
                        self._require_read(left[at], errors)
                        size += found[at].add(mine, ends=bool(errors))
                is_more = len(messages) == want and size < _BYTES
                want = min(_CHUNK, sum(records.missing for records in found.values()))
                messages = self.consumer.consume(want, _WAIT_SECONDS) if is_more and want else []
        return {at: (records.batch(), records.until) for at, records in found.items()}

    def _wait(self, want: int, left: Mapping[At, Range]) -> Messages:
        until = time.monotonic() + _DEADLINE_SECONDS
        self._failed = None
        while not (messages := self.consumer.consume(want, _WAIT_SECONDS)):
            if self._failed is not None and self._failed.code() == KafkaError._AUTHENTICATION:
                raise UnreadableRangeError(
                    f"{self._place} refuses the login: {self._failed.str()}; {_REFUSED}"
                )
            if time.monotonic() > until:
                why = "" if self._failed is None else f" ({self._failed.str()})"
                raise UnreadableRangeError(
                    f"{self._place} sends no record of {_named(left)} for {_DEADLINE_SECONDS:.0f} s{why}; "
                    "when it is back, run the job again from its checkpoint"
                )
        return messages

    def _require_read(self, read: Range, errors: list[KafkaError]) -> None:
        for error in errors:
            if error.code() != KafkaError._PARTITION_EOF:
                raise UnreadableRangeError(f"{self._place}{self._failure(read, error)}")

    def _failure(self, read: Range, error: KafkaError) -> str:
        """Say why the records of a range cannot be read, in words that follow the address of the cluster."""
        place = f"partition {read.partition} of topic {read.topic}"
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return f" does not let us read {place}; {_REFUSED}"
        if error.code() != KafkaError._AUTO_OFFSET_RESET:
            return f": {place}: {error.str()}; when it is back, run the job again from its checkpoint"
        at = TopicPartition(read.topic, read.partition)
        try:
            first, end = self.consumer.get_watermark_offsets(at, _ASK_SECONDS)
            holds = f" but {first} to {end - 1}" if end > first else ", and has none now"
        except KafkaException as failed:
            holds = f" ({failed})"
        return (
            f" does not hold offsets {read.first} to {read.end - 1} of {place} any more{holds}, so these "
            "records are lost: the topic keeps records for too short a time, or was made anew; the next "
            "start of a job says how to go on without them, and a program with frames needs a new checkpoint"
        )


class _Records:
    """Records of one range, as they come.

    Attributes:
        until: the offset that is read next.
    """

    def __init__(self, read: Range, needs: Collection[str]) -> None:
        self._range = read
        self._offsets: list[Ints] = []
        self._milliseconds: list[int] = []
        self._values: list[pa.Array] = []
        self._others: list[tuple[pa.Field, Callable[[Message], Any], list[pa.Array]]] = [
            (field, of, []) for field, of in _OTHERS if field.name in needs
        ]
        self.until = 0

    @property
    def missing(self) -> int:
        """The number of offsets of the range that have not come."""
        return max(0, self._range.end - max(self._range.first, self.until))

    def add(self, messages: Messages, *, ends: bool) -> int:
        """Add messages; return the bytes of their values, and of the keys and headers that are read.

        Args:
            messages: messages of the range's partition, in order.
            ends: whether the end of the partition is among them.
        """
        self.until = max(self.until, messages[-1].offset() + (messages[-1].error() is None))
        if ends:
            messages = [each for each in messages if each.error() is None]
        if not messages:
            return 0
        first, last, count = messages[0].offset(), messages[-1].offset(), len(messages)
        self._offsets.append(
            np.arange(first, first + count)
            if last - first + 1 == count
            else np.fromiter(map(Message.offset, messages), np.int64, count)
        )
        self._milliseconds += [milliseconds for _, milliseconds in map(Message.timestamp, messages)]
        self._values.append(pa.array(list(map(Message.value, messages)), pa.binary()))
        size = int(self._values[-1].nbytes)
        for field, of, arrays in self._others:
            arrays.append(pa.array(list(map(of, messages)), field.type))
            size += int(arrays[-1].nbytes)
        return size

    def batch(self) -> pa.RecordBatch:
        """Return the records that belong to the range."""
        count, read = len(self._milliseconds), self._range
        offsets = np.concatenate([np.empty(0, np.int64), *self._offsets])
        milliseconds = np.array(self._milliseconds, np.int64)
        times = 1000 * milliseconds.clip(-_LAST_MILLISECOND, _LAST_MILLISECOND)
        columns = [
            pa.repeat(pa.scalar(read.topic), count),
            pa.repeat(pa.scalar(read.partition, pa.int32()), count),
            pa.array(offsets),
            pa.array(times, RECORDS.field("timestamp").type),
            pa.concat_arrays(self._values) if count else pa.array([], pa.binary()),
        ]
        schema = RECORDS
        for field, _, arrays in self._others:
            columns.append(pa.concat_arrays(arrays) if count else pa.array([], field.type))
            schema = schema.append(field)
        batch = pa.record_batch(columns, schema=schema)
        return batch.slice(0, int(np.searchsorted(offsets, read.end)))


def _by_partition(messages: Messages) -> dict[At, Messages]:
    # librdkafka queues what a broker sends of one partition together, so messages are mostly of one.
    if len(set(map(Message.partition, messages))) == len(set(map(Message.topic, messages))) == 1:
        return {(messages[0].topic(), messages[0].partition()): messages}
    found: dict[At, Messages] = defaultdict(list)
    for message in messages:
        found[message.topic(), message.partition()].append(message)
    return found


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep Python from looking for garbage among the messages, which was half of the CPU of reading."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@lru_cache(maxsize=4)
def _connection(settings: tuple[tuple[str, Any], ...]) -> _Connection:
    return _Connection(dict(settings))


def _named(left: Mapping[At, Range]) -> str:
    topics = sorted({topic for topic, _ in left})
    return f"{'topics' if topics[1:] else 'topic'} {', '.join(topics)}"

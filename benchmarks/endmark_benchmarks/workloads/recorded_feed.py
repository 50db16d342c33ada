"""The auction as requests to a broker, made beforehand, and sent at any pace.

A client in Python takes some 50 us for a record: at 20,000 a second one of two cores, of which a job on the
same machine would have to do without. Here that work is done once, and kept; then a request of hundreds of
records costs what it takes to read and send its bytes. Event time runs as fast as the records are sent: what
a job has in state is the same at any rate.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import sys
import time
from collections import defaultdict
from dataclasses import asdict, dataclass
from itertools import groupby, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from kafka.record.default_records import DefaultRecordBatchBuilder

from endmark.errors import EndmarkError
from endmark_benchmarks.workloads.auction import workload
from endmark_feed.workload import messages

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from endmark_feed.message import Message

SLOT_SECONDS = 0.02  # of event time, in one request
_VERSION = 8  # of the request, the last one with a plain header
_IN_FLIGHT = 5
_ANSWER_SECONDS = 30
_LENGTH = struct.Struct(">i")


class Phase(NamedTuple):
    """A phase of a feed: a rate in records a second, and its length."""

    rate: float
    seconds: float

    @property
    def records(self) -> float:
        return self.rate * self.seconds


class Fed(NamedTuple):
    """The course of a phase.

    Args:
        began: Unix seconds.
        before: seconds of event time at its begin.
        behind: seconds by which its records left too late, at worst.
    """

    rate: float
    seconds: float
    began: float
    before: float
    behind: float


@dataclass(frozen=True)
class RecordedFeed:
    """A directory of requests.

    Args:
        seconds: of event time.
        rate: records for each of them.
        sellers: that the records speak of.
    """

    directory: Path
    seconds: float
    rate: float
    sellers: int

    @classmethod
    def of(cls, values: dict[str, Any]) -> Self:
        """Return the feed that `values` of another process describes."""
        return cls(**values | {"directory": Path(values["directory"])})

    def to_json(self) -> dict[str, Any]:
        """Return the feed as values for JSON."""
        return asdict(self) | {"directory": str(self.directory)}

    @property
    def _requests(self) -> Path:
        return self.directory / "requests"

    @property
    def _ends(self) -> Path:
        return self.directory / "ends.npy"

    def make(self) -> None:
        """Write all of it, or nothing."""
        part = self.directory.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        feed = workload(self.seconds, self.rate, self.sellers)
        # The last promises all come at once, at the very end.
        paced = takewhile(lambda message: message.due_seconds < feed.seconds, messages(feed))
        ends = []
        with (part / self._requests.name).open("wb") as requests:
            for slot, found in groupby(paced, lambda message: int(message.due_seconds / SLOT_SECONDS)):
                requests.write(_request(found))
                ends.append((slot, requests.tell()))
        np.save(part / self._ends.name, np.array(ends, np.int64))
        part.rename(self.directory)

    def slots(self) -> Iterator[tuple[float, bytes]]:
        """Requests, and the event time at which the first of their records is due, in seconds."""
        ends: NDArray[np.int64] = np.load(self._ends)
        with self._requests.open("rb") as requests:
            begin = 0
            for slot, end in ends.tolist():
                yield slot * SLOT_SECONDS, requests.read(end - begin)
                begin = end

    def send(self, bootstrap: str, phases: Sequence[Phase]) -> Iterator[Fed]:
        """Send the phases one after the other without a pause; yield the course of each when it is over.

        Args:
            bootstrap: the address of a broker, as `host:port`.
            phases: at least one.

        Raises:
            EndmarkError: the broker refused something, or the records do not last.
        """
        slots, due = self.slots(), 0.0
        with _Connection(bootstrap) as broker:
            slot, request = next(slots)
            for phase in phases:
                before, speed = due, phase.rate / self.rate
                until, began, started, behind = (
                    due + phase.seconds * speed,
                    time.time(),
                    time.monotonic(),
                    0.0,
                )
                while slot < until:
                    # When its last record is due.
                    wait = (slot + SLOT_SECONDS - before) / speed - (time.monotonic() - started)
                    if wait > 0:
                        time.sleep(wait)
                    broker.send(request)
                    behind = max(behind, time.monotonic() - started - (slot - before) / speed)
                    try:
                        slot, request = next(slots)
                    except StopIteration:
                        raise EndmarkError(f"{self.directory} has too few records") from None
                due = until
                yield Fed(phase.rate, phase.seconds, began, before, round(behind, 3))


def _request(found: Iterable[Message]) -> bytes:
    """Return the bytes of one request that sends all these records, in order."""
    batches: dict[tuple[str, int], list[Message]] = defaultdict(list)
    for message in found:
        batches[message.topic, message.partition].append(message)
    topics: dict[str, list[Any]] = defaultdict(list)
    topic_data = ProduceRequest.TopicProduceData
    for (topic, partition), records in batches.items():
        # No transaction and no sequence: there is one connection, on which order is kept.
        builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, sys.maxsize)
        for offset, record in enumerate(records):
            builder.append(offset, round(time.time() * 1_000), record.key, record.value, ())
        built = topic_data.PartitionProduceData(index=partition, records=bytes(builder.build()))
        topics[topic].append(built)
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=_ANSWER_SECONDS * 1_000,
        topic_data=[topic_data(name=topic, partition_data=built) for topic, built in topics.items()],
    )
    request.with_header(client_id="endmark-bench")
    return bytes(request.encode(version=_VERSION, header=True, framed=True))


class _Connection:
    """A connection to a broker that leads all partitions; it sends requests ahead of their answers."""

    def __init__(self, bootstrap: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers = self._socket.makefile("rb")
        self._waiting = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            while kind is None and self._waiting:
                self._receive()
        finally:
            self._socket.close()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)
        self._waiting += 1
        if self._waiting > _IN_FLIGHT:
            self._receive()

    def _receive(self) -> None:
        [length] = _LENGTH.unpack(self._answers.read(_LENGTH.size))
        answer = ProduceResponse.decode(self._answers.read(length), version=_VERSION, header=True)
        self._waiting -= 1
        for topic in answer.responses:
            for partition in topic.partition_responses:
                if partition.error_code:
                    raise EndmarkError(
                        f"the broker refused records of {topic.name}: error {partition.error_code}, "
                        f"{partition.error_message}"
                    )


def main() -> None:
    """Reads a task as JSON from standard input, and prints what became of each phase as a line of JSON."""
    task: dict[str, Any] = json.load(sys.stdin)
    feed = RecordedFeed.of(task["feed"])
    for fed in feed.send(task["bootstrap"], [Phase(*each) for each in task["phases"]]):
        print(json.dumps(fed._asdict()))


if __name__ == "__main__":
    main()

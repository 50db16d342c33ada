"""Three streams on one key without Spark: orders, their payments and their shipments, joined in several ways.

Each order lives for some batches. Its payments and shipments come meanwhile, and then all three streams close
its key. Every operator is restored from its snapshot in each batch, as in a task.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from endmark.operators.nary_join.join import NaryJoin
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.segment_join import BatchOutput
from endmark.operators.stream_join.side import SideSpec
from endmark.state import codec
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark_benchmarks.workloads.lookup_input import in_memory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from endmark.operators.stream_join.side import SideState

NAMES = ("orders", "payments", "shipments")
_KINDS = [("key", pa.int64()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64()), ("note", pa.string())]
_SECOND = 1_000_000
Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Orders:
    """The size of the workload.

    Args:
        batches: the number of batches.
        orders: orders that begin in each batch.
        life: batches until an order's key is closed.
        payments, shipments: rows of each order.
        late: whether shipments come only in the last batch of an order.
    """

    batches: int
    orders: int
    life: int
    payments: int
    shipments: int
    late: bool = False

    @property
    def rows(self) -> int:
        """The number of rows of all streams."""
        return self.batches * self.orders * (1 + self.payments + self.shipments)


class Answers(NamedTuple):
    """Results, whatever their order: how many, and the sums of two columns' products."""

    results: int
    first: int
    second: int


@dataclass
class Course:
    """The figures of one run.

    Args:
        seconds: the time of all batches.
        answers: the results.
        most_rows: the most rows in state after a batch.
        most_bytes: the most bytes of rows in state after a batch.
    """

    seconds: float
    answers: Answers
    most_rows: int = 0
    most_bytes: int = 0


def _columns(*streams: str) -> list[tuple[str, pa.DataType]]:
    return [(f"{stream}_{column}", kind) for stream in streams for column, kind in _KINDS]


def _spec(name: str, columns: list[tuple[str, pa.DataType]]) -> SideSpec:
    (key, _), (at, _), *_ = columns
    schema = pa.schema(columns)
    return SideSpec(name, KeySpec((key,)), at, schema, partition=None, offset=None, window=None)


SPECS = [_spec(name, _columns(name)) for name in NAMES]
_PAID = _spec("paid", _columns("orders", "payments"))


def batches(sizes: Orders) -> list[list[StreamBatch]]:
    """Return the input of each batch, one for each stream."""
    random = np.random.default_rng(1)
    keys = np.arange(sizes.batches * sizes.orders)
    begin = keys // sizes.orders
    found: list[tuple[Ints, Ints]] = [(keys, begin)]
    for count, late in ((sizes.payments, False), (sizes.shipments, sizes.late)):
        after = random.integers(sizes.life - 1 if late else 0, sizes.life, len(keys) * count)
        found.append((np.repeat(keys, count), np.repeat(begin, count) + after))
    notes = pa.array([f"note-{number:025d}" for number in range(1000)])
    made = []
    for batch in range(sizes.batches + sizes.life):
        closed = keys[begin == batch - sizes.life + 1]
        inputs = []
        for spec, (own, at) in zip(SPECS, found, strict=True):
            mine = np.sort(own[at == batch])
            times = batch * _SECOND + np.arange(len(mine))
            values = random.integers(0, 1000, len(mine))
            columns = [pa.array(mine), pa.array(times, _KINDS[1][1]), pa.array(values)]
            rows = pa.record_batch([*columns, notes.take(pa.array(values))], schema=spec.schema)
            ends = _closing(pa.array(closed)) if len(closed) else None
            inputs.append(StreamBatch(rows=rows if len(mine) else None, closed_keys=ends))
        made.append(inputs)
    return made


def _closing(keys: pa.Array) -> pa.RecordBatch:
    nothing = pa.array(np.zeros(len(keys), np.int64))
    return pa.record_batch([keys, nothing, nothing], names=["key", "partition", "offset"])


class _Total:
    """Adds the answers up outside of the clock."""

    def __init__(self) -> None:
        self.pieces: list[pa.RecordBatch] = []
        self.answers = Answers(0, 0, 0)

    def add_up(self) -> None:
        for piece in self.pieces:
            one, two, three = (piece.column(f"{name}_v").to_numpy() for name in NAMES)
            self.answers = Answers(
                self.answers.results + piece.num_rows,
                self.answers.first + int((one * two).sum()),
                self.answers.second + int((two * three).sum()),
            )
        self.pieces = []


def one_operator(inputs: list[list[StreamBatch]], directory: Path) -> Course:
    """Join all three streams in one operator."""
    store = SegmentStore(MemoryBlobs(), directory)
    snapshot: bytes | None = None
    total, course = _Total(), Course(0.0, Answers(0, 0, 0))
    for batch in inputs:
        started = time.perf_counter()
        join = NaryJoin(SPECS, store, restored=snapshot)
        total.pieces += join.process(*batch)
        snapshot = join.snapshot()
        course.seconds += time.perf_counter() - started
        total.add_up()
        _note(course, join.sides)
    course.answers = total.answers
    return course


def chain(inputs: list[list[StreamBatch]], directory: Path) -> Course:
    """Join orders with payments, and their results with shipments."""
    store = SegmentStore(MemoryBlobs(), directory)
    snapshots: list[bytes | None] = [None, None]
    total, course = _Total(), Course(0.0, Answers(0, 0, 0))
    for orders, payments, shipments in inputs:
        started = time.perf_counter()
        first = StreamJoin(SPECS[0], SPECS[1], store, restored=snapshots[0])
        paid = list(first.process(orders, payments))
        second = StreamJoin(_PAID, SPECS[2], store, restored=snapshots[1])
        total.pieces += second.process(_joined(paid, first.output), shipments)
        snapshots = [first.snapshot(), second.snapshot()]
        course.seconds += time.perf_counter() - started
        total.add_up()
        _note(course, [first.left, first.right, second.left, second.right])
    course.answers = total.answers
    return course


def _joined(paid: list[pa.RecordBatch], output: BatchOutput) -> StreamBatch:
    """Return the results and announcements of the first join as a batch of a stream."""
    found = StreamBatch()
    if paid:
        found = replace(found, rows=_PAID.key.sorted(codec.concat(paid)))
    if output.announced is not None:
        found = replace(found, closed_keys=_closing(output.announced.column("key")))
    return found


def _note(course: Course, sides: Sequence[SideState]) -> None:
    segments = [segment for side in sides for segment in side.rows.segments]
    course.most_rows = max(course.most_rows, sum(segment.live for segment in segments))
    course.most_bytes = max(course.most_bytes, sum(segment.memory for segment in segments))


def duckdb(inputs: list[list[StreamBatch]], directory: Path) -> Course:
    """Join all of the streams at once, in memory, and keep nothing for later rows: the limit."""
    sums = "count(*), sum(orders_v * payments_v), sum(payments_v * shipments_v)"
    keys = "orders_key = payments_key AND payments_key = shipments_key"
    with in_memory() as connection:
        for number, name in enumerate(NAMES):
            rows = [batch[number].rows for batch in inputs if batch[number].rows is not None]
            connection.register("given", pa.Table.from_batches(rows))
            connection.execute(f"CREATE TABLE {name} AS FROM given")
        started = time.perf_counter()
        [found] = connection.execute(
            f"SELECT {sums} FROM orders, payments, shipments WHERE {keys}"  # noqa: S608 - of constants
        ).fetchall()
        seconds = time.perf_counter() - started
    return Course(seconds, Answers(*map(int, found)))

"""Rows in state on the papers' workloads: how many the join holds, and how many `endmark validate` lets it.

The join runs without Spark, restored from its snapshot in every batch. What it may hold is recomputed by
DuckDB from the input alone: rows that none of the bounds which `validate` names for their stream has ended.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from heapq import merge
from pathlib import Path

import numpy as np
import pyarrow as pa

from endmark.engine.streams import stream_plans
from endmark.operators.nary_join.join import NaryJoin
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.presets import Preset
from endmark.operators.stream_join.segment_join import SegmentJoin
from endmark.operators.stream_join.side import SideSpec
from endmark.pipeline import Pipeline
from endmark.pipeline.boundedness import State, states
from endmark.punctuation.pattern import Anything
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark_feed.papers.event import Event, Workload
from endmark_feed.papers.names import parse_workload
from support.state_allowed import Element, recomputed

SIDES = ("left", "right", "third")
SEED = 1


@dataclass(frozen=True)
class Streams:
    """Two or three streams of the papers, and how they are joined.

    Args:
        workloads: the workload of each stream.
        punctuated: whether the streams close keys by punctuations.
        window: the window of the join; `None` joins without one.
        unique: whether no key comes twice on the left, so that each row closes its own.
    """

    workloads: tuple[Workload, ...]
    punctuated: bool = True
    window: timedelta | None = None
    unique: bool = False

    @property
    def sides(self) -> tuple[str, ...]:
        """The names of the streams."""
        return SIDES[: len(self.workloads)]

    def elements(self) -> list[Element]:
        """Return the elements of all streams, in order of time."""
        sides = (
            _elements(number, stream, SEED if self.unique else SEED + number)
            for number, stream in enumerate(self.workloads)
        )
        return list(merge(*sides, key=lambda element: element.microseconds))

    def batches(self, size: int) -> list[list[Element]]:
        """Return batches of `size` elements, each with the punctuations that its rows imply."""
        elements = self.elements()
        batches = [elements[at : at + size] for at in range(0, len(elements), size)]
        return [_closing_each(batch) for batch in batches] if self.unique else batches

    def pipeline(self, preset: Preset = Preset.AUTO, purge_every: int = 1) -> Pipeline:
        """Return the pipeline that joins the streams."""
        columns = {"key": "long", "serial": "long", "at": "timestamp"}
        stream = {
            "columns": columns,
            "event_time": {"column": "at"},
            "punctuated_on": ["key"] if self.punctuated else [],
        }
        return Pipeline.model_validate(
            {
                "name": "bounds",
                "streams": {side: stream | {"topic": side} for side in self.sides},
                "steps": {
                    "matched": {
                        "join": list(self.sides),
                        "on": ["key"],
                        "preset": preset,
                        "purge_every": purge_every,
                        "window": self.window,
                    },
                },
                "tables": {"results": {"from": "matched"}},
                "unbounded_state": "allow",
            }
        )


@dataclass(frozen=True)
class Course:
    """The rows that a join held after each batch, and those that it may hold.

    The last batch ends all streams.

    Args:
        bounds: the bounds of each stream's rows, as `validate` names them.
        arrived: rows so far, which is what a join that never purges holds.
        allowed: rows that none of the bounds has ended.
        held: rows in state.
        inserted: rows of each stream that entered state, in all.
    """

    bounds: tuple[State, ...]
    arrived: list[int]
    allowed: list[int]
    held: list[int]
    inserted: dict[str, int]


def workloads(values: int) -> dict[str, Streams]:
    """Return the workloads by name.

    Args:
        values: the number of keys that are closed; without punctuations, a hundredth of the rows of a stream.
    """

    def of(name: str, count: int = values) -> Workload:
        return parse_workload(name, count)

    uniform, window = of("uniform-1000", 100 * values), timedelta(seconds=5)
    return {
        "cluster-asc-30": Streams((of("cluster-asc-30"),) * 2),
        "punct-asc-100-40": Streams((of("punct-asc-100-40"),) * 2),
        "uniform-1000": Streams((uniform,) * 2, punctuated=False, window=window),
        "news": Streams((of("news-articles-random-10"), of("news-accesses")), unique=True),
        "cluster-asc-10, three": Streams((of("cluster-asc-10"),) * 3),
        "uniform-1000, three": Streams((uniform,) * 3, punctuated=False, window=window),
    }


def run(streams: Streams, batch: int, preset: Preset = Preset.AUTO) -> Course:
    """Join the streams in batches of `batch` elements, and once more when all are over."""
    batches = streams.batches(batch)
    pipeline = streams.pipeline(preset)
    bounds = tuple(_rows_of(states(pipeline), side) for side in streams.sides)
    arrived, allowed = recomputed(batches, streams.sides, bounds)
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(pipeline, Path(directory))
        held = [_rows(bench.join(bench.inputs(each))) for each in batches]
        held.append(_rows(bench.join(bench.ends(batches[-1][-1].microseconds))))
    return Course(bounds, [*arrived, arrived[-1]], [*allowed, 0], held, bench.inserted)


class Bench:
    """A stream join without Spark, which is restored from its snapshot in every batch."""

    def __init__(self, pipeline: Pipeline, directory: Path) -> None:
        plans = stream_plans(pipeline, dict.fromkeys(pipeline.streams, 1))
        self._specs = [plan.side for plan in plans.values()]
        assert pipeline.join is not None
        self._policy = pipeline.join.policy(field="")
        self._store = SegmentStore(MemoryBlobs(), directory)
        self._snapshot: bytes | None = None
        self._offset = 0
        self.inserted = {spec.name: 0 for spec in self._specs}

    def join(self, batches: Sequence[StreamBatch]) -> SegmentJoin:
        """Return the join after one batch of each stream."""
        join: SegmentJoin
        if len(self._specs) == 2:
            left, right = self._specs
            join = StreamJoin(left, right, self._store, policy=self._policy, restored=self._snapshot)
        else:
            join = NaryJoin(self._specs, self._store, policy=self._policy, restored=self._snapshot)
        for _ in join.process(*batches):
            pass
        self._snapshot = join.snapshot()
        for side in self.inserted:
            self.inserted[side] += join.output.counts["join_inserted_rows_total", side]
        return join

    def inputs(self, batch: list[Element]) -> list[StreamBatch]:
        """Return the elements of a batch by stream. Offsets are places in the whole input."""
        found = [self._input(number, batch) for number in range(len(self._specs))]
        self._offset += len(batch)
        return found

    def ends(self, last: int) -> list[StreamBatch]:
        """Return batches that end the streams: each closes every key, and its time leaves all windows."""
        return [self._end(spec, last) for spec in self._specs]

    def _input(self, number: int, batch: list[Element]) -> StreamBatch:
        spec = self._specs[number]
        mine = [(self._offset + place, each) for place, each in enumerate(batch) if each.side == number]
        places, rows = _columns([(place, each) for place, each in mine if not each.closes])
        zeros = np.zeros(len(places), np.int64)
        columns = [rows[1], places, rows[0], zeros, places]  # key, serial, at and coordinates
        arrays = [
            pa.array(column).cast(kind) for column, kind in zip(columns, spec.schema.types, strict=True)
        ]
        arrived = spec.key.sorted(pa.record_batch(arrays, schema=spec.schema))
        places, closings = _columns([(place, each) for place, each in mine if each.closes])
        names = [*spec.key.shared.columns, "partition", "offset"]
        closed = pa.record_batch([closings[1], np.zeros(len(places), np.int64), places], names=names)
        return StreamBatch(
            rows=arrived if arrived.num_rows else None,
            closed_keys=closed if closed.num_rows else None,
            newest={0: int(rows[0].max())} if arrived.num_rows else {},
        )

    def _end(self, spec: SideSpec, last: int) -> StreamBatch:
        everything = Punctuation.of(spec.name, {"key": Anything()}, Origin(0, self._offset))
        return StreamBatch(
            key_promises=[everything] if spec.window is None else [],
            newest={} if spec.window is None else {0: last + spec.window + 1},
        )


def _rows(join: SegmentJoin) -> int:
    return sum(side.rows.rows for side in join.sides)


def _elements(side: int, workload: Workload, seed: int) -> Iterator[Element]:
    for event in workload.events(seed):
        yield Element(_microseconds(event), side, event.key, event.closes)


def _microseconds(event: Event) -> int:
    return round(event.seconds * 1_000_000)


def _closing_each(batch: list[Element]) -> list[Element]:
    """A batch in which each left row is followed by the punctuation of its key."""
    pairs = ((each, each._replace(closes=True)) if each.side == 0 else (each,) for each in batch)
    return [each for pair in pairs for each in pair]


def _columns(placed: list[tuple[int, Element]]) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Places, times and keys."""
    table = np.array([(place, each.microseconds, each.key) for place, each in placed], np.int64).reshape(
        -1, 3
    )
    return table[:, 0].copy(), (table[:, 1].copy(), table[:, 2].copy())


def _rows_of(found: list[State], side: str) -> State:
    (state,) = (state for state in found if (state.input, state.holds) == (side, "rows"))
    return state

"""Runs the engine over a history in several buckets, and takes down what it announces and when."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa

from endmark.engine.channels import Buckets
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.event_times import NEVER, late_rows
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.pattern_reports import aligned
from endmark.operators.stream_join.presets import Policy
from endmark.operators.stream_join.side import SideSpec
from endmark.punctuation.punctuation import Origin, Punctuation
from endmark.state.keys import KeySpec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.output_world import COLUMNS, SIDES, Event, History, Place, Result, Side
from support.times import Spellings

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Placed = list[tuple[Event, Place]]
_LONG = pa.int64()
_KEY = KeySpec(("key",))


@dataclass
class Actual:
    """The output that came. `broken` are results that match an output punctuation of an earlier batch, which
    must not be."""

    results: Counter[Result] = field(default_factory=Counter)
    violations: set[tuple[Side, int, int]] = field(default_factory=set)
    patterns: Counter[frozenset[tuple[str, frozenset[int]]]] = field(default_factory=Counter)
    keys: Counter[int] = field(default_factory=Counter)
    broken: list[dict[str, int | None]] = field(default_factory=list)


def _schema(spelled: Spellings, side: Side) -> pa.Schema:
    own = [(f"{side}_{name}", spelled.of(name).kind) for name in (*COLUMNS, "time")]
    return pa.schema([*own, *((f"{side}_{name}", _LONG) for name in ("partition", "offset"))])


def _spec(history: History, spelled: Spellings, side: Side) -> SideSpec:
    return SideSpec(
        name=side,
        key=KeySpec((f"{side}_key",)),
        time=f"{side}_time",
        schema=_schema(spelled, side),
        partition=f"{side}_partition",
        offset=f"{side}_offset",
        window=history.windows[side],
        partitions=history.partitions[side],
        punctuated_on=tuple(
            f"{side}_{name}"
            for name in [
                *(COLUMNS if history.keyed[side] else COLUMNS[1:]),
                *(["time"] if history.timed[side] else []),
            ]
        ),
    )


class Driver:
    """Every operator is restored from its snapshot before each batch."""

    def __init__(
        self, history: History, spelled: Spellings, buckets: int, directory: Path, purge_every: int
    ) -> None:
        self._history = history
        self._spelled = spelled
        self._policy = Policy(purge_every=purge_every)
        self._buckets = Buckets(tuple(range(buckets)))
        self._store = SegmentStore(MemoryBlobs(), directory)
        self._joins = [self._operator(None) for _ in range(buckets)]
        self._actual = Actual()

    def _operator(self, snapshot: bytes | None) -> StreamJoin:
        left, right = (_spec(self._history, self._spelled, side) for side in SIDES)
        return StreamJoin(
            left, right, self._store, kind=self._history.kind, policy=self._policy, restored=snapshot
        )

    def run(self) -> Actual:
        for batch in self._history.placed():
            self._joins = [self._operator(join.snapshot()) for join in self._joins]
            reports, announced = [], list[int]()
            for number, join in enumerate(self._joins):
                for results in join.process(*(self._input(side, batch, number) for side in SIDES)):
                    self._collect(results)
                reports.append(json.loads(json.dumps(vars(join.output.patterns))))
                for violation in join.output.violations:
                    self._refused(violation.side, violation.rows)
                for keys in join.output.announced_by.values():
                    announced += map(self._spelled.key.number, keys.column("key").to_pylist())
            self._actual.keys.update(announced)
            for text in aligned(reports):
                self._actual.patterns[self._spelled.sets(json.loads(text))] += 1
        return self._actual

    def _input(self, side: Side, batch: Placed, bucket: int) -> StreamBatch:
        own = [(event, at) for event, at in batch if event.side == side]
        rows: Placed = []
        newest = {}
        start = (self._spelled.time.zero - EPOCH) // self._spelled.time.step
        for partition in range(self._history.partitions[side]):
            mine = [
                ((event, at), start + time)
                for event, at in own
                if at[0] == partition
                and (time := event.first_possible if event.time is None else event.time) is not None
            ]
            if mine:
                late, newest[partition] = late_rows(np.array([time for _, time in mine], np.int64), NEVER, 0)
                came = [
                    (one, is_late)
                    for (one, _), is_late in zip(mine, late, strict=True)
                    if one[0].time is not None
                ]
                rows += [one for one, is_late in came if not is_late]
                self._actual.violations |= {(side, *at) for (_, at), is_late in came if is_late}
        named = [(event, at) for event, at in own if event.time is None and not event.patterns]
        promises = [
            Punctuation.of(
                side,
                {f"{side}_{name}": self._spelled.of(name).pattern(each) for name, each in event.patterns},
                Origin(*at),
            )
            for event, at in own
            if event.patterns and (event.first_possible is None or self._history.timed[side])
        ]
        here = [(event, at) for event, at in rows if self._bucket(event.key) == bucket]
        closed = [(event, at) for event, at in named if self._bucket(event.key) == bucket]
        return StreamBatch(
            rows=self._rows(side, here) if here else None,
            closed_keys=self._closed(closed) if closed else None,
            promises=promises,
            key_promises=_spec(self._history, self._spelled, side).codec.on_key(promises),
            newest=newest,
        )

    def _bucket(self, key: int) -> int:
        spelled = pa.record_batch([pa.array([self._spelled.key.value(key)], self._spelled.key.kind)], ["key"])
        return int(self._buckets.of_keys(_KEY.keys(spelled).codes)[0])

    def _rows(self, side: Side, placed: Placed) -> pa.RecordBatch:
        rows = [
            (*(self._spelled.of(name).value(getattr(event, name)) for name in (*COLUMNS, "time")), *at)
            for event, at in placed
        ]
        schema = _schema(self._spelled, side)
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
        return KeySpec((f"{side}_key",)).sorted(pa.record_batch(arrays, schema=schema))

    def _refused(self, side: str, rows: pa.RecordBatch) -> None:
        places = (rows.column(f"{side}_{name}").to_pylist() for name in ("partition", "offset"))
        self._actual.violations |= {(SIDES[side == "right"], *at) for at in zip(*places, strict=True)}

    def _collect(self, results: pa.RecordBatch) -> None:
        for row in results.to_pylist():
            places = [(row.get(f"{side}_partition"), row.get(f"{side}_offset")) for side in SIDES]
            left, right = (None if at[0] is None else at for at in places)
            self._actual.results[left, right] += 1
            names = [name for name in row if name.endswith((*COLUMNS, "time"))]
            numbers = {name: self._spelled.of(name).number(row[name]) for name in names}
            keys = {number for name, number in numbers.items() if name.endswith("_key")}
            if keys & self._actual.keys.keys() or any(
                all(numbers[name] in allowed for name, allowed in pattern)
                for pattern in self._actual.patterns
            ):
                self._actual.broken.append(numbers)

    def _closed(self, placed: Placed) -> pa.RecordBatch:
        keys = pa.array([self._spelled.key.value(event.key) for event, _ in placed], self._spelled.key.kind)
        places = [pa.array([at[i] for _, at in placed], _LONG) for i in (0, 1)]
        return _KEY.sorted(pa.record_batch([keys, *places], ["key", "partition", "offset"]))

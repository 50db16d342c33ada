"""Runs the n-ary join over batches of streams, in several buckets, with keys of any kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from endmark.engine.channels import Buckets
from endmark.operators.nary_join.join import NaryJoin
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.event_times import NEVER, late_rows
from endmark.operators.stream_join.presets import Policy
from endmark.operators.stream_join.side import SideSpec
from endmark.state.store import MemoryBlobs, SegmentStore
from support.bucket_shares import shares
from support.nary_join_world import KEYS, Place, Result, Stream
from support.stream_join_keys import KeyKind
from support.stream_join_punctuations import Tagged, closed_keys, promise


def schema(key: KeyKind, side: str) -> pa.Schema:
    kinds = [("time", pa.timestamp("us", "UTC")), ("partition", pa.int64()), ("offset", pa.int64())]
    fields = [*zip(key.spec("").columns, key.types, strict=True), *kinds]
    return pa.schema([(f"{side}_{name}", kind) for name, kind in fields])


def spec(key: KeyKind, side: str, stream: Stream) -> SideSpec:
    return SideSpec(
        name=side,
        key=key.spec(f"{side}_"),
        time=f"{side}_time",
        schema=schema(key, side),
        partition=f"{side}_partition",
        offset=f"{side}_offset",
        window=stream.window,
        lateness=stream.lateness,
        partitions=len(stream.partitions),
        keyed=stream.keyed,
    )


class NaryDriver:
    """Takes batches, and notes what comes of them.

    Attributes:
        results: the places of their rows.
        violations: as (side, reason, partition, offset).
        announced: the keys, in the order of batches.
        too_late: keys with a result after their announcement.

    Args:
        streams: by name. Their events come with `take`.
        key: the kind of their keys.
        directory: for copies of the state.
        restart: a fresh operator continues from the snapshot before each batch.
        policy: the treatment of state.
        buckets: the number of operators that share the keys.
    """

    def __init__(
        self,
        streams: Mapping[str, Stream],
        key: KeyKind,
        directory: Path,
        *,
        restart: bool,
        policy: Policy,
        buckets: int = 1,
    ) -> None:
        self._streams = streams
        self._key = key
        self._directory = directory
        self._restart = restart
        self._policy = policy
        self._buckets = Buckets(tuple(range(buckets)))
        self._blobs = MemoryBlobs()
        self.results: Counter[Result] = Counter()
        self.violations: Counter[tuple[str, str, int, int]] = Counter()
        self.announced: list[int] = []
        self.too_late: list[int] = []
        self._joins = [self._operator(None) for _ in range(buckets)]

    def _operator(self, snapshot: bytes | None) -> NaryJoin:
        specs = [spec(self._key, side, stream) for side, stream in self._streams.items()]
        store = SegmentStore(self._blobs, self._directory)
        buckets = len(self._buckets)
        return NaryJoin(specs, store, policy=self._policy, buckets=buckets, restored=snapshot)

    def take(self, batch: Mapping[str, Sequence[Tagged]]) -> None:
        """Join a batch of events."""
        self._process({side: self._input(side, list(events)) for side, events in batch.items()})

    def reach(self, now: int) -> None:
        """Let all streams reach a time, in a batch without rows."""
        batches = {}
        for side, stream in self._streams.items():
            newest = dict.fromkeys(range(len(stream.partitions)), now + stream.lateness)
            batches[side] = StreamBatch(newest=newest)
        self._process(batches)

    def pause(self) -> None:
        """Join a batch in which nothing comes: there is time for all that was put off."""
        self._process({side: StreamBatch() for side in self._streams})

    def drain(self) -> None:
        """Collect the results that spilled rows are owed."""
        for join in self._joins:
            for result in join.drain():
                self._collect(result)

    def _process(self, batches: Mapping[str, StreamBatch]) -> None:
        if self._restart:
            for copy in self._directory.iterdir():
                copy.unlink()
            self._joins = [self._operator(join.snapshot()) for join in self._joins]
        shares = [self._shares(side, batch) for side, batch in batches.items()]
        for join, *own in zip(self._joins, *shares, strict=True):
            for result in join.process(*own):
                self._collect(result)
        self._note()

    def live(self) -> set[tuple[str, int, int]]:
        """The rows in state, as (side, partition, offset)."""
        found = [
            (side.spec.name, *place)
            for join in self._joins
            for side in join.sides
            for segment in side.rows.segments
            for place in _places(segment.live_batch(), side.spec.name)
        ]
        assert len(found) == len(set(found))
        return set(found)

    def final(self, numbers: Collection[int] = KEYS) -> set[int]:
        """The keys of which no further result can come."""
        shared = self._key.spec("").shared
        known = pa.record_batch(self._key.columns(list(numbers)), names=list(shared.columns))
        return {
            number
            for label, share in self._buckets.by_key(known, shared)
            for number in self._numbers(share.filter(pa.array(self._joins[label].final(shared.keys(share)))))
        }

    def pending(self) -> set[int]:
        """The closed keys that are not announced yet."""
        return {
            number
            for join in self._joins
            for side in join.sides
            for segment in side.pending_keys.segments
            for number in self._numbers(segment.live_batch())
        }

    def _numbers(self, keys: pa.RecordBatch) -> list[int]:
        return self._key.numbers([keys.column(name) for name in self._key.spec("").shared.columns])

    def _collect(self, result: pa.RecordBatch) -> None:
        assert result.schema.names == [
            name for side in self._streams for name in schema(self._key, side).names
        ]
        self.results.update(zip(*(_places(result, side) for side in self._streams), strict=True))
        columns = self._key.spec("").columns
        keys = [
            self._key.numbers([result.column(f"{side}_{name}") for name in columns]) for side in self._streams
        ]
        assert all(each == keys[0] for each in keys)
        self.too_late += [number for number in keys[0] if number in self.announced]

    def _note(self) -> None:
        announced: list[int] = []
        for join in self._joins:
            for violation in join.output.violations:
                for place in _places(violation.rows, violation.side):
                    self.violations[violation.side, violation.reason, *place] += 1
            if join.output.announced is not None:
                codes = self._key.spec("").shared.keys(join.output.announced).codes.tolist()
                assert codes == sorted(codes)
                announced += self._numbers(join.output.announced)
        final = self.final()
        if any(join.output.widened for join in self._joins):
            assert set(announced) <= final - set(self.announced)
            announced = sorted(final - set(self.announced))
        self.announced += announced
        assert set(self.announced) == final
        assert not self.pending() & final

    def _shares(self, side: str, batch: StreamBatch) -> list[StreamBatch]:
        return shares(batch, self._key.spec(f"{side}_"), self._key.spec("").shared, self._buckets)

    def _input(self, side: str, events: list[Tagged]) -> StreamBatch:
        rows: list[Tagged] = []
        newest: dict[int, int] = {}
        for partition in {partition for partition, _, event in events if event.time is not None}:
            own = [one for one in events if one[0] == partition and one[2].time is not None]
            times = np.array([event.time for _, _, event in own], np.int64)
            late, newest[partition] = late_rows(times, NEVER, self._streams[side].lateness)
            rows += [one for one, is_late in zip(own, late, strict=True) if not is_late]
            broken = [offset for (_, offset, _), is_late in zip(own, late, strict=True) if is_late]
            self.violations.update((side, "late", partition, offset) for offset in broken)
        closing = [one for one in events if one[2].time is None]
        named = [one for one in closing if one[2].names_keys(self._key)]
        return StreamBatch(
            rows=self._rows(rows, side) if rows else None,
            closed_keys=closed_keys(self._key, named, KEYS),
            key_promises=[promise(self._key, one, side) for one in closing if one not in named],
            newest=newest,
        )

    def _rows(self, rows: list[Tagged], side: str) -> pa.RecordBatch:
        columns = [
            *self._key.columns([event.key for _, _, event in rows]),
            pa.array([event.time for _, _, event in rows], pa.timestamp("us", "UTC")),
            pa.array([partition for partition, _, _ in rows], pa.int64()),
            pa.array([offset for _, offset, _ in rows], pa.int64()),
        ]
        return pa.record_batch(columns, schema=schema(self._key, side))


def _places(rows: pa.RecordBatch, side: str) -> list[Place]:
    columns = [rows.column(f"{side}_{name}").to_pylist() for name in ("partition", "offset")]
    return list(zip(*columns, strict=True))

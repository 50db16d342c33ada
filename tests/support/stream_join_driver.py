"""Runs the segment engine over a history, batch by batch, with keys of any kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.engine.channels import Buckets
from endmark.expressions.condition import Condition
from endmark.operators.stream_batch import StreamBatch
from endmark.operators.stream_join.event_times import NEVER, late_rows
from endmark.operators.stream_join.join import StreamJoin
from endmark.operators.stream_join.presets import DEFAULT, Policy
from endmark.operators.stream_join.segment_join import BatchOutput
from endmark.operators.stream_join.side import SideSpec
from endmark.state.store import MemoryBlobs, SegmentStore
from endmark.types import JoinType
from support.bucket_shares import shares
from support.stream_join_keys import KeyKind
from support.stream_join_punctuations import Tagged, closed_keys, promise
from support.stream_join_world import (
    KEYS,
    SIDES,
    Coordinates,
    Event,
    History,
    Result,
    SideName,
)

_NUMBERS = ("value", "partition", "offset")


@dataclass
class Actual:
    results: Counter[Result] = field(default_factory=Counter)
    violations: Counter[tuple[str, str, int, int]] = field(default_factory=Counter)
    announced: list[int] = field(default_factory=list)
    too_late: list[int] = field(default_factory=list)  # keys with a result after their announcement
    state_rows: int = 0


def schema(key: KeyKind, side: SideName) -> pa.Schema:
    kinds = [("time", pa.timestamp("us", "UTC")), *((name, pa.int64()) for name in _NUMBERS)]
    fields = [*zip(key.spec("").columns, key.types, strict=True), *kinds]
    return pa.schema([(f"{side}_{name}", kind) for name, kind in fields])


def spec(history: History, key: KeyKind, side: SideName, forget_after: int | None = None) -> SideSpec:
    return SideSpec(
        name=side,
        key=key.spec(f"{side}_"),
        time=f"{side}_time",
        schema=schema(key, side),
        partition=f"{side}_partition",
        offset=f"{side}_offset",
        window=history.windows[side],
        lateness=history.lateness[side],
        partitions=len(history.streams[side]),
        keyed=history.keyed[side],
        forget_after=forget_after,
    )


class Driver:
    """Every batch in turn.

    Args:
        restart: a fresh operator continues from the snapshot before each batch.
        drained: numbers of the batches after which the join drains, as at the end of a run.
        forget_after: the time after which a side forgets closed keys. Announced keys may be open again then.
    """

    def __init__(
        self,
        history: History,
        key: KeyKind,
        directory: Path,
        *,
        restart: bool,
        policy: Policy = DEFAULT,
        buckets: int = 1,
        drained: Collection[int] = (),
        forget_after: Mapping[SideName, int] | None = None,
    ) -> None:
        self._drained = drained
        self._forget_after = forget_after or {}
        self._history = history
        self._key = key
        self._directory = directory
        self._restart = restart
        self._policy = policy
        self._buckets = Buckets(tuple(range(buckets)))
        self._blobs = MemoryBlobs()
        self._actual = Actual()
        self._joins = [self._operator(None) for _ in range(buckets)]

    def _operator(self, snapshot: bytes | None) -> StreamJoin:
        left, right = (spec(self._history, self._key, side, self._forget_after.get(side)) for side in SIDES)
        residual = None
        if self._history.residual:
            # 9223372036854775805 + 3 is no BIGINT.
            fails = "left_value + right_value + 9223372036854775805 > 0"
            residual = Condition(f"left_value <= right_value AND {fails}", ("left_value", "right_value"))
        store = SegmentStore(self._blobs, self._directory)
        return StreamJoin(
            left,
            right,
            store,
            kind=self._history.kind,
            residual=residual,
            policy=self._policy,
            buckets=len(self._buckets),
            restored=snapshot,
        )

    def run(self) -> Actual:
        for number, batch in enumerate(self._history.batches()):
            if self._restart:
                for copy in self._directory.iterdir():
                    copy.unlink()
                self._joins = [self._operator(join.snapshot()) for join in self._joins]
            inputs = [self._shares(side, self._input(side, batch[side])) for side in SIDES]
            for join, left, right in zip(self._joins, *inputs, strict=True):
                for result in join.process(left, right):
                    self._collect(result)
            self._note()
            if number in self._drained:
                self._drain()
        self._drain()
        self._pause()
        self._actual.state_rows = sum(
            side.rows.rows for join in self._joins for side in (join.left, join.right)
        )
        return self._actual

    def remembered(self, side: SideName) -> int:
        """The number of closed keys that a side keeps; a range counts once."""
        at = SIDES.index(side)
        return sum(join.sides[at].closed_keys.rows for join in self._joins)

    def _pause(self) -> None:
        """A batch in which nothing comes: there is time for all that was put off."""
        for join in self._joins:
            for result in join.process(StreamBatch(), StreamBatch()):
                self._collect(result)
        self._note()

    def _drain(self) -> None:
        for join in self._joins:
            for result in join.drain():
                self._collect(result)

    def _shares(self, side: SideName, batch: StreamBatch) -> list[StreamBatch]:
        return shares(batch, self._key.spec(f"{side}_"), self._key.spec("").shared, self._buckets)

    def _input(self, side: SideName, events: list[Tagged]) -> StreamBatch:
        good: list[Tagged] = []
        newest: dict[int, int] = {}
        for partition in range(len(self._history.streams[side])):
            timed = [
                (tagged, time)
                for tagged in events
                if tagged[0] == partition and (time := self._time(side, tagged[2])) is not None
            ]
            times = np.array([time for _, time in timed], np.int64)
            late, last = late_rows(times, NEVER, self._history.lateness[side])
            if timed:
                newest[partition] = last
            for (tagged, _), is_late in zip(timed, late, strict=True):
                if tagged[2].time is None:
                    continue
                if is_late:
                    self._actual.violations[side, "late", tagged[0], tagged[1]] += 1
                else:
                    good.append(tagged)
        closing = [tagged for tagged in events if tagged[2].time is None and tagged[2].until is None]
        named = [tagged for tagged in closing if tagged[2].names_keys(self._key)]
        return StreamBatch(
            rows=self._rows(good, side) if good else None,
            closed_keys=closed_keys(self._key, named, KEYS),
            key_promises=[promise(self._key, tagged, side) for tagged in closing if tagged not in named],
            newest=newest,
        )

    def _time(self, side: SideName, event: Event) -> int | None:
        """The time of a row, or of one that would make the same rows late as a heartbeat does."""
        if event.until is None:
            return event.time
        return event.until + 1 + self._history.lateness[side]

    def _rows(self, tagged: list[Tagged], side: SideName) -> pa.RecordBatch:
        events = [event for _, _, event in tagged]
        numbers = [[event.value for event in events], [p for p, _, _ in tagged], [o for _, o, _ in tagged]]
        columns = [
            *self._key.columns([event.key for event in events]),
            pa.array([event.time for event in events], pa.timestamp("us", "UTC")),
            *(pa.array(column, pa.int64()) for column in numbers),
        ]
        return pa.record_batch(columns, schema=schema(self._key, side))

    def _final(self) -> set[int]:
        """The keys of which no further result can come."""
        spec = self._key.spec("").shared
        known = pa.record_batch(self._key.columns(list(KEYS)), names=list(spec.columns))
        return {
            number
            for label, share in self._buckets.by_key(known, spec)
            for number in self._numbers(share.filter(pa.array(self._joins[label].final(spec.keys(share)))))
        }

    def _numbers(self, keys: pa.RecordBatch) -> list[int]:
        names = self._key.spec("").shared.columns
        return self._key.numbers([keys.column(name) for name in names])

    def _held(self) -> set[int]:
        """The keys that are held back."""
        return {
            number
            for join in self._joins
            for side in (join.left, join.right)
            for segment in side.pending_keys.segments
            for number in self._numbers(segment.live_batch())
        }

    def _collect(self, result: pa.RecordBatch) -> None:
        sides = SIDES[:1] if self._history.kind is JoinType.SEMI else SIDES
        names = [name for side in sides for name in schema(self._key, side).names]
        assert result.schema.names == names
        left = _coordinates(result, "left")
        right = _coordinates(result, "right") if len(sides) == 2 else [None] * len(left)
        self._actual.results.update(zip(left, right, strict=True))
        keys = [
            pc.coalesce(*(result.column(f"{side}_{name}") for side in sides))
            for name in self._key.spec("").columns
        ]
        announced = set(self._actual.announced)
        self._actual.too_late += [key for key in self._key.numbers(keys) if key in announced]

    def _note(self) -> None:
        announced: list[int] = []
        for join in self._joins:
            self._violations(join.output)
            if join.output.announced is not None:
                codes = self._key.spec("").shared.keys(join.output.announced).codes.tolist()
                assert codes == sorted(codes)
                announced += self._numbers(join.output.announced)
        if any(join.output.widened for join in self._joins):
            fresh = self._final() - set(self._actual.announced)
            assert set(announced) <= fresh
            announced = sorted(fresh)
        self._actual.announced += announced
        assert set(self._actual.announced) == self._final() or (
            self._forget_after and set(self._actual.announced) > self._final()
        )
        assert not self._held() & self._final()

    def _violations(self, output: BatchOutput) -> None:
        for violation in output.violations:
            for at in _coordinates(violation.rows, violation.side):
                assert at is not None
                self._actual.violations[violation.side, violation.reason, *at] += 1


def _coordinates(rows: pa.RecordBatch, side: str) -> list[Coordinates | None]:
    columns = [rows.column(f"{side}_{name}").to_pylist() for name in ("partition", "offset")]
    return [None if at[0] is None else at for at in zip(*columns, strict=True)]

"""One bucket's work in one batch: the stream join, then the group-by on the same key, without a shuffle."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from endmark.aggregate.closing import ClosingAggregate
from endmark.joins.runs import RunNews
from endmark.joins.side import SideInput
from endmark.joins.stream_join import StreamJoin
from endmark.metrics import Samples, sample
from endmark.punctuation.punctuation import Origin
from endmark.spark import channels, refused
from endmark.spark.announced import announced
from endmark.spark.made import require_same
from endmark.spark.progress import progress_samples, waits_for
from endmark.spark.violations import violation_rows
from endmark.state import codec
from endmark.state.segment import merge_sorted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from endmark.joins.presets import Policy
    from endmark.joins.residual import Residual
    from endmark.joins.side import SideState
    from endmark.spark.streams import GroupPlan, StreamPlan
    from endmark.state.segment_list import SegmentList
    from endmark.state.store import SegmentStore
    from endmark.types import JoinType


ROWS_PER_BLOB = 1 << 16


@dataclass(frozen=True)
class BucketPlan:
    """What runs in every bucket: the join of two streams, and the group-by on its key if there is one.

    A batch of fewer records than `full_batch` is taken for a pause, in which the join catches up with what it
    has spilled; `None` takes each batch for one. It counts from the batch after, since a batch that is
    replayed with another value must give what it gave before.

    Args:
        made_with: what must not change while there is state, beyond what a checkpoint's settings pin.
        in_band: violations leave as text, for a frame that has a column of punctuations.
    """

    left: StreamPlan
    right: StreamPlan
    kind: JoinType
    residual: Residual | None
    policy: Policy
    group: GroupPlan | None
    full_batch: int | None = None
    made_with: Mapping[str, str] = field(default_factory=dict)
    in_band: bool = False


@dataclass(frozen=True)
class BucketSnapshot:
    """What a bucket remembers beside its segments."""

    join: bytes
    group: bytes | None


class BucketTask:
    """Runs a bucket's batches; sees packed blobs only."""

    def __init__(self, plan: BucketPlan, store: SegmentStore, restored: BucketSnapshot | None) -> None:
        self._plan = plan
        self._profile = store.profile
        self._join = StreamJoin(
            plan.left.side,
            plan.right.side,
            store,
            kind=plan.kind,
            residual=plan.residual,
            policy=plan.policy,
            restored=restored.join if restored is not None else None,
        )
        require_same(self._join.notes.get("made_with", {}), plan.made_with)
        self._join.notes["made_with"] = dict(plan.made_with)
        self._groups: ClosingAggregate | None = None
        if plan.group is not None:
            self._groups = ClosingAggregate(
                plan.group.keys,
                plan.group.measures,
                store,
                restored.group if restored is not None else None,
            )

    def snapshot(self) -> BucketSnapshot:
        return BucketSnapshot(self._join.snapshot(), self._groups.snapshot() if self._groups else None)

    def run(self, packed: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
        """One batch: blobs by channel in, blobs for the sink out."""
        arrived: dict[str, list[bytes]] = {}
        for channel, blob in packed:
            if channel in channels.TO_SINK:
                yield channel, blob
            else:
                arrived.setdefault(channel, []).append(blob)
        measured = []
        records = sum(json.loads(blob)["records"] for blob in arrived.get(channels.READ, []))
        with self._profile.phase("unpack"):
            inputs = (
                self._input(self._join.left, self._plan.left, arrived),
                self._input(self._join.right, self._plan.right, arrived),
            )
        for result in _gather(self._results(inputs, records)):
            with self._profile.phase("emit"):
                encoded = codec.encode(result)
            yield channels.RESULTS, encoded
            if self._groups is not None:
                with self._profile.phase("aggregate"):
                    measured.append(self._groups.inputs(result))
        yield from self._violations()
        yield from announced(self._join, self._plan.kind)
        closed_groups = 0
        if self._groups is not None and self._plan.group is not None:
            with self._profile.phase("aggregate"):
                self._groups.add(measured)
                closed = self._closed_groups(self._groups)
            closed_groups = closed.num_rows
            if closed_groups:
                yield channels.GROUPS, codec.encode(closed.select(self._plan.group.columns))
        report = {"samples": self._samples(closed_groups), "alike": self._progress()}
        yield channels.METRICS, json.dumps(report).encode()

    def _results(self, inputs: tuple[SideInput, SideInput], records: int) -> Iterator[pa.RecordBatch]:
        yield from self._join.process(*inputs)
        full = self._join.notes.get("full_batch")
        if full is None or records < full:
            yield from self._join.drain()
        self._join.notes["full_batch"] = self._plan.full_batch

    def _violations(self) -> Iterator[tuple[str, bytes]]:
        for violation in self._join.output.violations:
            stream = self._plan.left if violation.side == self._plan.left.name else self._plan.right
            if self._plan.in_band:
                yield channels.REFUSED, codec.encode(refused.violations(stream, violation))
            elif stream.side.partition is not None:  # rows of a frame have no coordinates to be found by
                rows = violation_rows(stream, violation.reason, violation.rows, violation.promises)
                yield channels.VIOLATIONS, codec.encode(rows)

    def _closed_groups(self, groups: ClosingAggregate) -> pa.RecordBatch:
        announced = self._join.output.announced
        if self._join.output.widened:
            return groups.close_where(self._join.final)
        if announced is None:
            return pa.RecordBatch.from_pylist([], groups.schema)
        return groups.close(self._join.left.key.keys(announced))

    def _input(self, side: SideState, stream: StreamPlan, arrived: dict[str, list[bytes]]) -> SideInput:
        def batches(channel: str) -> list[pa.RecordBatch]:
            name = channels.stream_channel(channel, stream.name)
            return [codec.decode(blob) for blob in arrived.get(name, [])]

        def batch(channel: str) -> pa.RecordBatch | None:
            found = batches(channel)
            return codec.concat(found) if found else None

        patterns = []
        promises = map(json.loads, arrived.get(channels.stream_channel(channels.PROMISES, stream.name), []))
        # Those of a frame have one place. A batch that is repeated may bring them in another order.
        for written in sorted(promises, key=_place_and_text):
            origin = Origin(written["partition"], written["offset"])
            patterns.append(side.promised.read(written["patterns"], origin))
        rows = batches(channels.ROWS)
        newest: dict[int, int] = {}
        for blob in arrived.get(channels.stream_channel(channels.PROGRESS, stream.name), []):
            for partition, time in json.loads(blob).items():
                newest[int(partition)] = max(time, newest.get(int(partition), time))
        heard: dict[int, tuple[int, int]] = {}
        for blob in arrived.get(channels.stream_channel(channels.HEARD, stream.name), []):
            heard |= {int(partition): tuple(times) for partition, times in json.loads(blob).items()}
        return SideInput(
            rows=merge_sorted(rows, stream.side.key) if rows else None,
            bystanders=batch(channels.BYSTANDERS),
            punctuations=batch(channels.PUNCTUATIONS),
            promises=side.on_key(patterns),
            patterns=patterns,
            newest=newest,
            marks=batch(channels.MARKS),
            heard=heard,
            runs=RunNews(batch(channels.ENDED), batch(channels.FIRST), batch(channels.LAST)),
        )

    def _progress(self) -> Samples:
        return progress_samples(self._join.left) | progress_samples(self._join.right)

    def _samples(self, closed_groups: int) -> Samples:
        output = self._join.output
        samples: Counter[str] = Counter()
        for (name, label), count in output.counts.items():
            if name == "propagated_punctuations_total":
                samples[sample(name, by=label)] += count
            else:
                samples[sample(name, **({"stream": label} if label else {}))] += count
        for violation in output.violations:
            key = sample("violations_total", stream=violation.side, reason=violation.reason)
            samples[key] += violation.rows.num_rows
        left, right = self._join.left, self._join.right
        for side, opposite in ((left, right), (right, left)):
            labels = {"operator": "join", "stream": side.spec.name}
            samples.update(_state_samples(side.rows, labels))
            spilled = [one for one in side.rows.segments if one.joined_to is not None]
            stream = side.spec.name
            samples[sample("join_spilled_segments", stream=stream)] += len(spilled)
            samples[sample("join_spilled_bytes", stream=stream)] += sum(one.memory for one in spilled)
            deferred = sum(one.live for one in self._join.deferral.owed(side))
            samples[sample("join_deferred_rows", stream=stream)] += deferred
            samples[sample("closed_keys", stream=side.spec.name)] += side.named.closed.rows
            samples[sample("promised_keys", stream=side.spec.name)] += side.named.promised.rows
            samples[
                sample("pending_punctuations", stream=side.spec.name, waits_for=waits_for(side, opposite))
            ] += side.pending.rows
        if self._groups is not None:
            samples.update(_state_samples(self._groups.groups, {"operator": "aggregate", "stream": "groups"}))
            samples[sample("groups_closed_total")] += closed_groups
        return dict(samples)


def _place_and_text(promise: dict[str, Any]) -> tuple[int, int, str]:
    return promise["partition"], promise["offset"], json.dumps(promise["patterns"])


def _gather(pieces: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small pieces to batches of `ROWS_PER_BLOB` or more, so that few blobs cross to the sink."""
    held: list[pa.RecordBatch] = []
    for piece in pieces:
        held.append(piece)
        if sum(batch.num_rows for batch in held) >= ROWS_PER_BLOB:
            yield codec.concat(held)
            held = []
    if held:
        yield codec.concat(held)


def _state_samples(segments: SegmentList, labels: dict[str, str]) -> dict[str, int]:
    return {
        sample("state_rows", **labels): segments.rows,
        sample("state_bytes", **labels): segments.size,
        sample("state_segments", **labels): len(segments.segments),
    }

"""Samples of a bucket's state for the join and for groups, and of the progress of both streams."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from endmark.metrics import Samples, sample
from endmark.operators.stream_join.side import NEVER

if TYPE_CHECKING:
    from endmark.operators.group_by.group_by import ClosingAggregate
    from endmark.operators.stream_join.join import StreamJoin
    from endmark.operators.stream_join.side import SideState
    from endmark.state.segment_list import SegmentList

_SECOND = 1_000_000


def state_samples(join: StreamJoin, groups: ClosingAggregate | None) -> Counter[str]:
    """Return the sizes of a bucket's state after a batch; `groups` is `None` without a group-by."""
    samples: Counter[str] = Counter()
    for side, opposite in ((join.left, join.right), (join.right, join.left)):
        if side.spec.ended:
            continue
        labels = {"operator": "join", "stream": side.spec.name}
        samples.update(_state_samples(side.rows, labels))
        spilled = [one for one in side.rows.segments if one.joined_to is not None]
        stream = side.spec.name
        samples[sample("join_spilled_segments", stream=stream)] += len(spilled)
        samples[sample("join_spilled_bytes", stream=stream)] += sum(one.memory for one in spilled)
        deferred = sum(one.live for one in join.spiller.owed(side))
        samples[sample("join_deferred_rows", stream=stream)] += deferred
        samples[sample("closed_keys", stream=side.spec.name)] += side.closed_keys.rows
        samples[sample("promised_keys", stream=side.spec.name)] += side.closed_keys.promised.rows
        samples[
            sample("pending_punctuations", stream=side.spec.name, waits_for=_waits_for(side, opposite))
        ] += side.pending_keys.rows
    if groups is not None:
        for kept in groups.lists.values():
            samples.update(_state_samples(kept, {"operator": "aggregate", "stream": "groups"}))
    return samples


def progress_samples(side: SideState) -> Samples:
    """Return the progress of one side. All buckets return the same, since each knows all partitions."""
    stream, samples = side.spec.name, Samples()
    if side.spec.ended:
        return samples
    newest = max(side.newest.values(), default=NEVER)
    for partition in range(side.spec.partitions):
        labels = {"stream": stream, "partition": str(partition)}
        if side.idle_partitions.is_idle(partition):
            samples[sample("idle_partitions", **labels)] = 1
        elif partition in side.newest:
            behind = (newest - side.newest[partition]) / _SECOND
            samples[sample("partition_behind_seconds", **labels)] = behind
        else:
            samples[sample("silent_partitions", **labels)] = 1
    if side.progress != NEVER:
        samples[sample("progress_event_time_seconds", stream=stream)] = side.progress / _SECOND
        samples[sample("progress_behind_seconds", stream=stream)] = (newest - side.progress) / _SECOND
    return samples


def _state_samples(segments: SegmentList, labels: dict[str, str]) -> dict[str, int]:
    return {
        sample("state_rows", **labels): segments.rows,
        sample("state_bytes", **labels): segments.size,
        sample("state_segments", **labels): len(segments.segments),
    }


def _waits_for(side: SideState, opposite: SideState) -> str:
    """Return whether the pending punctuations of a side wait for a `window` or a `closing`."""
    return "closing" if opposite.preserved or side.spec.window is None else "window"

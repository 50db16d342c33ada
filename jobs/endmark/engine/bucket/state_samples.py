"""Samples of a bucket's state for the join and for groups, and of the progress of its streams."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from endmark.metrics import Samples, sample
from endmark.operators.stream_join.event_times import NEVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from endmark.engine.groups.bucket_groups import BucketGroups
    from endmark.operators.stream_join.members import Member
    from endmark.operators.stream_join.segment_join import SegmentJoin
    from endmark.operators.stream_join.side import SideState
    from endmark.state.segment_list import SegmentList

_SECOND = 1_000_000


def state_samples(join: SegmentJoin, groups: Sequence[BucketGroups]) -> Counter[str]:
    """Return the sizes of a bucket's state after a batch, given its groups by the join key."""
    samples: Counter[str] = Counter()
    for side in join.sides:
        if side.spec.ended:
            continue
        stream = side.spec.name
        labels = {"operator": "join", "stream": stream}
        samples.update(_state_samples(side.rows, labels))
        if side.first_rows is not None:
            samples.update(_state_samples(side.first_rows.passed, labels | {"operator": "deduplicate"}))
        spilled = [one for one in side.rows.segments if one.joined_to is not None]
        samples[sample("join_spilled_segments", stream=stream)] += len(spilled)
        samples[sample("join_spilled_bytes", stream=stream)] += sum(one.memory for one in spilled)
        deferred = sum(one.live for one in join.spiller.owed(side))
        samples[sample("join_deferred_rows", stream=stream)] += deferred
        samples[sample("closed_keys", stream=stream)] += side.closed_keys.rows
        samples[sample("promised_keys", stream=stream)] += side.closed_keys.promised.rows
        others = [other for other in join.sides if other is not side]
        waits_for = _waits_for(side, others)
        samples[sample("pending_punctuations", stream=stream, waits_for=waits_for)] += side.pending_keys.rows
    for each in groups:
        samples.update(group_samples(each))
    return samples


def group_samples(groups: BucketGroups) -> Counter[str]:
    """Return the sizes of a bucket's open groups of an aggregate."""
    samples: Counter[str] = Counter()
    for kept in groups.open.lists.values():
        samples.update(_state_samples(kept, {"operator": "aggregate", "stream": groups.plan.step}))
    return samples


def progress_samples(side: SideState) -> Samples:
    """Return the progress of the streams of one side, and that of a union.

    All buckets return the same, since each knows all partitions.
    """
    samples = Samples()
    for member in () if side.spec.ended else side.spec.streams:
        samples |= _progress_samples(side, member)
    if side.spec.members:
        newest = max(side.newest.values(), default=NEVER)
        samples |= _reached(side.spec.name, side.progress, newest)
    return samples


def _progress_samples(side: SideState, member: Member) -> Samples:
    samples = Samples()
    newest = max((time for number, time in side.newest.items() if member.owns(number)), default=NEVER)
    for number in member.numbers:
        labels = {"stream": member.stream, "partition": str(member.partition(number))}
        if side.is_idle(number):
            samples[sample("idle_partitions", **labels)] = 1
        elif number in side.newest:
            behind = (newest - side.newest[number]) / _SECOND
            samples[sample("partition_behind_seconds", **labels)] = behind
        else:
            samples[sample("silent_partitions", **labels)] = 1
    return samples | _reached(member.stream, side.progress_of(member), newest)


def _reached(stream: str, progress: int, newest: int) -> Samples:
    if progress == NEVER:
        return {}
    return {
        sample("progress_event_time_seconds", stream=stream): progress / _SECOND,
        sample("progress_behind_seconds", stream=stream): (newest - progress) / _SECOND,
    }


def _state_samples(segments: SegmentList, labels: dict[str, str]) -> dict[str, int]:
    return {
        sample("state_rows", **labels): segments.rows,
        sample("state_bytes", **labels): segments.size,
        sample("state_segments", **labels): len(segments.segments),
    }


def _waits_for(side: SideState, others: Sequence[SideState]) -> str:
    """Return whether the pending punctuations of a side wait for a `window` or a `closing`."""
    by_closing = side.spec.window is None or any(other.preserved for other in others)
    return "closing" if by_closing else "window"

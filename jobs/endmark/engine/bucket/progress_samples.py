"""Samples of a stream's progress, and of the partitions that hold it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.metrics import Samples, sample
from endmark.operators.stream_join.side import NEVER

if TYPE_CHECKING:
    from endmark.operators.stream_join.side import SideState

_SECOND = 1_000_000


def progress_samples(side: SideState) -> Samples:
    """Return the samples of one side. All buckets report the same, since each knows all partitions."""
    stream, samples = side.spec.name, Samples()
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


def waits_for(side: SideState, opposite: SideState) -> str:
    """Return what the pending punctuations of a side wait for: a `window` or a `closing`."""
    return "closing" if opposite.preserved or side.spec.window is None else "window"

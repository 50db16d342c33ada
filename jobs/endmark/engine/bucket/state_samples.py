"""Samples of the state that a bucket keeps for the join and for groups."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from endmark.engine.bucket.progress_samples import waits_for
from endmark.metrics import sample

if TYPE_CHECKING:
    from endmark.operators.group_by.group_by import ClosingAggregate
    from endmark.operators.stream_join.join import StreamJoin
    from endmark.state.segment_list import SegmentList


def state_samples(join: StreamJoin, groups: ClosingAggregate | None) -> Counter[str]:
    """Return the sizes of a bucket's state after a batch."""
    samples: Counter[str] = Counter()
    for side, opposite in ((join.left, join.right), (join.right, join.left)):
        labels = {"operator": "join", "stream": side.spec.name}
        samples.update(_state_samples(side.rows, labels))
        spilled = [one for one in side.rows.segments if one.joined_to is not None]
        stream = side.spec.name
        samples[sample("join_spilled_segments", stream=stream)] += len(spilled)
        samples[sample("join_spilled_bytes", stream=stream)] += sum(one.memory for one in spilled)
        deferred = sum(one.live for one in join.spiller.owed(side))
        samples[sample("join_deferred_rows", stream=stream)] += deferred
        samples[sample("closed_keys", stream=side.spec.name)] += side.closed_keys.closed.rows
        samples[sample("promised_keys", stream=side.spec.name)] += side.closed_keys.promised.rows
        samples[
            sample("pending_punctuations", stream=side.spec.name, waits_for=waits_for(side, opposite))
        ] += side.pending_keys.rows
    if groups is not None:
        for kept in groups.lists.values():
            samples.update(_state_samples(kept, {"operator": "aggregate", "stream": "groups"}))
    return samples


def _state_samples(segments: SegmentList, labels: dict[str, str]) -> dict[str, int]:
    return {
        sample("state_rows", **labels): segments.rows,
        sample("state_bytes", **labels): segments.size,
        sample("state_segments", **labels): len(segments.segments),
    }

"""The plans of all stages of a query, which form a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.engine.bucket.plan import BucketPlan
from endmark.engine.derived_stream import DerivedStream
from endmark.engine.groups.stage import GroupStage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.channels import Buckets
    from endmark.engine.streams import StreamPlan
    from endmark.pipeline import Lookup, Pipeline


@dataclass(frozen=True)
class StagePlan:
    """The plan of one stage, and of what takes its results.

    Args:
        bucket: the plan of its buckets.
        onward: the derived stream of the next stage, or the first stage of groups; `None`: results go to the
            sink.
    """

    bucket: BucketPlan
    onward: DerivedStream | GroupStage | None


def stage_plans(
    pipeline: Pipeline,
    streams: Mapping[str, StreamPlan],
    looking: Callable[[Lookup, StreamPlan], LookupPlan],
    buckets: Buckets,
    groups: Sequence[GroupStage],
    full_batch: int | None,
) -> list[StagePlan]:
    """Make the plans of all stages with a join or lookups, in order.

    Args:
        pipeline: the pipeline.
        streams: the plans of its streams, by name.
        looking: makes the plan of a lookup, given the plan of the stream that is looked up.
        buckets: the buckets of each of these stages.
        groups: the stages of groups behind them.
        full_batch: a batch of fewer records is a pause, as in `BucketPlan`.
    """
    stages = pipeline.stages
    deriving = {
        number: DerivedStream.of(stage, stage.earlier, buckets)
        for number, stage in enumerate(stages)
        if stage.earlier is not None
    }
    plans: list[StagePlan] = []
    for number, stage in enumerate(stages):
        derived = deriving.get(number)
        inputs = {**streams, **({} if derived is None else {derived.stream.name: derived.stream})}
        lookups = [
            looking(lookup, inputs[given]) for given in stage.inputs for lookup in pipeline.lookups_of(given)
        ]
        bucket = BucketPlan.of(stage, inputs, lookups, len(buckets), full_batch, derived)
        onward = deriving.get(number + 1) or next(iter(groups), None)
        plans.append(StagePlan(bucket, onward))
    return plans


def group_stages(pipeline: Pipeline, buckets: Buckets, group_buckets: Buckets) -> list[GroupStage]:
    """Make the plans of the stages of groups, in order: groups by another key, and groups of final groups.

    Args:
        pipeline: the pipeline.
        buckets: the buckets of each stage with a join or lookups.
        group_buckets: the buckets of each stage of groups.
    """
    regrouped = GroupStage.of(pipeline, len(buckets), group_buckets)
    reporters = buckets if regrouped is None else group_buckets
    rolled_up = GroupStage.of_rollups(pipeline, len(reporters), group_buckets)
    return [stage for stage in (regrouped, rolled_up) if stage is not None]

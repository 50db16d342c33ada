"""The plan that every bucket runs; it travels to the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from endmark.control.knobs import steps_of
from endmark.engine.streams import group_plan, residual

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.condition import Condition
    from endmark.control.knobs import Steps
    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.streams import GroupPlan, StreamPlan
    from endmark.operators.stream_join.presets import Policy
    from endmark.pipeline import Pipeline
    from endmark.types import JoinType


@dataclass(frozen=True)
class BucketPlan:
    """The plan of a bucket: the join of two streams, and the group-by on its key if there is one.

    A batch of fewer records than `full_batch` is taken for a pause, in which the join catches up with what it
    has spilled and no row is left waiting for the relation; `None` takes each batch for one. It counts from
    the batch after, since a batch that is replayed with another value must give what it gave before.

    Args:
        buckets: that share what the join may keep in memory.
        steps: what the pipeline file says of the steps that have knobs; none on frames.
        lookups: of the streams, before the join; those of a stream in their order.
        made_with: what must not change while there is state, beyond what a checkpoint's settings pin.
        in_band: violations leave as text, for a frame that has a column of punctuations.
        shows_results: whether results leave, beside the groups they make.
        packs_results: whether they leave as blobs, which is how they take part in a shuffle or are written.
    """

    left: StreamPlan
    right: StreamPlan
    kind: JoinType
    residual: Condition | None
    policy: Policy
    group: GroupPlan | None
    full_batch: int | None = None
    buckets: int = 1
    lookups: tuple[LookupPlan, ...] = ()
    steps: Steps = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)
    in_band: bool = False
    shows_results: bool = True
    packs_results: bool = True

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        streams: Mapping[str, StreamPlan],
        lookups: Sequence[LookupPlan],
        buckets: int,
        full_batch: int | None,
    ) -> Self:
        """Make the plan of a pipeline for one of so many buckets."""
        left, right = (streams[name] for name in pipeline.sides)
        return cls(
            left=left,
            right=right,
            kind=pipeline.join.type,
            residual=residual(pipeline),
            policy=pipeline.join.policy(buckets),
            group=group_plan(pipeline),
            full_batch=full_batch,
            buckets=buckets,
            lookups=tuple(lookups),
            steps=steps_of(pipeline),
        )

    def lookups_of(self, stream: str) -> list[LookupPlan]:
        return [lookup for lookup in self.lookups if lookup.stream == stream]

"""The plan that the task of every bucket runs. It is pickled and travels to the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from endmark.control.knobs import steps_of
from endmark.engine.bucket.written_steps import WrittenStep, written_steps
from endmark.engine.streams import group_plan, nobody, residual
from endmark.errors import ConfigError
from endmark.operators.stream_join.presets import DEFAULT
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.condition import Condition
    from endmark.control.knobs import Steps
    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.streams import GroupPlan, StreamPlan
    from endmark.operators.stream_join.presets import Policy
    from endmark.pipeline import Pipeline


@dataclass(frozen=True)
class BucketPlan:
    """The plan of a bucket: the join of its streams, and the group-by on its key if there is one.

    A stream without a join is joined with a stream that has ended (`nobody`).

    Args:
        streams: the streams, in the order of the join's inputs.
        kind: which rows become results. More than two streams have an inner join.
        residual: the condition that results must meet beside key and windows; `None` is always met.
        policy: the treatment of state.
        step: the place of the join in the pipeline file, which begins the names of its knobs.
        group: the group-by; `None` without one.
        full_batch: a batch of fewer records is a pause; `None`: every batch is a pause. In a pause, the join
            catches up with its spilled rows, and no row is left waiting for a relation. A new value counts
            from the next batch on, so a repeated batch gives the same results.
        buckets: the number of buckets, which share the join's memory.
        lookups: the lookups before the join; those of one stream in their order.
        steps: the settings of the pipeline's steps that have knobs; frames have none.
        made_with: settings that must not change while there is state, beyond those that a checkpoint pins.
        in_band: whether violations leave as text, for a frame that has a column of punctuations.
        shows_results: whether results leave the bucket. If not, only their groups do.
        packs_results: whether results leave as blobs, which can be shuffled or written to tables.
        written: the streams and steps in front of the join whose rows leave, too.
    """

    streams: tuple[StreamPlan, ...]
    kind: JoinType
    residual: Condition | None
    policy: Policy
    group: GroupPlan | None
    step: str = ""
    full_batch: int | None = None
    buckets: int = 1
    lookups: tuple[LookupPlan, ...] = ()
    steps: Steps = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)
    in_band: bool = False
    shows_results: bool = True
    packs_results: bool = True
    written: tuple[WrittenStep, ...] = ()

    @classmethod
    def of(
        cls,
        pipeline: Pipeline,
        streams: Mapping[str, StreamPlan],
        lookups: Sequence[LookupPlan],
        buckets: int,
        full_batch: int | None,
    ) -> Self:
        """Make the plan of a pipeline.

        Args:
            pipeline: the pipeline.
            streams: the plans of its streams, by name.
            lookups: the plans of its lookups.
            buckets: the number of buckets.
            full_batch: the field of the plan.
        """
        inputs = tuple(streams[name] for name in pipeline.sides)
        join, step = pipeline.join, f"steps.{pipeline.flow.join}"
        return cls(
            streams=inputs if join is not None else (*inputs, nobody(*inputs)),
            kind=JoinType.LEFT if join is None else join.type,
            residual=residual(pipeline),
            policy=DEFAULT if join is None else join.policy(buckets, field=step),
            group=group_plan(pipeline),
            step=step,
            full_batch=full_batch,
            buckets=buckets,
            lookups=tuple(lookups),
            steps=steps_of(pipeline),
            # A second stage takes all results, and packs those that leave for the sink.
            shows_results=pipeline.shows_results or pipeline.regroups,
            packs_results=not pipeline.regroups,
            written=written_steps(pipeline, streams, lookups),
        )

    def stream(self, name: str) -> StreamPlan:
        """Return the plan of a stream, by its name."""
        return next(stream for stream in self.streams if stream.name == name)

    def lookups_of(self, stream: str) -> list[LookupPlan]:
        return [lookup for lookup in self.lookups if lookup.stream == stream]


def require_same(was: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Refuse state that was made with other settings than those of the plan.

    Args:
        was: `BucketPlan.made_with` of the plan that made the state.
        now: `BucketPlan.made_with` of the present plan.

    Raises:
        ConfigError: a setting differs. The error names the setting and both of its values.
    """
    changes = [
        f"{name} was {was.get(name, 'left out')}, is {now.get(name, 'left out')}"
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]
    if changes:
        raise ConfigError(
            f"the checkpoint was made with other arguments: {', '.join(changes)}; "
            "go back to them, or start with a new checkpoint"
        )

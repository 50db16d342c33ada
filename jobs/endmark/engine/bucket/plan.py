"""The plan that the task of every bucket runs. It is pickled and travels to the tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from endmark.control.tuning.knobs import steps_of
from endmark.engine import channels
from endmark.engine.bucket.lookup_levels import placed_steps
from endmark.engine.bucket.result_steps import ResultPlan
from endmark.engine.bucket.written_steps import WrittenStep, written_steps
from endmark.engine.groups.plan import group_plans
from endmark.engine.streams import nobody, residual
from endmark.errors import ConfigError
from endmark.operators.stream_join.presets import DEFAULT
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.control.tuning.knobs import Steps
    from endmark.engine.bucket.lookup_levels import PlacedStep
    from endmark.engine.bucket.lookup_plan import LookupPlan
    from endmark.engine.derived_stream import DerivedStream
    from endmark.engine.groups.plan import GroupPlan
    from endmark.engine.streams import StreamPlan
    from endmark.expressions.condition import Condition
    from endmark.operators.stream_join.presets import Policy
    from endmark.pipeline.stage import Stage

_OF_ALL_STAGES = (channels.READ, channels.KNOBS, channels.QUESTIONS)


@dataclass(frozen=True)
class BucketPlan:
    """The plan of a bucket of one stage: the join of its streams, and the aggregates by its key, if any.

    A stream without a join is joined with a stream that has ended (`nobody`).

    Args:
        streams: the streams, in the order of the join's inputs.
        kind: which rows become results. More than two streams have an inner join.
        residual: the condition that results must meet beside key and windows; `None` is always met.
        policy: the treatment of state.
        step: the field of the join in the pipeline file, which begins the names of its knobs.
        groups: the aggregates by the key of the stage.
        key: the columns of the key, as the pipeline file names them; frames have none.
        full_batch: a batch of fewer records is a pause; `None`: every batch is a pause. In a pause, the join
            catches up with its spilled rows, and no row is left waiting for a relation. A new value counts
            from the next batch on, so a repeated batch gives the same results.
        buckets: the number of buckets, which share the join's memory.
        lookups: the lookups before the join; those of one stream in their order.
        steps: the settings of the pipeline's steps that have knobs; frames have none.
        made_with: settings that must not change while there is state, beyond those that a checkpoint pins.
        in_band: whether violations leave as text, for a frame that has a column of punctuations.
        shows_results: whether results leave the bucket. If not, only their groups do.
        derived: the stream that has the results of the stage before; `None` in the first stage.
        goes_on: whether results are a derived stream of the next stage. Then the bucket makes a report for
            it, and what it reads of knobs and batches passes through.
        later: the streams of later stages, whose blobs pass through.
        written: the streams and steps in front of the join whose rows leave, too.
        looked_up: the row steps behind lookups, by stream.
        behind: the row steps behind the join.
    """

    streams: tuple[StreamPlan, ...]
    kind: JoinType
    residual: Condition | None
    policy: Policy
    groups: tuple[GroupPlan, ...]
    step: str = ""
    key: tuple[str, ...] = ()
    full_batch: int | None = None
    buckets: int = 1
    lookups: tuple[LookupPlan, ...] = ()
    steps: Steps = field(default_factory=dict)
    made_with: Mapping[str, str] = field(default_factory=dict)
    in_band: bool = False
    shows_results: bool = True
    derived: DerivedStream | None = None
    goes_on: bool = False
    later: frozenset[str] = frozenset()
    written: tuple[WrittenStep, ...] = ()
    looked_up: Mapping[str, tuple[PlacedStep, ...]] = field(default_factory=dict)
    behind: ResultPlan = field(default_factory=ResultPlan)

    @classmethod
    def of(
        cls,
        stage: Stage,
        streams: Mapping[str, StreamPlan],
        lookups: Sequence[LookupPlan],
        buckets: int,
        full_batch: int | None,
        derived: DerivedStream | None = None,
    ) -> Self:
        """Make the plan of a stage of a pipeline.

        Args:
            stage: the stage.
            streams: the plans of its inputs, by name.
            lookups: the plans of its lookups.
            buckets: the number of buckets.
            full_batch: the field of the plan.
            derived: the field of the plan.
        """
        pipeline, join = stage.pipeline, stage.join
        inputs = tuple(streams[name] for name in stage.inputs)
        policy = DEFAULT if join is None else join.policy(buckets, field=stage.field)
        behind = pipeline.stages[len(stage.before) + 1 :]
        return cls(
            streams=inputs if join is not None else (*inputs, nobody(*inputs)),
            kind=JoinType.LEFT if join is None else join.type,
            residual=residual(stage),
            policy=policy,
            groups=() if behind else group_plans(pipeline),
            step=stage.field,
            key=stage.key,
            full_batch=full_batch,
            buckets=buckets,
            lookups=tuple(lookups),
            steps=steps_of(pipeline),
            # The next stage takes all results, and hands on those that leave for the sink.
            shows_results=bool(behind) or pipeline.outputs.shows_results or bool(pipeline.regrouped),
            derived=derived,
            goes_on=bool(behind),
            later=frozenset(name for each in behind for name in each.streams),
            written=written_steps(stage, streams, lookups),
            looked_up={given: placed_steps(pipeline, given) for given in stage.inputs},
            behind=ResultPlan.of(stage),
        )

    def passes_on(self, channel: str) -> bool:
        """Return whether blobs of a channel go on to a later stage, or to the sink."""
        return not self.takes(channel) or (self.goes_on and channel in _OF_ALL_STAGES)

    def takes(self, channel: str) -> bool:
        """Return whether blobs of a channel are for this stage."""
        _, _, stream = channel.partition(":")
        return not channels.is_for_sink(channel) and stream not in self.later

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
    if changes := differences(was, now):
        raise ConfigError(
            f"the checkpoint was made with other arguments: {', '.join(changes)}; "
            "go back to them, or start with a new checkpoint"
        )


def differences(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Describe each setting that differs, with its name and both values."""
    return [
        f"{name} was {was.get(name, 'left out')}, is {now.get(name, 'left out')}"
        for name in sorted(was.keys() | now.keys())
        if was.get(name) != now.get(name)
    ]

"""The plan of a pipeline in words: where steps run, what is in state, and when rows of tables are final."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from endmark.operators.stream_join.presets import Propagation
from endmark.pipeline.boundedness import states
from endmark.pipeline.picture import about
from endmark.pipeline.steps.rows import RowStep
from endmark.pipeline.steps.union import UnionStep
from endmark.pipeline.tables import (
    RESERVED,
    is_group_role,
    is_latest_role,
    is_running_role,
    is_step_role,
    step_of,
)
from endmark.types import JoinType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from endmark.pipeline.boundedness import State
    from endmark.pipeline.groups import Groups
    from endmark.pipeline.model import Pipeline
    from endmark.pipeline.stage import Stage

_NONE = "stays empty"
_ONCE = "each row is final when it is written"
_RESERVED = dict(zip(RESERVED, ("all topics", "all streams", "the results"), strict=True))


@dataclass(frozen=True)
class StepPlan:
    """One step: its name, and what it does."""

    step: str
    does: str


@dataclass(frozen=True)
class Reading:
    """The reading of one stream: its topic, and the steps that run where its records are parsed."""

    stream: str
    topic: str
    format: str
    event_time: str
    steps: tuple[StepPlan, ...]


@dataclass(frozen=True)
class StageExplanation:
    """One shuffle and the stateful operator behind it.

    Args:
        key: the columns by which rows are spread over buckets.
        inputs: the streams, and the join of the stage before.
        steps: the steps that run in the buckets, in order.
        state: the state that the buckets keep, with its bounds, in words.
    """

    key: tuple[str, ...]
    inputs: tuple[str, ...]
    steps: tuple[StepPlan, ...]
    state: tuple[str, ...]


@dataclass(frozen=True)
class Output:
    """A table or a topic: its name, whether it is a `table` or a `topic`, whose rows it gets, how, and when
    they are final."""

    name: str
    kind: str
    source: str
    mode: str
    final: str


@dataclass(frozen=True)
class Explanation:
    """The plan of a whole pipeline, in the order in which rows go through it."""

    pipeline: str
    reads: tuple[Reading, ...]
    stages: tuple[StageExplanation, ...]
    outputs: tuple[Output, ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The plan as values for JSON."""
        return asdict(self)

    def lines(self) -> Iterator[str]:
        """Yield the plan in lines of text."""
        yield f"{self.pipeline}: one query, and {_counted(len(self.stages), 'shuffle')}"
        yield "Read, before any shuffle"
        for read in self.reads:
            yield f"  {read.stream}: topic {read.topic}, {read.format}, event time {read.event_time}"
            yield from (f"    {step.step}: {step.does}" for step in read.steps)
        for number, stage in enumerate(self.stages, 1):
            yield f"Stage {number}, in buckets of {', '.join(stage.key)}, from {', '.join(stage.inputs)}"
            yield from (f"  {step.step}: {step.does}" for step in stage.steps)
            yield from (f"  in state, {text}" for text in stage.state or ("nothing",))
        yield "Write, exactly once for tables and at least once for topics"
        for output in self.outputs:
            yield f"  {output.kind} {output.name}: rows of {output.source}, {output.mode}; {output.final}"


def explained(pipeline: Pipeline) -> Explanation:
    """Return the plan of a pipeline in words."""
    kept = states(pipeline)
    *before, last = pipeline.stages
    own = [_stage(stage, kept, last=False) for stage in before] + [_stage(last, kept, last=True)]
    own += [_groups(found, kept) for found in (pipeline.regrouped, pipeline.rollups) if found]
    outputs = [*_tables(pipeline, kept), *_topics(pipeline, kept)]
    reads = tuple(_reading(pipeline, name) for name in pipeline.read_streams)
    return Explanation(pipeline.name, reads, tuple(own), tuple(outputs))


def _reading(pipeline: Pipeline, name: str) -> Reading:
    stream = pipeline.streams[name]
    flow = pipeline.flow
    names = flow.paths[name]
    if (union := flow.taker_of(name)) != name:
        names = (*flow.unions[union][name], union, *flow.behind_unions[union])
    own = [step for step in names if isinstance(pipeline.steps[step], RowStep | UnionStep)]
    steps = _steps(pipeline, own)
    return Reading(name, stream.topic, stream.format, stream.event_time.column, steps)


def _steps(pipeline: Pipeline, names: Sequence[str]) -> tuple[StepPlan, ...]:
    return tuple(StepPlan(name, about(pipeline.steps[name])) for name in names)


def _stage(stage: Stage, kept: Sequence[State], *, last: bool) -> StageExplanation:
    """Return a stage of the pipeline; the `last` one also has the groups by its own key."""
    pipeline = stage.pipeline
    groups = [each.step for each in pipeline.groups if last and not each.regroups]
    on_the_way = [name for path in stage.steps.paths.values() for name in path]
    names = [name for name in on_the_way if not isinstance(pipeline.steps[name], RowStep)]
    names += [stage.steps.join] if stage.steps.join is not None else []
    names += stage.steps.behind
    names += groups
    inputs = {*stage.inputs, *groups}
    state = tuple(str(one) for one in kept if one.input in inputs)
    return StageExplanation(stage.key, stage.inputs, _steps(pipeline, names), state)


def _groups(several: Sequence[Groups], kept: Sequence[State]) -> StageExplanation:
    """Return a stage of groups: those of results by another key, or those of final groups."""
    names = [each.step for each in several]
    state = tuple(str(one) for one in kept if one.input in names)
    steps = _steps(several[0].pipeline, names)
    key = tuple(dict.fromkeys(column for each in several for column in each.key))
    inputs = tuple(dict.fromkeys(each.source for each in several))
    return StageExplanation(key, inputs, steps, state)


def _tables(pipeline: Pipeline, kept: Sequence[State]) -> Iterator[Output]:
    for role, name in pipeline.outputs.directories.items():
        table = pipeline.tables.get(name)
        source = _RESERVED[name] if table is None else table.source or name
        mode = "append" if table is None else table.mode
        yield Output(name, "table", source, mode, _final(pipeline, role, kept))


def _topics(pipeline: Pipeline, kept: Sequence[State]) -> Iterator[Output]:
    for step, published in pipeline.publish.items():
        role = pipeline.outputs.published_role(step)
        if is_group_role(role):
            yield Output(published.topic, "topic", step, published.mode, _final(pipeline, role, kept))
            continue
        is_last = step == pipeline.flow.results
        silent = not is_last or _punctuations(pipeline.last_stage) == _NONE
        behind = "no punctuations follow" if silent else "output punctuations follow"
        final = f"{_results(pipeline, 'results') if is_last else _ONCE}, and {behind}"
        yield Output(published.topic, "topic", step, "append", final)


def _final(pipeline: Pipeline, role: str, kept: Sequence[State]) -> str:
    """Return when rows of a table are final, given the kind of its rows."""
    if role == "punctuations":
        return _punctuations(pipeline.last_stage)
    if role in _RESERVED:
        return _ONCE
    if is_latest_role(role):
        return "a later change of the key replaces its row"
    if role == "results" or is_step_role(role):
        before = role != "results" and pipeline.flow.stands_before_joins(step_of(role))
        return f"{_ONCE}, which is when the join takes it" if before else _results(pipeline, role)
    (groups,) = (one for one in kept if one.holds == "groups" and one.input == step_of(role))
    ends = " or ".join(f"by {bound}" for bound in groups.bounded_by) + groups.besides
    if not is_running_role(role):
        return f"a group has one row, which comes when it is final: {ends}"
    return f"a group's row is final as its column says: {ends}" if ends else "a group's row is never final"


def _punctuations(stage: Stage) -> str:
    if stage.propagation is Propagation.NEVER:
        return _NONE
    if stage.propagation is Propagation.CLOSED:
        return "a row comes for each key that all streams have closed"
    return "a row comes once no later result matches it"


def _results(pipeline: Pipeline, role: str) -> str:
    stage = pipeline.last_stage if role == "results" else pipeline.stage_with(step_of(role))
    join = stage.join
    if join is None or join.type in (JoinType.INNER, JoinType.SEMI):
        return _ONCE
    return f"{_ONCE}; one without a partner comes when none can come any more"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

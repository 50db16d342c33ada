"""The flow of rows through the steps of a pipeline: from streams, through joins, to groups.

Each stream and each step feeds one step, or any number of aggregates. The rows of all streams come together
in the results, which the aggregates take. So nothing is computed twice, and the plan of a job has no
branches. Steps on one key are a stage, and stages form a line: the results of a stage are rows of the next
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import TYPE_CHECKING

from endmark.pipeline.steps.aggregate import AggregateStep
from endmark.pipeline.steps.join import JoinStep
from endmark.pipeline.steps.rows import RowStep
from endmark.pipeline.steps.union import UnionStep

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from endmark.pipeline.steps.step import Step


_STAGES = 2  # the most stages with a join or lookups; groups by a key of their own have one more


@dataclass(frozen=True)
class StageSteps:
    """The steps of one stage.

    Args:
        paths: the steps of each input, in order: row steps, then lookups, with row steps behind these. An
            input is a stream, a union, or the join of the stage before. Inputs are in the join's order. The
            path of a union begins with a lookup.
        join: the join; `None` without one.
        behind: the row steps behind the join, in order.
    """

    paths: Mapping[str, tuple[str, ...]]
    join: str | None
    behind: tuple[str, ...] = ()

    @property
    def end(self) -> str | None:
        """The join, or the last row step behind it; `None` without a join."""
        return self.behind[-1] if self.behind else self.join


@dataclass(frozen=True)
class Flow:
    """The order of a pipeline's steps.

    Args:
        stages: the steps of each stage, in order. The last one makes the results.
        groups: the aggregates of the results.
        rollups: the aggregates of final groups of these.
        results: the stream or step whose rows are the results: the last join, or the last row step behind
            it, or the end of the one input of a stage without a join.
        unions: the members of each union, in order, with the row steps of each in front of the union.
        behind_unions: the row steps directly behind each union, in order. They run on rows of each member.
    """

    stages: tuple[StageSteps, ...]
    groups: tuple[str, ...]
    rollups: tuple[str, ...]
    results: str
    unions: Mapping[str, Mapping[str, tuple[str, ...]]]
    behind_unions: Mapping[str, tuple[str, ...]]

    @cached_property
    def paths(self) -> Mapping[str, tuple[str, ...]]:
        """The steps of each input of all stages, and those of each member of a union."""
        inputs = {name: path for stage in self.stages for name, path in stage.paths.items()}
        return inputs | {
            name: (*path, *self.behind_unions[union])
            for union, members in self.unions.items()
            for name, path in members.items()
        }

    def taker_of(self, stream: str) -> str:
        """Return the union that a stream is a member of, or the stream itself."""
        return next((union for union, members in self.unions.items() if stream in members), stream)

    def members_of(self, name: str) -> tuple[str, ...]:
        """Return the streams whose rows an input has: the members of a union, or the one stream."""
        return tuple(self.unions.get(name, (name,)))

    @property
    def join(self) -> str | None:
        """The join that makes the results; `None` if no join does."""
        return self.stages[-1].join

    @property
    def ends(self) -> tuple[str, ...]:
        """The end of each stage with a join, in order."""
        return tuple(stage.end for stage in self.stages if stage.end is not None)

    @property
    def last(self) -> str:
        """The last step, or the stream of a pipeline without steps."""
        return [self.results, *self.aggregates][-1]

    @property
    def aggregates(self) -> tuple[str, ...]:
        """The aggregates, those of results first."""
        return (*self.groups, *self.rollups)

    def path_to(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return the input whose rows a stream or step in front of the join has, and the steps up to it.

        The input is a stream or a union. Rows of a union have gone through the row steps directly behind it.

        Raises:
            KeyError: the step is no such step.
        """
        for union, behind in self.behind_unions.items():
            if name in behind:
                return union, ()
        for stream, path in self._before_joins.items():
            names = (stream, *path)
            if name in names:
                return stream, names[1 : names.index(name) + 1]
        raise KeyError(name)

    def stands_before_joins(self, name: str) -> bool:
        """Return whether the rows of a stream or step have gone through no join."""
        return any(name in (stream, *path) for stream, path in self._before_joins.items())

    @property
    def _before_joins(self) -> dict[str, tuple[str, ...]]:
        joins = {stage.join for stage in self.stages}
        return {stream: path for stream, path in self.paths.items() if stream not in joins}


def flow_of(streams: Collection[str], steps: Mapping[str, Step]) -> Flow:
    """Return the flow of a pipeline.

    Raises:
        ValueError: a step has an unknown input or waits for itself, some rows go nowhere or to two steps, or
            the steps stand in an order that no job can run. The error names the step.
    """
    _require_known(streams, steps)
    _require_one_taker(steps)
    results = _results(streams, steps)
    groups, rollups = _aggregates(steps, results)
    stages = _stages(streams, steps, results)
    if len(stages) > _STAGES:
        raise ValueError(
            f"steps.{results}: its rows have gone through {len(stages) - 1} joins before, and a pipeline has "
            f"{_STAGES} stages; end it with {stages[_STAGES - 1].join}, publish its rows, and read them in a "
            "pipeline of their own"
        )
    unions, behind = dict[str, dict[str, tuple[str, ...]]](), dict[str, tuple[str, ...]]()
    for name, step in steps.items():
        if isinstance(step, UnionStep):
            behind[name] = _directly_behind(steps, name)
            unions[name] = _members(streams, steps, name, step)
    return Flow(stages, groups, rollups, results, unions, behind)


def _aggregates(steps: Mapping[str, Step], results: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the aggregates of the results, and those of final groups."""
    sources = {name: step.source for name, step in steps.items() if isinstance(step, AggregateStep)}
    groups = tuple(name for name, source in sources.items() if source == results)
    rollups = tuple(name for name, source in sources.items() if source in groups)
    for name, source in sources.items():
        if source in rollups:
            raise ValueError(
                f"steps.{name}: it is the third aggregate in a row, and a pipeline has two; end it with "
                f"{source}, and group the rows of its table"
            )
    return groups, rollups


def _stages(streams: Collection[str], steps: Mapping[str, Step], results: str) -> tuple[StageSteps, ...]:
    """Return the steps of the stages that make the rows of a stream or step."""
    join, behind = _join_of(steps, results)
    top = steps.get(join)
    paths, earlier = {}, dict[str, str]()
    for given in top.inputs if isinstance(top, JoinStep) else (results,):
        name, path = _path(streams, steps, given)
        if isinstance(steps.get(name), JoinStep | UnionStep):
            direct = list(takewhile(lambda each: isinstance(steps[each], RowStep), path))
            path = path[len(direct) :]
            if isinstance(steps[name], JoinStep):
                earlier[name] = direct[-1] if direct else name
        paths[name] = path
    if len(earlier) > 1:
        raise ValueError(
            f"steps.{join}.join: {' and '.join(earlier)} are joins, and one input at most has the rows of "
            f"a join, since stages form a line; join their streams one after the other"
        )
    before = _stages(streams, steps, *earlier.values()) if earlier else ()
    return (
        *before,
        StageSteps(paths, join, behind) if isinstance(top, JoinStep) else StageSteps(paths, None),
    )


def _join_of(steps: Mapping[str, Step], name: str) -> tuple[str, tuple[str, ...]]:
    """Return the join of which a step has the rows, and the row steps between them up to this step.

    If there is none, it is the step itself.
    """
    behind, at = list[str](), name
    while isinstance(step := steps.get(at), RowStep):
        behind.append(at)
        at = step.source
    return (at, tuple(reversed(behind))) if isinstance(step, JoinStep) else (name, ())


def _directly_behind(steps: Mapping[str, Step], union: str) -> tuple[str, ...]:
    """Return the row steps that take the rows of a union, up to the first step of another kind."""
    takers = {step.source: name for name, step in steps.items() if isinstance(step, RowStep)}
    behind, at = list[str](), union
    while at in takers:
        at = takers[at]
        behind.append(at)
    return tuple(behind)


def _members(
    streams: Collection[str], steps: Mapping[str, Step], union: str, step: UnionStep
) -> dict[str, tuple[str, ...]]:
    """Return the streams that a union makes one of, in order, with the row steps of each."""
    found = {}
    for given in step.inputs:
        name, path = _path(streams, steps, given)
        other = next(
            (each for each in (name, *path) if not isinstance(steps.get(each), RowStep | None)), None
        )
        if other is not None:
            raise ValueError(
                f"steps.{union}.union: {given} has the rows of the {steps[other].kind} {other}, and a union "
                "takes rows of streams and of row steps; "
                + (
                    f"name the members of {other} here"
                    if isinstance(steps[other], UnionStep)
                    else f"let {union} stand before {other}"
                )
            )
        found[name] = path
    return found


def _require_known(streams: Collection[str], steps: Mapping[str, Step]) -> None:
    for name, step in steps.items():
        if name in streams:
            raise ValueError(f"steps.{name}: a stream has this name, too; rename one of them")
        field = step.kind if isinstance(step, JoinStep | UnionStep) else "from"
        for given in step.inputs:
            if given not in streams and given not in steps:
                there = ", ".join([*streams, *(other for other in steps if other != name)])
                raise ValueError(f"steps.{name}.{field}: {given!r} is not one of streams or steps: {there}")
    done: set[str] = set(streams)
    waiting = dict(steps)
    while ready := [name for name, step in waiting.items() if done.issuperset(step.inputs)]:
        done.update(ready)
        for name in ready:
            del waiting[name]
    if waiting:
        first = next(iter(waiting))
        circle = ", ".join(waiting)
        raise ValueError(f"steps.{first}: these steps take each other's rows: {circle}; begin with a stream")


def _require_one_taker(steps: Mapping[str, Step]) -> None:
    """Refuse rows that go to two steps, unless all of these are aggregates."""
    takers: dict[str, str] = {}
    for name, step in steps.items():
        for given in step.inputs:
            other = takers.setdefault(given, name)
            alike = isinstance(step, AggregateStep) and isinstance(steps[other], AggregateStep)
            if other != name and not alike:
                raise ValueError(
                    f"steps.{name}: {given!r} goes to step {other} already, and a stream or step feeds one "
                    "step, or several aggregates; let this step take the rows of that one"
                )


def _results(streams: Collection[str], steps: Mapping[str, Step]) -> str:
    """Return the step whose rows no step but aggregates takes, or the stream."""
    rows = [*streams, *(name for name, step in steps.items() if not isinstance(step, AggregateStep))]
    takers = [step for step in steps.values() if not isinstance(step, AggregateStep)]
    taken = [given for step in takers for given in step.inputs]
    if groups := next((each for each in taken if each not in rows), None):
        raise ValueError(
            f"steps.{groups}: the rows of this aggregate go to a step that is no aggregate; group them once "
            "more, or let the pipeline end here and read its table"
        )
    ends = [name for name in rows if name not in taken]
    if len(ends) > 1:
        first = ends[0]
        where = "streams" if first in streams else "steps"
        raise ValueError(
            f"{where}.{first}: its rows go to no step, while others end in {', '.join(ends[1:])}; join them, "
            "leave one out, or write a pipeline for each"
        )
    return ends[0]


def _path(streams: Collection[str], steps: Mapping[str, Step], name: str) -> tuple[str, tuple[str, ...]]:
    """Return the input of a stage from which the rows of `name` come, and the steps between them.

    The input is a stream, a union or a join, and the steps are row steps and lookups.
    """
    path: list[str] = []
    while name not in streams:
        step = steps[name]
        if isinstance(step, JoinStep | UnionStep):
            break
        path.append(name)
        name = step.source
    return name, tuple(reversed(path))

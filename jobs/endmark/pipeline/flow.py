"""The flow of rows through the steps of a pipeline: from streams, through a join, to groups.

Steps form a tree. Each stream and each step feeds one step, and all rows come together in the last one. So
nothing is computed twice, and the plan of a job has no branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.pipeline.steps import AggregateStep, JoinStep, LookupStep, RowStep

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from endmark.pipeline.steps import Step


@dataclass(frozen=True)
class Flow:
    """The order of a pipeline's steps.

    Args:
        paths: the steps of each stream by the stream's name, in order: its row steps, then its lookups.
            Streams are in the order of the join's inputs.
        join: the join; `None` for a stream alone.
        aggregate: the aggregate; `None` without one.
        results: the stream or step whose rows are the results: the join, or the end of a stream alone.
    """

    paths: Mapping[str, tuple[str, ...]]
    join: str | None
    aggregate: str | None
    results: str

    @property
    def last(self) -> str:
        """The last step, or the stream of a pipeline without steps."""
        return self.aggregate or self.results

    def way_to(self, name: str) -> tuple[str, tuple[str, ...]]:
        """Return the stream whose rows a stream or step in front of the join has, and the steps up to it.

        Raises:
            KeyError: the step is no such step.
        """
        for stream, path in self.paths.items():
            way = (stream, *path)
            if name in way:
                return stream, way[1 : way.index(name) + 1]
        raise KeyError(name)


def flow_of(streams: Collection[str], steps: Mapping[str, Step]) -> Flow:
    """Return the flow of a pipeline.

    Raises:
        ValueError: a step has an unknown input or waits for itself, some rows go nowhere or to two steps, or
            the steps stand in an order that no job can run. The error names the step.
    """
    _require_known(streams, steps)
    takers = _takers(steps)
    last = _last(streams, steps, takers)
    aggregate = last if isinstance(steps.get(last), AggregateStep) else None
    results = steps[last].inputs[0] if aggregate is not None else last
    top = steps.get(results)
    join = results if isinstance(top, JoinStep) else None
    paths = {}
    for name in top.inputs if isinstance(top, JoinStep) else (results,):
        stream, path = _path(streams, steps, name)
        paths[stream] = path
    return Flow(paths, join, aggregate, results)


def _require_known(streams: Collection[str], steps: Mapping[str, Step]) -> None:
    for name, step in steps.items():
        if name in streams:
            raise ValueError(f"steps.{name}: a stream has this name, too; rename one of them")
        field = "join" if isinstance(step, JoinStep) else "from"
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


def _takers(steps: Mapping[str, Step]) -> dict[str, str]:
    """Return the step that takes the rows of each stream and step."""
    takers: dict[str, str] = {}
    for name, step in steps.items():
        for given in step.inputs:
            if given in takers:
                raise ValueError(
                    f"steps.{name}: {given!r} goes to step {takers[given]} already, and a stream or step "
                    "feeds one step; let this step take the rows of that one"
                )
            takers[given] = name
    return takers


def _last(streams: Collection[str], steps: Mapping[str, Step], takers: Mapping[str, str]) -> str:
    """Return the step whose rows no step takes, or the one stream of a pipeline without steps."""
    ends = [name for name in [*streams, *steps] if name not in takers]
    if len(ends) > 1:
        first = ends[0]
        where = "streams" if first in streams else "steps"
        raise ValueError(
            f"{where}.{first}: its rows go to no step, while others end in {', '.join(ends[1:])}; join them, "
            "leave one out, or write a pipeline for each"
        )
    return ends[0]


def _path(streams: Collection[str], steps: Mapping[str, Step], name: str) -> tuple[str, tuple[str, ...]]:
    """Return the stream of a join's input, and the row steps and lookups between them."""
    path: list[str] = []
    while name not in streams:
        step = steps[name]
        behind = steps[path[-1]] if path else None
        if isinstance(behind, RowStep) and not isinstance(step, RowStep):
            raise ValueError(
                f"steps.{path[-1]}.from: {name} is no row step; row steps stand before lookups and joins, so "
                "let this step take the rows of a stream"
            )
        if not isinstance(step, RowStep | LookupStep):
            kind = "join" if isinstance(step, JoinStep) else "aggregate"
            raise ValueError(
                f"steps.{name}: the rows of this {kind} go to another step than an aggregate; let the "
                "pipeline end here, publish its rows, and read them in a pipeline of their own"
            )
        path.append(name)
        name = step.source
    return name, tuple(reversed(path))

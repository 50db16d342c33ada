"""Checks that a table or a topic can have the rows of a stream or step.

A table of a stream or step in front of the results gets its rows where they come to the join, behind all
steps of their stream. So its columns must still be there, and no later lookup may drop rows or make several
of one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from endmark.pipeline.fields import require_name
from endmark.pipeline.steps.lookup import LookupStep
from endmark.pipeline.steps.rows import RowStep

if TYPE_CHECKING:
    from endmark.pipeline.model import Pipeline


def require_written(pipeline: Pipeline, source: str, field: str) -> None:
    """Refuse a table or topic of rows that do not come to the join as they are.

    Args:
        pipeline: the pipeline.
        source: the stream or step whose rows are written.
        field: the field of the table or topic, for the error.

    Raises:
        ValueError: there is no such stream or step, it is a lookup of a join's rows, a later row step
            loses one of its columns, or a later lookup loses or repeats its rows.
    """
    flow = pipeline.flow
    require_name({**pipeline.steps, **pipeline.streams}, source, field, "steps or streams")
    if source == flow.results or source in flow.ends:
        return
    for union, members in flow.unions.items():
        behind = flow.behind_unions[union]
        if source in (union, *behind)[:-1]:
            raise ValueError(
                f"{field}: row steps behind {source} change its rows before they come to their table; "
                f"name {behind[-1]} here"
            )
        if any(source in (stream, *path) for stream, path in members.items()):
            raise ValueError(
                f"{field}: rows of {source} go on as rows of the union {union}; name {union} here, and "
                "derive a column before it by which rows can be told apart"
            )
    paths = _paths(pipeline)
    if source not in paths:
        for stage in flow.stages:
            if source in (stage.join, *stage.behind):
                raise ValueError(
                    f"{field}: row steps behind {source} change its results before they come to their table; "
                    f"name {stage.end} here"
                )
        raise ValueError(
            f"{field}: rows of {source} are neither those of a stream, a row step, a lookup or a join nor "
            f"the results; name one of {', '.join(dict.fromkeys([*paths, *flow.ends, flow.results]))}"
        )
    stream, *path = paths[source]
    own = pipeline.flow.path_to(source)[1]
    later = path[len(own) :]
    _require_columns(pipeline, stream, source, later, field)
    if any(isinstance(pipeline.steps[name], LookupStep) for name in own):
        _require_rows(pipeline, source, later, field)


def _paths(pipeline: Pipeline) -> dict[str, list[str]]:
    """Return each stream or step whose rows come to a join, with its input and all steps of this input.

    The rows of a union have gone through the row steps directly behind it. The last of these stands for it.
    """
    flow, found = pipeline.flow, dict[str, list[str]]()
    for stream, path in flow.paths.items():
        if stream in pipeline.inputs and flow.taker_of(stream) == stream:
            *_, end = (stream, *flow.behind_unions.get(stream, ()))
            found |= {name: [stream, *path] for name in (end, *path)}
    return found


def _require_columns(pipeline: Pipeline, stream: str, source: str, later: list[str], field: str) -> None:
    """Refuse a step of which a later row step loses a column."""
    steps = {step.name: step for step in pipeline.row_steps_of(stream)}
    for name in later:
        if name not in steps:
            continue
        for column in pipeline.row_columns(source):
            if column not in steps[name].columns:
                raise ValueError(
                    f"{field}: step {name} loses column {column!r} of {source} before rows come to their "
                    f"table; keep it in steps.{name}, or name {name} here"
                )


def _require_rows(pipeline: Pipeline, source: str, later: list[str], field: str) -> None:
    """Refuse a lookup whose rows a later lookup loses or repeats."""
    for name in later:
        step = pipeline.steps[name]
        if isinstance(step, RowStep) and (step.where or step.derive):
            raise ValueError(
                f"{field}: row step {name} may leave out rows of {source} before they come to their table; "
                f"name {name} here"
            )
        if isinstance(step, LookupStep) and (step.lookup.fate != "nulls" or not step.lookup.unique):
            raise ValueError(
                f"{field}: lookup {name} may lose or repeat rows of {source} before they come to their "
                f"table; name {name} here, or let steps.{name}.lookup have miss: nulls and at most one match"
            )

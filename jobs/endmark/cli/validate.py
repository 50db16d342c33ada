"""The command that checks a pipeline file without running it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from endmark.cli.options import AsJson, Assignments, Output, PipelineOrExample
from endmark.errors import ConfigError
from endmark.pipeline.boundedness import states
from endmark.pipeline.file import load, located
from endmark.pipeline.picture import drawn
from endmark.pipelines import AUCTION

if TYPE_CHECKING:
    from endmark.pipeline import Pipeline


def validate(
    pipeline: PipelineOrExample = AUCTION,
    assignments: Assignments = None,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="Draw it as a Mermaid diagram.")] = False,
    as_json: AsJson = False,
) -> None:
    """Check a pipeline file without running it, and say what bounds its state."""
    spec = load(pipeline, assignments=assignments or (), asks_relations=False)
    try:
        _check_conditions(spec)
    except ConfigError as error:
        raise located(pipeline, error) from None
    kept = states(spec)
    if as_json:
        facts = {"valid": True, "pipeline": spec.name, "state": [s.facts for s in kept]}
        Output(as_json).emit(facts | ({"mermaid": drawn(spec)} if mermaid else {}))
    elif mermaid:
        typer.echo(drawn(spec))
    else:
        typer.echo(f"{pipeline}: pipeline {spec.name} is valid")
        for state in kept:
            typer.echo(str(state))


def _check_conditions(spec: Pipeline) -> None:
    """Check the conditions of a pipeline, or say that a package for that is missing."""
    has_where = spec.join is not None and spec.join.where is not None
    if not has_where and all(stream.closes is None for stream in spec.streams.values()):
        return
    try:
        from endmark.engine.streams import check_conditions

        check_conditions(spec)
    except ImportError as error:
        typer.echo(
            f"endmark: conditions are not checked, since the package {error.name} is missing; "
            "pip install 'endmark[spark]'",
            err=True,
        )

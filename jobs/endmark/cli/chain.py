"""The command that prints the stream by which another pipeline reads what this one publishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import TypeAdapter, ValidationError

from endmark.cli.options import AsJson, Assignments, Output, PipelineOrExample
from endmark.errors import ConfigError
from endmark.pipeline.chain import chained
from endmark.pipeline.fields import Duration
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION

if TYPE_CHECKING:
    from datetime import timedelta


def chain(
    pipeline: PipelineOrExample = AUCTION,
    step: Annotated[str | None, typer.Argument(help="Published step; needed if there are several.")] = None,
    spread: Annotated[
        str,
        typer.Option(help="Event time by which a stream may move on in one batch, over all partitions."),
    ] = "1h",
    assignments: Assignments = None,
    as_json: AsJson = False,
) -> None:
    """Print the entry under `streams` by which another pipeline reads what this one publishes."""
    found = chained(load(pipeline, assignments=assignments or (), asks_relations=False), step, _span(spread))
    if as_json:
        Output(as_json).emit(found.entry)
    else:
        typer.echo("\n".join(found.lines()))


def _span(text: str) -> timedelta:
    try:
        return TypeAdapter(Duration).validate_python(text)
    except ValidationError as error:
        raise ConfigError(f"--spread: {error.errors()[0]['msg']}") from None

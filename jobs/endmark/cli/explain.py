"""The command that says what a pipeline file does."""

from __future__ import annotations

import typer

from endmark.cli.options import AsJson, Assignments, Output, PipelineOrExample
from endmark.pipeline.explanation import explained
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION


def explain(
    pipeline: PipelineOrExample = AUCTION, assignments: Assignments = None, as_json: AsJson = False
) -> None:
    """Say what runs where, what is in state and what bounds it, and when rows of tables are final."""
    found = explained(load(pipeline, assignments=assignments or (), asks_relations=False))
    if as_json:
        Output(as_json).emit(found.facts)
    else:
        typer.echo("\n".join(found.lines()))

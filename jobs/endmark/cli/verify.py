"""The command that recomputes the tables of a pipeline and compares them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from endmark.cli.options import (
    OPS_URL,
    AsJson,
    Assignments,
    Bootstrap,
    Checkpoint,
    OpsUrl,
    PipelineOrExample,
    Warehouse,
    checkpoint_of,
    kafka_of,
    warehouse_of,
)
from endmark.errors import EXIT_FAILED
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION


def verify(
    pipeline: PipelineOrExample = AUCTION,
    bootstrap: Bootstrap = None,
    warehouse: Warehouse = None,
    checkpoint: Checkpoint = None,
    until_read: Annotated[
        bool, typer.Option(help="Leave out records that the stopped job has not read, by its ops database.")
    ] = False,
    ops_url: OpsUrl = OPS_URL,
    assignments: Assignments = None,
    as_json: AsJson = False,
) -> None:
    """Recompute everything from Kafka and the relation and compare it with Delta tables and published topics.

    The job must be stopped or idle, and Kafka must hold all records that it has read. Its checkpoint has the
    first offsets, those with columns that were added later, and the first batches of published topics.
    """
    from endmark.control.ops_database.database import offsets_read
    from endmark.driver.checkpoint import first_offsets, gaps, start_offsets
    from endmark.driver.published_topics import known_topics
    from endmark.verify.read.added_columns import AddedColumns
    from endmark.verify.report import render
    from endmark.verify.verification import verify as recompute

    spec = load(pipeline, assignments=assignments or ())
    until = offsets_read(ops_url, spec.name) if until_read else None
    kafka = kafka_of(spec.kafka, bootstrap)
    of = checkpoint_of(spec.name, checkpoint)
    added = AddedColumns(first_offsets(of))
    tables = warehouse_of(spec.name, warehouse)
    since = {topic: known.since for topic, known in known_topics(of).items()}
    report = recompute(spec, kafka, tables, until, added, start_offsets(of), gaps(of), since)
    if as_json:
        typer.echo(report.to_json())
    else:
        Console().print(render(report))
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)

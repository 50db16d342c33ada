"""`endmark maintain`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from endmark.cli.options import AsJson, PipelineFile, Warehouse
from endmark.pipeline.file import load
from endmark.private import keep_private


def maintain(
    pipeline: PipelineFile,
    warehouse: Warehouse,
    keep_days: Annotated[
        int,
        typer.Option(min=1, help="Older versions can be read for so long; longer than a batch takes."),
    ] = 7,
    dry_run: Annotated[bool, typer.Option(help="Only say what there is to do.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put small files of the Delta tables together, remove unused files and old log entries.

    The job may run meanwhile. Again, it does what is new to do.
    """
    from endmark.maintenance import maintain as do

    keep_private()
    for done in do(load(pipeline), warehouse, timedelta(days=keep_days), dry_run=dry_run):
        if as_json:
            typer.echo(json.dumps(asdict(done) | {"dry_run": dry_run}))
            continue
        typer.echo(
            f"{done.table}: {done.put_together} of {done.small_files} small files put together, "
            f"{done.removed_files} unused files and {done.removed_log_entries} log entries "
            f"{'to remove' if dry_run else 'removed'}"
        )

"""`endmark maintain` cleans up the Delta tables of a pipeline."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from endmark.cli.options import AsJson, PipelineFile, Warehouse, warehouse_of
from endmark.pipeline.file import load
from endmark.private import keep_private


def maintain(
    pipeline: PipelineFile,
    warehouse: Warehouse = None,
    keep_days: Annotated[
        int,
        typer.Option(
            min=1, max=36_500, help="Days for which older versions stay readable; a batch must take less."
        ),
    ] = 7,
    dry_run: Annotated[bool, typer.Option(help="Only say what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Merge small files of the Delta tables, and remove unused files and old log entries.

    The job may run meanwhile. The command may be repeated at any time.
    """
    from endmark.maintenance import maintain as do

    keep_private()
    spec = load(pipeline, asks_relations=False)
    tables, failed = warehouse_of(spec.name, warehouse), False
    for done in do(spec, tables, timedelta(days=keep_days), dry_run=dry_run):
        failed |= done.error is not None
        if as_json:
            typer.echo(json.dumps(asdict(done) | {"dry_run": dry_run}))
            continue
        if done.error is not None:
            typer.echo(f"{done.table}: not maintained: {done.error}", err=True)
            continue
        typer.echo(
            f"{done.table}: {done.put_together} of {done.small_files} small files put together, "
            f"{done.removed_files} unused files and {done.removed_log_entries} log entries "
            f"{'to remove' if dry_run else 'removed'}"
        )
    if failed:
        raise typer.Exit(1)

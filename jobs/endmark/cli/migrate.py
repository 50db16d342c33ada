"""`endmark migrate` begins a new checkpoint for a file that the old one cannot go on with."""

from __future__ import annotations

import shlex
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from endmark.cli.options import (
    OPS_URL,
    AsJson,
    Assignments,
    Bootstrap,
    Checkpoint,
    OpsUrl,
    Output,
    PipelineFile,
    Warehouse,
    checkpoint_of,
    kafka_of,
    warehouse_of,
)
from endmark.pipeline.file import load
from endmark.private import keep_private


def migrate(
    pipeline: PipelineFile,
    bootstrap: Bootstrap = None,
    warehouse: Warehouse = None,
    checkpoint: Checkpoint = None,
    ops_url: OpsUrl = OPS_URL,
    buckets: Annotated[
        int | None,
        typer.Option(min=1, help="Hash shares of state, as in `run`.", show_default="as before"),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without this, only say what it costs.")] = False,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="Do it even if Kafka lacks records that were read.")
    ] = False,
    assignments: Assignments = None,
    as_json: AsJson = False,
) -> None:
    """Begin a new checkpoint, for a change of the file that the old one cannot take.

    The command says what differs, how many records are read again, and which tables are written anew. With
    --yes it puts the old checkpoint and its tables aside, so the job must be stopped. The next start of the
    job reads Kafka from its first records.
    """
    from endmark.control.ops_database.database import opened
    from endmark.driver.checkpoint import app_id_of, claimed
    from endmark.driver.migration import held, made_with, plan
    from endmark.engine.streams import check_conditions

    keep_private()
    spec, output = load(pipeline, assignments=assignments or ()), Output(as_json)
    check_conditions(spec)
    old = checkpoint_of(spec.name, checkpoint)
    made_with(old)  # before a lock would make a directory
    ranges = held(spec, kafka_of(spec.kafka, bootstrap))
    with opened(ops_url) as ops:
        if yes and not isinstance(old, Path):  # an object store has no lock
            ops.runs.require_stopped(spec.name)
        batch = ops.batches.latest(spec.name)
    kept = {} if batch is None else batch.samples
    rows = int(sum(value for name, value in kept.items() if name.startswith("state_rows{")))
    known = None if yes else app_id_of(old)
    with claimed(old) if known is None else nullcontext(known) as app_id:
        found = plan(spec, old, app_id, warehouse_of(spec.name, warehouse), ranges, buckets)
        if not as_json:
            state = [f"state is built anew; it had {rows:,} rows"]
            typer.echo("\n".join([*found.lines(), *(state if batch is not None else [])]))
        if yes:
            if not accept_loss:
                found.require_whole()
            found.put_aside()
    if as_json:
        output.emit({**found.facts, "state_rows": None if batch is None else rows, "done": yes})
    elif yes:
        more = f" --buckets {buckets}" if buckets else ""
        typer.echo(f"done; start the job: endmark run {shlex.quote(str(pipeline))}{more}")
    else:
        typer.echo("nothing is changed yet; add --yes to do it")

"""`endmark knobs`: what is turned, by whom, and turning it."""

from __future__ import annotations

import getpass
import json
import time
from contextlib import closing
from typing import Annotated, Any

import typer

from endmark.commands.options import AsJson, Bootstrap, OpsUrl, PipelineFile
from endmark.formats.control import Turn
from endmark.ops.knobs import filed, steps_of, turned
from endmark.pipeline.file import load

app = typer.Typer(help="Settings of a running job.", no_args_is_help=True)


@app.command("list")
def list_knobs(
    pipeline: PipelineFile,
    ops_url: OpsUrl,
    as_json: AsJson = False,
) -> None:
    """Show the value of every knob, and who turned what when; durations are in seconds."""
    from endmark.ops.database import OpsDatabase

    spec = load(pipeline)
    with closing(OpsDatabase(ops_url)) as ops:
        turns = ops.turns(spec.name)
    values = filed(steps_of(spec))
    values |= {turn["name"]: turn["value"] for turn in turns if turn["refused"] is None}
    if as_json:
        typer.echo(json.dumps({"knobs": values, "turns": turns}))
        return
    for name, value in values.items():
        typer.echo(f"{name}: {json.dumps(value)}")
    for turn in turns:
        typer.echo(_said(turn))


def _said(turn: dict[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(turn["set_at"]))
    before, value = json.dumps(turn["before"]), json.dumps(turn["value"])
    said = f"{when} {turn['by']} turned {turn['name']} from {before} to {value} in batch {turn['batch_id']}"
    return said if turn["refused"] is None else f"{said}, refused: {turn['refused']}"


@app.command("set")
def set_knob(
    pipeline: PipelineFile,
    name: Annotated[str, typer.Argument(help="Such as lookup.strategy; a wrong name lists them.")],
    value: Annotated[str, typer.Argument(help="As in the pipeline file.")],
    bootstrap: Bootstrap,
    by: Annotated[str, typer.Option(help="Who turns it.", show_default="you")] = "",
    as_json: AsJson = False,
) -> None:
    """Turn a knob: it holds from the batch after the one that reads this, also after a restart."""
    from endmark.ops.pulse import send

    spec = load(pipeline)
    turn = Turn(name, _read(value), by or getpass.getuser())
    turned(steps_of(spec), turn.name, turn.value)
    offset = send(bootstrap, spec.control_topic, turn.written())
    said = {"topic": spec.control_topic, "offset": offset, "name": name, "value": turn.value, "by": turn.by}
    typer.echo(json.dumps(said) if as_json else f"{name} is {value} once the job has read it")


def _read(value: str) -> Any:
    """Numbers, booleans and null as YAML has them, anything else is text."""
    try:
        return json.loads(value)
    except ValueError:
        return value

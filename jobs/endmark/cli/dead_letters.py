"""`endmark dead-letters` lists, shows and replays records that could not be read or had no match."""

from __future__ import annotations

import base64
import getpass
import json
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from endmark.cli.options import (
    BROKER,
    OPS_URL,
    AsJson,
    Bootstrap,
    OpsUrl,
    PipelineFile,
    Warehouse,
    warehouse_of,
)
from endmark.control.dead_letters import Coordinates, DeadLetter, Search, dead_letter, dead_letters
from endmark.errors import ConfigError
from endmark.pipeline.file import load

app = typer.Typer(help="Records that could not be read, or had no match.", no_args_is_help=True)

At = Annotated[str, typer.Argument(help="Coordinates topic/partition/offset, as `list` prints them.")]
_SHOWN_LETTERS = 100


@app.command("list")
def list_letters(
    pipeline: PipelineFile,
    warehouse: Warehouse = None,
    topic: Annotated[str | None, typer.Option(help="Show only this topic.")] = None,
    reason: Annotated[str | None, typer.Option(help="Show only this reason.")] = None,
    text: Annotated[str | None, typer.Option(help="Show only letters with this in value or error.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most dead letters to show.")] = 20,
    after: Annotated[str | None, typer.Option(help="Show those that follow these coordinates.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show dead letters, greater offsets first."""
    table = _table(pipeline, warehouse)
    place = None if after is None else Coordinates.parse(after)
    for letter in dead_letters(table, Search(topic, reason, text), limit, place):
        if as_json:
            typer.echo(json.dumps(_facts(letter)))
        else:
            typer.echo(f"{letter.at}  {letter.reason}  {_written(letter)[:_SHOWN_LETTERS]}")


@app.command()
def show(pipeline: PipelineFile, at: At, warehouse: Warehouse = None, as_json: AsJson = False) -> None:
    """Show all of one dead letter."""
    letter = dead_letter(_table(pipeline, warehouse), Coordinates.parse(at))
    if as_json:
        typer.echo(json.dumps(_facts(letter)))
    else:
        typer.echo(f"{letter.at}\n{letter.reason}: {letter.error}\n{_written(letter)}")


@app.command()
def replay(
    pipeline: PipelineFile,
    at: At,
    bootstrap: Bootstrap = BROKER,
    warehouse: Warehouse = None,
    ops_url: OpsUrl = OPS_URL,
    value: Annotated[str | None, typer.Option(help="Text to send in place of the letter's value.")] = None,
    by: Annotated[str, typer.Option(help="Who replays it.", show_default="you")] = "",
    as_json: AsJson = False,
) -> None:
    """Send a dead letter to its partition once more, as it is or with another value."""
    from endmark.control.database import OpsDatabase
    from endmark.control.replays import replay as send_again

    spec = load(pipeline)
    letter = dead_letter(_table(pipeline, warehouse), Coordinates.parse(at))
    if letter.at.topic == spec.control_topic:
        raise ConfigError(f"{at} is a control record; turn the knob: endmark knobs set")
    sent = letter.value if value is None else value.encode()
    with closing(OpsDatabase(ops_url)) as ops:
        done = send_again(ops, bootstrap, spec.name, letter, sent, by or getpass.getuser())
    to = Coordinates(letter.at.topic, letter.at.partition, done.to_offset or 0)
    if as_json:
        typer.echo(json.dumps({"replayed": str(letter.at), "to": str(to), "by": done.by}))
    else:
        typer.echo(f"{letter.at} is {to} now")


def _table(pipeline: Path, warehouse: Path | None) -> Path:
    """Return the directory of the table of dead letters."""
    given = warehouse or warehouse_of(load(pipeline).name, None)
    return given / "dead_letters"


def _facts(letter: DeadLetter) -> dict[str, Any]:
    value = None if letter.value is None else base64.b64encode(letter.value).decode()
    said = {"at": str(letter.at), "reason": letter.reason, "error": letter.error}
    return {**said, "text": letter.text, "base64": value}


def _written(letter: DeadLetter) -> str:
    """Return the value on one line, as text if it is printable."""
    if letter.value is None:
        return "no value"
    text = letter.text
    return repr(letter.value) if text is None or not text.isprintable() else text

"""`endmark knobs` lists the knobs of a pipeline and their turns, and turns a knob."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endmark.cli.callers import caller
from endmark.cli.options import OPS_URL, AsJson, Bootstrap, OpsUrl, PipelineFile, kafka_of
from endmark.control.tuning.changes import rule_of
from endmark.control.tuning.knobs import about_knob, filed, steps_of, turned
from endmark.pipeline.change_rules import Change, ChangeRule, Knob
from endmark.pipeline.file import load
from endmark.wire.control import Turn

if TYPE_CHECKING:
    from collections.abc import Iterator

app = typer.Typer(help="Settings of a running job.", no_args_is_help=True)


@app.command("list")
def list_knobs(
    pipeline: PipelineFile,
    ops_url: OpsUrl = OPS_URL,
    as_json: AsJson = False,
) -> None:
    """Show each knob with its value, and each turn with its time and author; durations are in seconds."""
    from endmark.control.ops_database.database import opened

    spec = load(pipeline, asks_relations=False)
    with opened(ops_url) as ops:
        turns = ops.turns.of(spec.name)
    steps = steps_of(spec)
    values = filed(steps)
    values |= {
        turn["name"]: turn["value"] for turn in turns if turn["refused"] is None and turn["name"] in values
    }
    if as_json:
        about = {name: about_knob(steps, name) for name in values}
        typer.echo(json.dumps({"knobs": values, "about": about, "turns": turns}))
        return
    for name, value in values.items():
        about = about_knob(steps, name)
        typer.echo(f"{name}: {json.dumps(value)}")
        typer.echo(f"    {about['effect']}")
        usual = json.dumps(about["default"])
        typer.echo(f"    {about['kind']}: {about['values']}; usually {usual}; {about['applies']}")
    for turn in turns:
        typer.echo(_turn_line(turn))


@app.command("fields")
def list_fields(pipeline: PipelineFile, as_json: AsJson = False) -> None:
    """Show for each field of the file whether a change needs nothing, a restart, or a new checkpoint."""
    spec = load(pipeline, asks_relations=False)
    there = filed(steps_of(spec))
    rules = {
        name: ChangeRule(change=Change.NEW_CHECKPOINT)
        if isinstance(rule, Knob) and name not in there
        else rule
        for path in _fields(spec.model_dump(mode="json"))
        for name, rule in [(".".join(path), rule_of(path))]
    }
    if as_json:
        typer.echo(json.dumps({name: str(rule.change) for name, rule in rules.items()}))
        return
    for name, rule in rules.items():
        typer.echo(f"{name}: {rule.change}{f' ({rule.remark})' if rule.remark else ''}")


def _fields(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of each field."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _fields(inner, (*path, name))
    else:
        yield path


def _turn_line(turn: dict[str, Any]) -> str:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(turn["set_at"]))
    before, value = json.dumps(turn["before"]), json.dumps(turn["value"])
    said = f"{when} {turn['by']} turned {turn['name']} from {before} to {value} in batch {turn['batch_id']}"
    said += "" if turn["why"] is None else f", since {turn['why']}"
    return said if turn["refused"] is None else f"{said}, refused: {turn['refused']}"


@app.command("set")
def set_knob(
    pipeline: PipelineFile,
    name: Annotated[
        str, typer.Argument(help="Knob, such as steps.known.lookup.strategy; a wrong name lists them.")
    ],
    value: Annotated[str, typer.Argument(help="New value, as in the pipeline file.")],
    bootstrap: Bootstrap = None,
    by: Annotated[str, typer.Option(help="Who turns it.", show_default="you")] = "",
    as_json: AsJson = False,
) -> None:
    """Turn a knob. The value holds from the batch after the one that reads it, also after a restart."""
    from endmark.kafka.sending import send

    spec = load(pipeline, asks_relations=False)
    turn = Turn(name, _read(value), caller(by))
    turned(steps_of(spec), turn.name, turn.value)
    offset = send(kafka_of(spec.kafka, bootstrap), spec.control_topic, turn.written())
    said = {"topic": spec.control_topic, "offset": offset, "name": name, "value": turn.value, "by": turn.by}
    typer.echo(json.dumps(said) if as_json else f"{name} is {value} once the job has read it")


def _read(value: str) -> Any:
    """Read a value as JSON if it is JSON, else as a text."""
    try:
        return json.loads(value)
    except ValueError:
        return value

"""`endmark dead-letters` lists, shows and replays records that could not be read or had no match."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from endmark.cli.callers import caller
from endmark.cli.options import (
    OPS_URL,
    AsJson,
    Bootstrap,
    OpsUrl,
    PipelineFile,
    Warehouse,
    kafka_of,
    warehouse_of,
)
from endmark.control.dead_letters.search import Coordinates, DeadLetter, Search, dead_letter, dead_letters
from endmark.errors import ConfigError
from endmark.pipeline.file import load
from endmark.storage import Location, delta_table, location

if TYPE_CHECKING:
    from endmark.control.dead_letters.replayed_letters import Chosen
    from endmark.control.ops_database.database import OpsDatabase
    from endmark.kafka.cluster import ClusterOrAddress
    from endmark.pipeline import Pipeline

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
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Most dead letters to show.")] = 20,
    after: Annotated[str | None, typer.Option(help="Show those that follow these coordinates.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show dead letters, greater offsets first."""
    table = _table(pipeline, warehouse)
    start = None if after is None else Coordinates.parse(after)
    for letter in dead_letters(table, Search(topic, reason, text), limit, start):
        if as_json:
            typer.echo(json.dumps(_facts(letter)))
        else:
            typer.echo(
                f"{letter.at}  {letter.reason}: {_short(letter.error)}\n    {_short(_written(letter))}"
            )


@app.command()
def show(
    pipeline: PipelineFile,
    at: At,
    warehouse: Warehouse = None,
    ops_url: OpsUrl = OPS_URL,
    as_json: AsJson = False,
) -> None:
    """Show all of one dead letter, and who replayed it."""
    from endmark.control.dead_letters.replays import replayed
    from endmark.control.ops_database.database import opened

    letter = dead_letter(_table(pipeline, warehouse), Coordinates.parse(at))
    with opened(ops_url) as ops:
        replay = replayed(ops, load(pipeline, asks_relations=False).name, [letter]).get(letter.at)
    if as_json:
        typer.echo(json.dumps(_facts(letter) | {"replayed": None if replay is None else asdict(replay)}))
        return
    typer.echo(f"{letter.at}\n{letter.reason}: {letter.error}\n{_written(letter)}")
    if replay is not None:
        when = f"{datetime.fromtimestamp(replay.at, UTC):%Y-%m-%d %H:%M:%S} UTC"
        to = "is being sent" if replay.to_offset is None else f"is {_sent_to(letter, replay.to_offset)} now"
        typer.echo(f"replayed by {replay.by} at {when}, {to}")


@app.command()
def replay(
    pipeline: PipelineFile,
    at: Annotated[str | None, typer.Argument(help="Coordinates topic/partition/offset of one.")] = None,
    bootstrap: Bootstrap = None,
    warehouse: Warehouse = None,
    ops_url: OpsUrl = OPS_URL,
    where: Annotated[
        str | None, typer.Option(help="SQL condition over the columns of the table, for all that meet it.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Send those of --where, instead of counting.")] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="Most dead letters of --where to send.")
    ] = 1_000,
    value: Annotated[str | None, typer.Option(help="Text to send in place of the letter's value.")] = None,
    value_file: Annotated[
        Path | None, typer.Option(help="File whose bytes to send in its place, such as a record of Avro.")
    ] = None,
    by: Annotated[str, typer.Option(help="Who replays it.", show_default="you")] = "",
    as_json: AsJson = False,
) -> None:
    """Send a dead letter, or all that meet a condition, to their partitions once more.

    No dead letter is sent twice. One alone may be sent with another value. A row comes behind newer ones
    then, so it is a violation if it is late by now or its key is closed.
    """
    from endmark.control.dead_letters.replayed_letters import choose, replay_all
    from endmark.control.ops_database.database import opened

    mended = (value is not None) + (value_file is not None)
    if (at is None) == (where is None) or mended > (where is None):
        raise ConfigError(
            "name the place of one dead letter (as it is, or with --value or --value-file), or give --where"
        )
    who = caller(by)
    spec, table = load(pipeline, asks_relations=False), _table(pipeline, warehouse)
    kafka = kafka_of(spec.kafka, bootstrap)
    with opened(ops_url) as ops:
        if where is None:
            letter = dead_letter(table, Coordinates.parse(str(at)))
            sent = _mended(spec, letter, value, value_file) if mended else letter.value
            told, text = _replay_one(ops, kafka, spec, letter, sent, who)
        else:
            found = choose(ops, spec.name, table, where, spec.control_topic, limit)
            count = replay_all(ops, kafka, spec.name, found.letters, who, spec.whole_topics) if yes else None
            told, text = _counts(found, count)
    typer.echo(json.dumps(told) if as_json else text)


def _mended(spec: Pipeline, letter: DeadLetter, text: str | None, file: Path | None) -> bytes:
    """Return the value to send in place of a dead letter's, given as a text or as a file."""
    if file is not None:
        try:
            return file.read_bytes()
        except OSError as error:
            raise ConfigError(f"--value-file {file} cannot be read: {error}; name another") from None
    if letter.at.topic in spec.binary_topics:
        # Such a text became a dead letter, and the first one could not be replayed any more.
        raise ConfigError(f"records of {letter.at.topic} are no text; give a --value-file")
    return str(text).encode()


def _replay_one(
    ops: OpsDatabase, kafka: ClusterOrAddress, spec: Pipeline, letter: DeadLetter, sent: bytes | None, by: str
) -> tuple[dict[str, Any], str]:
    """Replay one dead letter; say so for programs and for people."""
    from endmark.control.dead_letters.replays import replay as send_again

    if letter.at.topic == spec.control_topic:
        raise ConfigError(f"{letter.at} is a control record; turn the knob: endmark knobs set")
    done = send_again(ops, kafka, spec.name, letter, sent, by, spec.whole_topics)
    to = _sent_to(letter, done.to_offset or 0)
    return {"replayed": str(letter.at), "to": str(to), "by": done.by}, f"{letter.at} is {to} now"


def _sent_to(letter: DeadLetter, offset: int) -> Coordinates:
    """Return the coordinates of the record that a replay has sent."""
    return Coordinates(letter.at.topic, letter.at.partition, offset)


def _counts(found: Chosen, sent: int | None) -> tuple[dict[str, Any], str]:
    """Say for programs and for people what `--where` found; `sent` is `None` without `--yes`."""
    told = {
        "matching": found.matching,
        "to_send": len(found.letters),
        "sent": sent or 0,
        "replayed_before": found.replayed,
        "control_records": found.control,
        "left": found.left,
        "failed": found.failed,
    }
    parts = [f"{found.matching:,} dead letters meet the condition"]
    parts += [f"{found.replayed:,} have been replayed before"] if found.replayed else []
    parts += [f"{found.control:,} are control records: turn the knob again"] if found.control else []
    parts += [f"it failed on {found.failed:,}: {found.why}"] if found.failed else []
    parts += [f"{found.left:,} are beyond --limit"] if found.left else []
    doing = f"{len(found.letters):,} would be sent; add --yes" if sent is None else f"{sent:,} sent"
    return told, "; ".join([*parts, doing])


def _table(pipeline: Path, warehouse: str | None) -> Location:
    """Return the directory of the table of dead letters."""
    given = (
        location(warehouse) if warehouse else warehouse_of(load(pipeline, asks_relations=False).name, None)
    )
    if delta_table(given / "dead_letters") is None:
        raise ConfigError(f"warehouse {given} has no table dead_letters; name the one that the job writes")
    return given / "dead_letters"


def _facts(letter: DeadLetter) -> dict[str, Any]:
    value = None if letter.value is None else base64.b64encode(letter.value).decode()
    said = {"at": str(letter.at), "reason": letter.reason, "error": letter.error}
    return {**said, "text": letter.text, "base64": value}


def _short(text: str) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_LETTERS else f"{line[:_SHOWN_LETTERS]}…"


def _written(letter: DeadLetter) -> str:
    """Return the value on one line, as text if it is printable."""
    if letter.value is None:
        return "no value"
    text = letter.text
    return repr(letter.value) if text is None or not text.isprintable() else text

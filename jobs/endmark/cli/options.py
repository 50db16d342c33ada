"""The arguments, options and output that several commands share."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from endmark.storage import Location, location

PipelineFile = Annotated[Path, typer.Argument(help="Pipeline file.")]
PipelineOrExample = Annotated[Path, typer.Argument(help="Pipeline file.", show_default="the auction example")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Set a field, such as steps.matched.window=10s; may be repeated."
    ),
]
Bootstrap = Annotated[
    str, typer.Option("--bootstrap", "--broker", help="Kafka broker, host:port.", envvar="ENDMARK_BOOTSTRAP")
]
Warehouse = Annotated[
    str | None,
    typer.Option(
        help="Directory of the Delta tables, or its URL in an object store: s3://BUCKET/PATH.",
        envvar="ENDMARK_WAREHOUSE",
        show_default="var/NAME/warehouse",
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        help="Checkpoint directory.", envvar="ENDMARK_CHECKPOINT", show_default="var/NAME/checkpoint"
    ),
]
OpsUrl = Annotated[
    str, typer.Option(help="URL of the ops database, which pipelines may share.", envvar="ENDMARK_OPS_URL")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]

BROKER_PORT = 9092
BROKER = f"localhost:{BROKER_PORT}"
HOME = Path("var")
OPS_URL = f"sqlite:///{HOME / 'ops.db'}"


def home_of(pipeline: str) -> Path:
    """Return the directory of all that a pipeline of this name keeps, unless an option says otherwise."""
    return HOME / pipeline


def warehouse_of(pipeline: str, given: str | None) -> Location:
    """Return the directory of a pipeline's tables: the one that an option has given, or the default.

    Raises:
        ConfigError: the option is a URL, but not that of a directory in an object store.
    """
    return home_of(pipeline) / "warehouse" if given is None else location(given)


def checkpoint_of(pipeline: str, given: Path | None) -> Path:
    """Return the checkpoint of a pipeline: the one that an option has given, or the default."""
    return home_of(pipeline) / "checkpoint" if given is None else given


class Output:
    """Progress for people on stderr, or JSON lines for programs on stdout."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json

    def say(self, text: str) -> None:
        if self._json:
            self.emit({"event": text})
        else:
            typer.echo(f"{time.strftime('%H:%M:%S')} {text}", err=True)

    def emit(self, value: Any) -> None:
        typer.echo(json.dumps(value, default=str))

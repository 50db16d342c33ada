"""The arguments, options and output that several commands share."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated, Any

import typer

PipelineFile = Annotated[Path, typer.Argument(help="Pipeline file.")]
PipelineOrExample = Annotated[Path, typer.Argument(help="Pipeline file.", show_default="the auction example")]
Assignments = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Set a field, such as steps.matched.window=10s; may be repeated."
    ),
]
Bootstrap = Annotated[str, typer.Option(help="Kafka broker, host:port.", envvar="ENDMARK_BOOTSTRAP")]
Warehouse = Annotated[Path, typer.Option(help="Directory of the Delta tables.", envvar="ENDMARK_WAREHOUSE")]
OpsUrl = Annotated[str, typer.Option(help="SQLAlchemy URL of the ops database.", envvar="ENDMARK_OPS_URL")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


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

"""Arguments and options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PipelineFile = Annotated[Path, typer.Argument(help="Pipeline file.", show_default="the auction example")]
Bootstrap = Annotated[str, typer.Option(help="Kafka broker, host:port.", envvar="ENDMARK_BOOTSTRAP")]
Warehouse = Annotated[Path, typer.Option(help="Directory of the Delta tables.", envvar="ENDMARK_WAREHOUSE")]
OpsUrl = Annotated[str, typer.Option(help="SQLAlchemy URL of the ops database.", envvar="ENDMARK_OPS_URL")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]

"""`endmark ops`."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Annotated

import typer

from endmark.cli_options import AsJson, OpsUrl

TOKENS = "ENDMARK_OPS_TOKENS"


def ops(
    ops_url: OpsUrl,
    pipeline: Annotated[str, typer.Option(help="Name of the pipeline to show.")] = "auction",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes a free one.")] = 8080,
    known_as: Annotated[
        list[str] | None, typer.Option(help="Host name to answer to, besides localhost; repeat for more.")
    ] = None,
    bootstrap: Annotated[
        str | None, typer.Option(help="Kafka broker to send to, host:port.", envvar="ENDMARK_BOOTSTRAP")
    ] = None,
    warehouse: Annotated[
        Path | None, typer.Option(help="Directory of the Delta tables.", envvar="ENDMARK_WAREHOUSE")
    ] = None,
    tokens_file: Annotated[
        Path | None,
        typer.Option(
            help=f"Lines of NAME:read:TOKEN or NAME:write:TOKEN; or set {TOKENS}.", envvar=f"{TOKENS}_FILE"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Serve health, metrics, the dashboard and, to who has a token for it, knobs and replays."""
    from endmark_ops.access import parse_tokens, read_tokens
    from endmark_ops.reach import Reach
    from endmark_ops.server import serve

    given = os.environ.get(TOKENS, "")
    tokens = parse_tokens(given, TOKENS) if tokens_file is None else read_tokens(tokens_file)

    def ready(url: str) -> None:
        if as_json:
            typer.echo(json.dumps({"event": "ready", "url": url}))
        else:
            typer.echo(f"{time.strftime('%H:%M:%S')} dashboard at {url}", err=True)

    reach = Reach(tokens, bootstrap, warehouse)
    serve(ops_url, pipeline, port, host=host, known_as=known_as or (), reach=reach, on_ready=ready)

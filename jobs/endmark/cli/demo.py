"""The command that runs an example with a whole warehouse on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from endmark.cli.options import AsJson
from endmark.errors import EXIT_FAILED


def demo(
    example: Annotated[
        Literal["auction", "fulfilment", "news", "orders"], typer.Option(help="The example pipeline to run.")
    ] = "auction",
    minutes: Annotated[float, typer.Option(help="How long the feed runs.")] = 2.0,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal records.")] = 1,
    rate: Annotated[float, typer.Option(help="Mean records a second.")] = 4_000.0,
    sellers: Annotated[int, typer.Option(help="Rows of the auction's master table.")] = 500_000,
    lookup: Annotated[Literal["sqlite", "mysql"], typer.Option(help="Where master tables are.")] = "sqlite",
    directory: Annotated[Path, typer.Option(help="Where runs are kept, one folder each.")] = Path("var/demo"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Dashboard port; 0 takes a free one.")] = 0,
    kills: Annotated[
        int, typer.Option(min=0, help="How often the job is killed and started again while the feed runs.")
    ] = 0,
    stay: Annotated[
        bool, typer.Option("--stay", help="Let broker, job and dashboard stay after that, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run the whole warehouse on this machine: broker, feed, job, dashboard; then verify it."""
    from endmark.demo.choreography import DemoOptions, run_demo

    options = DemoOptions(example, minutes, seed, rate, sellers, lookup, directory, port, kills, stay)
    if not run_demo(options, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)

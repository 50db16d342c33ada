"""The command `endmark`, with one module for each of its commands.

It exits with 0 if all is done, with 1 if a job failed while it ran or `verify` found a difference, with 2 if
the user must mend something first, and with 75 if a server does not answer now.
"""

from __future__ import annotations

import io
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from endmark.cli import (
    broker,
    chain,
    classes,
    dead_letters,
    demo,
    explain,
    feed,
    init,
    knobs,
    maintain,
    migrate,
    ops,
    plan,
    run,
    validate,
    verify,
    why,
)
from endmark.cli.errors import errors_told

app = typer.Typer(
    help="Near-real-time ETL whose state is bounded by what the data says is finished.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"endmark {version('endmark')}")
        raise typer.Exit


@app.callback()
def _begin(
    _version: Annotated[
        bool, typer.Option("--version", help="Say the version.", callback=_say_version, is_eager=True)
    ] = False,
) -> None:
    pass


app.add_typer(knobs.app, name="knobs")
app.add_typer(dead_letters.app, name="dead-letters")
app.command()(broker.broker)
app.command()(init.init)
app.command()(feed.feed)
app.command()(feed.feed_example)
app.command()(feed.feed_workload)
app.command()(ops.ops)
app.command()(maintain.maintain)
app.command()(migrate.migrate)
app.command()(ops.status)
app.command()(ops.forget)
app.command()(why.why)
app.command()(classes.record_classes)
app.command()(validate.validate)
app.command()(explain.explain)
app.command()(chain.chain)
app.command()(plan.plan)
app.command()(run.run)
app.command()(verify.verify)
app.command()(demo.demo)


def main(commands: typer.Typer = app) -> None:
    """Run a command; an error that a user can mend is one line, without a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Records and names of files may have letters that the terminal's encoding lacks.
        sys.stdout.reconfigure(errors="backslashreplace")
    with errors_told():
        commands()

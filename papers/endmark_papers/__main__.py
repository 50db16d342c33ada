"""`python -m endmark_papers`: run the papers' experiments and count what the algorithms do."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from endmark_papers.experiments.catalogue import Experiment, run_experiments

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def experiments(
    chosen: Annotated[
        list[Experiment] | None, typer.Argument(metavar="[EXPERIMENT]...", help="All, unless some are named.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run the papers' algorithms on their experiments. All of them take about two minutes."""
    results = run_experiments(chosen or list(Experiment), lambda text: typer.echo(text, err=True))
    if as_json:
        typer.echo(results.to_json())
        return
    for table in results.tables().values():
        Console().print(table.rich())


if __name__ == "__main__":
    app()

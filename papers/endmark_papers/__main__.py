"""`python -m endmark_papers`: run the papers' experiments, and measure the papers' figures anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from endmark_papers.experiments.catalogue import Experiment, run_experiments
from endmark_papers.figures import page
from endmark_papers.figures.catalogue import FIGURES

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def experiments(
    chosen: Annotated[
        list[Experiment] | None, typer.Argument(metavar="[EXPERIMENT]...", help="All, unless some are named.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Run the papers' algorithms on their experiments. All of them take about two minutes."""
    results = run_experiments(chosen or list(Experiment), _say)
    if as_json:
        typer.echo(results.to_json())
        return
    for table in results.tables().values():
        Console().print(table.rich())


@app.command()
def figures(
    chosen: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="All, unless some are named, as `pw-8`.")
    ] = None,
    directory: Annotated[Path, typer.Option(help="The directory of the page.")] = Path("docs/operators"),
    scale: Annotated[float, typer.Option(help="Sizes, as a share of the published ones.")] = 1.0,
) -> None:
    """Measure the papers' figures, and write their data, their pictures and the page about them."""
    names = chosen or list(FIGURES)
    if unknown := [name for name in names if name not in FIGURES]:
        raise typer.BadParameter(f"there is no figure {unknown[0]!r}; choose of {', '.join(FIGURES)}")
    for name in names:
        _say(f"measuring {name}")
        figure = FIGURES[name].measure(scale)
        page.keep(figure, directory)
        for claim in figure.claims:
            _say(f"  {claim.verdict}: {claim.claim} {claim.ours}")
    page.write(directory)
    _say(f"wrote {directory / page.PAGE}")


def _say(text: str) -> None:
    typer.echo(text, err=True)


if __name__ == "__main__":
    app()

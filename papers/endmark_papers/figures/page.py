"""The writer of docs/operators/figures.md, and of the files beside it.

`figures/NAME.json` has a figure's curves and claims, and `figures/NAME.svg` shows it. The page is written
from all the JSON files that are there.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from endmark_papers.experiments.marked_parts import fill
from endmark_papers.figures.catalogue import FIGURES
from endmark_papers.figures.draw import svg
from endmark_papers.figures.figure import Figure, Verdict, claims_table

PAGE, FOLDER = "figures.md", "figures"
_HEADINGS = ("claim", "paper", "ours", "verdict", "why")


def keep(figure: Figure, directory: Path) -> None:
    """Write a figure's JSON and SVG below the directory of the page."""
    folder = directory / FOLDER
    folder.mkdir(exist_ok=True)
    (folder / f"{figure.name}.json").write_text(figure.model_dump_json() + "\n")
    (folder / f"{figure.name}.svg").write_text(svg(figure))


def kept(directory: Path) -> list[Figure]:
    """Return the figures whose JSON files are there, in the order of the catalogue."""
    files = [directory / FOLDER / f"{name}.json" for name in FIGURES]
    return [Figure.model_validate_json(file.read_text()) for file in files if file.exists()]


def render(text: str, figures: list[Figure]) -> str:
    """Return the page with everything between its marks written anew."""
    parts = {"counts": _counts(figures), "figures": "\n\n".join(_section(figure) for figure in figures)}
    return fill(text, parts.__getitem__)


def write(directory: Path) -> None:
    """Write the page anew from the figures that are there."""
    page = directory / PAGE
    page.write_text(render(page.read_text(), kept(directory)))


def _counts(figures: list[Figure]) -> str:
    counts = Counter(claim.verdict for figure in figures for claim in figure.claims)
    rule = f"| {' | '.join(Verdict)} | claims |\n| {' | '.join(['---:'] * (len(Verdict) + 1))} |"
    return f"{rule}\n| {' | '.join(str(counts[each]) for each in Verdict)} | {counts.total()} |"


def _section(figure: Figure) -> str:
    rows = [row[1:] for row in claims_table([figure])]
    table = [_HEADINGS, ["---"] * len(_HEADINGS), *rows]
    return "\n".join(
        [
            f"### {figure.title}",
            "",
            f"![{figure.title}]({FOLDER}/{figure.name}.svg)",
            "",
            f"{figure.setup} Data: [{figure.name}.json]({FOLDER}/{figure.name}.json).",
            "",
            *(f"| {' | '.join(row)} |" for row in table),
        ]
    )

"""The writer of the generated parts of docs/operators/README.md.

The algorithms come from their modules' docstrings, and the figures from results.json. Run it as
`python -m endmark_papers.experiments.page docs/operators`.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import endmark_papers.algorithms
from endmark_papers.experiments.catalogue import Results
from endmark_papers.experiments.marked_parts import fill

# Algorithms in the order of the papers, by their modules, whose docstrings have the paragraphs read below.
ALGORITHMS = {
    "SHJ": "shj",
    "XJoin": "xjoin",
    "PJoin": "pjoin",
    "WJoin": "wjoin",
    "MJoin": "mjoin",
    "PWJoin": "pwjoin",
    "PWJoin of n streams": "pwjoin_nary",
    "INLJ": "inlj",
    "MESHJOIN": "meshjoin",
    "HYBRIDJOIN": "hybridjoin",
}


class Description(NamedTuple):
    """An algorithm's paper and its deviations from that, as the docstring of its module says."""

    paper: str
    deviations: str


def describe(module: str) -> Description:
    """Read the paragraphs `Paper:` and `Deviations:` of a module of `endmark_papers.algorithms`."""
    source = Path(endmark_papers.algorithms.__file__).with_name(f"{module}.py").read_text()
    text = ast.get_docstring(ast.parse(source)) or ""
    # The text goes up to the next label and not to the next blank line, since it may hold a list.
    found = dict(
        re.findall(r"^(Paper|Deviations): (.*?)(?=\n\n[A-Z][a-z]+: |\Z)", text, re.DOTALL | re.MULTILINE)
    )
    return Description(*(" ".join(found[label].split()) for label in ("Paper", "Deviations")))


def render(text: str, results: Results) -> str:
    """Return the page with everything between its marks written anew."""
    parts = {name: table.markdown() for name, table in results.tables().items()}
    parts |= {"algorithms": _algorithms(), "deviations": _deviations()}
    return fill(text, parts.__getitem__)


def _algorithms() -> str:
    lines = ["| algorithm | file | paper |", "| --- | --- | --- |"]
    for name, module in ALGORITHMS.items():
        path = f"papers/endmark_papers/algorithms/{module}.py"
        lines.append(f"| {name} | [{module}.py](../../{path}) | {describe(module).paper} |")
    return "\n".join(lines)


def _deviations() -> str:
    return "\n".join(f"- **{name}**: {describe(module).deviations}" for name, module in ALGORITHMS.items())


def main(directory: Path) -> None:
    page = directory / "README.md"
    results = Results.model_validate_json((directory / "results.json").read_text())
    page.write_text(render(page.read_text(), results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Write what code can say into docs/operators/README.md: the algorithms from their modules, the figures from
results.json. Run as `python -m endmark_papers.experiments.page docs/operators`."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

import endmark_papers.algorithms
from endmark_papers.experiments.run import Results

# In the order of the papers; a module of one algorithm has the labelled paragraphs below.
ALGORITHMS = {
    "SHJ": "shj",
    "XJoin": "xjoin",
    "PJoin": "pjoin",
    "WJoin": "wjoin",
    "MJoin": "mjoin",
    "PWJoin": "pwjoin",
    "INLJ": "inlj",
    "MESHJOIN": "meshjoin",
    "HYBRIDJOIN": "hybridjoin",
}
_GENERATED = re.compile(r"(<!-- begin (?P<name>[a-z-]+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


class Description(NamedTuple):
    """The description of an algorithm by its module."""

    paper: str
    deviations: str


def describe(module: str) -> Description:
    """The labelled paragraphs of a module of `endmark_papers.algorithms`."""
    source = Path(endmark_papers.algorithms.__file__).with_name(f"{module}.py").read_text()
    text = ast.get_docstring(ast.parse(source)) or ""
    # Up to the next label, since a list is a paragraph of its own.
    found = dict(
        re.findall(r"^(Paper|Deviations): (.*?)(?=\n\n[A-Z][a-z]+: |\Z)", text, re.DOTALL | re.MULTILINE)
    )
    return Description(*(" ".join(found[label].split()) for label in ("Paper", "Deviations")))


def render(text: str, results: Results) -> str:
    """The page with everything between its marks written anew."""
    parts = {name: table.markdown() for name, table in results.tables().items()}
    parts |= {"algorithms": _algorithms(), "deviations": _deviations()}
    return _GENERATED.sub(lambda match: f"{match[1]}{parts[match['name']]}\n{match[3]}", text)


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

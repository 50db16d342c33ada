"""Writes the table of damages in docs/reliability.md from the result of `make faults-files`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from damage.damages import KINDS
from endmark_papers.experiments.marked_parts import fill
from endmark_papers.experiments.report import Table

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "damaged_files.json"
PAGE = ROOT / "docs" / "reliability.md"
Report = Mapping[str, Any]
_HEADINGS = ("damage", "how", "runs", "a job must", "as it must", "seconds")


def render(page: str, report: Report) -> str:
    """Return the page with the part of damages written anew."""
    return fill(page, lambda name: _section(report) if name == "damage" else None)


def _section(report: Report) -> str:
    machine = report["machine"]
    runs = sum(map(len, report["runs"].values()))
    said = (
        f"Commit {report['commit']}, {report['date']}; {machine['cores']} cores, load {machine['load']} "
        f"before. {runs:,} runs took {report['seconds']:,} seconds: each damage on "
        f"{len(report['pipelines'])} pipelines with {report['seeds']} seeds of records."
    )
    rows = [
        [
            name,
            kind.how,
            f"{len(report['runs'][name])}",
            "recover" if kind.refused is None else "refuse",
            f"{len(report['runs'][name]) - report['wrong'].get(name, 0)}",
            f"{median(report['runs'][name]):.1f}",
        ]
        for name, kind in KINDS.items()
    ]
    return f"{said}\n\n{Table('Damages', _HEADINGS, rows).markdown()}"


def main() -> None:
    PAGE.write_text(render(PAGE.read_text(), json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()

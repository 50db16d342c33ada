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
    parts = report["parts"]
    rows = []
    for name, kind in KINDS.items():
        seconds = [each for part in parts for each in part["runs"].get(name, [])]
        wrong = sum(part["wrong"].get(name, 0) for part in parts)
        must = "recover" if kind.refused is None else "refuse"
        counts = f"{len(seconds)}", must, f"{len(seconds) - wrong}"
        rows.append([name, kind.how, *counts, f"{median(seconds):.1f}"])
    said = "\n".join(f"- {_origin(part)}" for part in parts)
    return f"{said}\n\n{Table('Damages', _HEADINGS, rows).markdown()}"


def _origin(part: Report) -> str:
    machine, runs = part["machine"], sum(map(len, part["runs"].values()))
    return (
        f"Commit {part['commit']}, {part['date']}; {machine['cores']} cores, load {machine['load']} "
        f"before. {runs:,} runs took {part['seconds']:,} seconds: {len(part['runs'])} damages, each on "
        f"{len(part['pipelines'])} pipelines with {part['seeds']} seeds of records."
    )


def main() -> None:
    PAGE.write_text(render(PAGE.read_text(), json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()

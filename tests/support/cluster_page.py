"""The tables of docs/cluster.md, from what runs have kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from endmark_papers.experiments.marked_parts import fill
from endmark_papers.experiments.report import Table

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "cluster.md"
FAULTS = ("compose_faults", "cluster_faults", "connected_faults")
RATES = "cluster_rates"
Report = dict[str, Any]


def read() -> dict[str, Report]:
    """Return the results that are kept, by the name of their file."""
    files = {name: RESULTS / f"{name}.json" for name in (*FAULTS, RATES)}
    return {name: json.loads(file.read_text()) for name, file in files.items() if file.exists()}


def render(page: str, reports: dict[str, Report]) -> str:
    """The page with everything between its marks written anew."""
    return fill(page, lambda name: _section(name, reports))


def write_page() -> None:
    PAGE.write_text(render(PAGE.read_text(), read()))


def _section(name: str, reports: dict[str, Report]) -> str:
    if name not in reports:
        return "No result is kept."
    report = reports[name]
    machine = report["machine"]
    said = f"Commit {report['commit']}, {report['date']}; {machine['cores']} cores"
    table = _rates(report) if name == RATES else _faults(report)
    return f"{said}, load {machine['load']} before.\n\n{table}"


def _faults(report: Report) -> str:
    found = [(each["taken"], str(each["seconds"]), each["seen"]) for each in report["faults"]]
    rows = [("taken away", "seconds", "seen"), ("---", "---:", "---"), *found]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _rates(report: Report) -> str:
    rows = []
    for executors, each in report["executors"].items():
        runs = ", ".join(f"{run:,.0f}" for run in each["runs"])
        rows.append([executors, f"{each['median']:,.0f}", runs, str(each["ratio"])])
    return Table("", ("executors", "records a second", "of each run", "as fast as one"), rows).markdown()

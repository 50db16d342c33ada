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
SCALE_OUT = "cluster_scale_out"
PARTS = ("executors", "driver", "broker", "database")
Report = dict[str, Any]


def read() -> dict[str, Report]:
    """Return the results that are kept, by the name of their file."""
    files = {name: RESULTS / f"{name}.json" for name in (*FAULTS, SCALE_OUT)}
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
    table = _scale_out(report) if name == SCALE_OUT else _faults(report)
    return f"{said}, load {machine['load']} before.\n\n{table}"


def _faults(report: Report) -> str:
    found = [(each["taken"], str(each["seconds"]), each["seen"]) for each in report["faults"]]
    rows = [("taken away", "seconds", "seen"), ("---", "---:", "---"), *found]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _scale_out(report: Report) -> str:
    rows = []
    for cell in report["cells"]:
        cpu = [*(cell["cpu"][part] for part in PARTS), sum(cell["cpu"].values())]
        place = [str(cell["executors"]), str(cell["buckets"])]
        costs = [*(f"{seconds:.1f}" for seconds in cpu), f"{cell['shuffled']:.0f}"]
        limited = [f"{cell['cpu_limited']:.1f}", f"{cell['idle']:.2f}", f"{cell['rate']:,.0f}"]
        predicted = f"{cell['predicted']:,}" if "predicted" in cell else ""
        rows.append([*place, *costs, *limited, predicted])
    head = ("executors", "buckets", *(f"{part}, CPU s" for part in (*PARTS, "together")), "bytes")
    limited_head = ("limited executors, CPU s", "without a task, s", "records/s", "predicted")
    measured = Table("", (*head, *limited_head), rows).markdown()
    return f"{measured}\n\n{_on_cores(report['on_cores'])}"


def _on_cores(rates: dict[str, int]) -> str:
    rows = [[executors, f"{rate:,}"] for executors, rate in rates.items()]
    return Table("", ("executors of a core each", "predicted records/s"), rows).markdown()

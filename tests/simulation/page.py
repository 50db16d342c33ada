"""Writes the table of docs/reliability.md from the result of `make faults`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from endmark_papers.experiments.marked_parts import fill
from simulation.faults import KINDS
from simulation.noise import NOISE

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "simulated_faults.json"
PAGE = ROOT / "docs" / "reliability.md"
Report = Mapping[str, Any]
_HEADINGS = (
    ("fault", "---"),
    ("how", "---"),
    ("faults", "---:"),
    ("runs", "---:"),
    ("survived", "---:"),
    ("rows lost", "---:"),
    ("rows too many", "---:"),
    ("fail at most", "---:"),
)


def render(page: str, report: Report) -> str:
    """Return the page with the part of the simulation written anew."""
    return fill(page, lambda name: _section(report) if name == "simulation" else None)


def _section(report: Report) -> str:
    machine = report["machine"]
    right = report["seeds"] - len(report["failures"])
    said = (
        f"Commit {report['commit']}, {report['date']}; {machine['cores']} cores, load {machine['load']} "
        f"before.\n{report['seeds']:,} seeds from {report['first_seed']:,} on, {right:,} of them right: "
        f"{report['batches']:,} batches of {report['records']:,} records, {sum(report['faults'].values()):,} "
        f"faults.\n{report['seeds_per_minute']:,} seeds a minute on all cores together."
    )
    hows = {name: kind.how for name, kind in KINDS.items()} | {name: how for name, (_, how) in NOISE.items()}
    rows = [[name for name, _ in _HEADINGS], [rule for _, rule in _HEADINGS]]
    rows += [_row(name, how, report) for name, how in hows.items()]
    return said + "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(name: str, how: str, report: Report) -> list[str]:
    runs, failed = report["runs"].get(name, 0), report["failed"].get(name, 0)
    # The rule of three: of n runs that all survive, less than 3/n fail in the long run, at 95 %.
    bound = f"{300 / runs:.2f} %" if runs and not failed else "–"  # noqa: RUF001
    counts = [report[of].get(name, 0) for of in ("lost", "doubled")]
    return [
        name,
        how,
        *(f"{count:,}" for count in (report["faults"].get(name, 0), runs, runs - failed, *counts)),
        bound,
    ]


def main() -> None:
    PAGE.write_text(render(PAGE.read_text(), json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()

"""`make bench-state`: rows that the join keeps on the papers' workloads, beside the rows that it may keep.

The figures are counts, so they are the same on every machine. The command writes them and the tables of
docs/state.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from endmark_papers.experiments.marked_parts import fill
from endmark_papers.experiments.report import Table
from support.news_insertions import insertions
from support.state_bounds import run, workloads

RESULTS = Path(__file__).parents[2] / "results" / "state_bounds.json"
PAGE = Path(__file__).parents[3] / "docs" / "state.md"
VALUES, BATCH = 1000, 1000
BURSTS = (11, 55, 220, 1000)


def measure(values: int = VALUES) -> dict[str, Any]:
    """Return all figures as JSON values, for workloads of `values` keys."""
    bounds = []
    for name, streams in workloads(values).items():
        course = run(streams, BATCH)
        bounds.append(
            {
                "workload": name,
                "bounds": [str(state) for state in course.bounds],
                "rows": course.arrived[-1],
                "batches": len(course.held),
                "peak_allowed": max(course.allowed),
                "peak_held": max(course.held),
                "excess": max(held - may for held, may in zip(course.held, course.allowed, strict=True)),
                "held_at_end": course.held[-1],
            }
        )
    news = workloads(values)["news"]
    return {"state": bounds, "news": [asdict(insertions(news, burst)) for burst in BURSTS]}


def render(page: str, figures: dict[str, Any]) -> str:
    """Return the page with its tables written anew."""
    tables = {"state": _state(figures["state"]), "news": _news(figures["news"])}
    return fill(page, lambda name: tables[name].markdown() if name in tables else None)


def _state(found: list[dict[str, Any]]) -> Table:
    headings = ("workload", "rows in all", "may be held", "held", "at the end")
    names = ("rows", "peak_allowed", "peak_held", "held_at_end")
    return Table("", headings, [[each["workload"], *(f"{each[name]:,}" for name in names)] for each in found])


def _news(found: list[dict[str, Any]]) -> Table:
    headings = ("elements at a time", "accesses", "random, sequential", "priority, value-oriented", "engine")
    names = ("rows", "unscheduled", "scheduled", "engine")
    return Table(
        "", headings, [[str(each["burst"]), *(f"{each[name]:,}" for name in names)] for each in found]
    )


def main() -> None:
    """Measure, and write the result file and the page."""
    figures = measure()
    RESULTS.write_text(json.dumps(figures, indent=1) + "\n")
    PAGE.write_text(render(PAGE.read_text(), figures))
    print(PAGE.read_text())


if __name__ == "__main__":
    typer.run(main)

"""Writes the table of docs/reliability.md from what `make faults` has found in campaigns of seeds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from endmark_papers.experiments.marked_parts import fill
from simulation.faults import KINDS
from simulation.noise import NOISE

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "benchmarks" / "results" / "simulated_faults.json"
PAGE = ROOT / "docs" / "reliability.md"
Report = Mapping[str, Any]
_COUNTS = "faults", "runs", "failed", "lost", "doubled"
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
    campaigns = report["parts"]
    said = "\n".join(f"- {_origin(campaign)}" for campaign in campaigns)
    counts = {of: _sum(campaign[of] for campaign in campaigns) for of in _COUNTS}
    hows = {name: kind.how for name, kind in KINDS.items()} | {name: how for name, (_, how) in NOISE.items()}
    rows = [[name for name, _ in _HEADINGS], [rule for _, rule in _HEADINGS]]
    rows += [_row(name, how, counts) for name, how in hows.items()]
    return said + "\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _origin(campaign: Report) -> str:
    machine = campaign["machine"]
    right = campaign["seeds"] - len(campaign["failures"])
    return (
        f"Commit {campaign['commit']}, {campaign['date']}; {machine['cores']} cores, load {machine['load']} "
        f"before. {campaign['seeds']:,} seeds from {campaign['first_seed']:,} on, {right:,} of them right: "
        f"{campaign['batches']:,} batches of {campaign['records']:,} records, "
        f"{sum(campaign['faults'].values()):,} faults. {campaign['seeds_per_minute']:,} seeds a minute on "
        "all cores together."
    )


def _sum(counts: Iterable[Mapping[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in counts:
        found.update(each)
    return found


def _row(name: str, how: str, counts: Mapping[str, Counter[str]]) -> list[str]:
    runs, failed = counts["runs"][name], counts["failed"][name]
    # The rule of three: of n runs that all survive, less than 3/n fail in the long run, at 95 %.
    bound = f"{300 / runs:.2f} %" if runs and not failed else "–"  # noqa: RUF001
    wrong = [counts[of][name] for of in ("lost", "doubled")]
    return [
        name,
        how,
        *(f"{count:,}" for count in (counts["faults"][name], runs, runs - failed, *wrong)),
        bound,
    ]


def main() -> None:
    PAGE.write_text(render(PAGE.read_text(), json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()

"""Writes the tables of broken processes and of the soak in docs/reliability.md, from what runs have kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from endmark_papers.experiments.marked_parts import fill
from processes.campaign import WALK
from processes.case import HEALED_SECONDS
from processes.faults import FAULTS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
RESULT, SOAK = RESULTS / "broken_processes.json", RESULTS / "soak.json"
PAGE = ROOT / "docs" / "reliability.md"
Report = Mapping[str, Any]
_HEADINGS = (
    ("fault", "---"),
    ("no.", "---"),
    ("how", "---"),
    ("runs", "---:"),
    ("landed", "---:"),
    ("survived", "---:"),
    ("within 120 s", "---:"),
    ("rows lost", "---:"),
    ("rows too many", "---:"),
    ("seconds to recover", "---:"),
    ("worst", "---:"),
    ("fail at most", "---:"),
)

_WALK_HEADINGS = (
    "walk on the pipeline",
    "seed",
    "actions",
    "faults that landed",
    "ends of the job",
    "verdicts before the end",
    "wrong",
    "rows lost",
    "rows too many",
    "minutes",
)


# What a soak measures, and its unit.
_QUANTITIES = {
    "memory_mib": "memory of all processes, MiB",
    "descriptors": "open files and sockets",
    "checkpoint_files": "files of the checkpoint",
    "checkpoint_mib": "checkpoint, MiB",
    "state_rows": "rows in state",
    "batch_seconds": "seconds of a batch",
}


def render(page: str, report: Report, soaked: Report) -> str:
    """Return the page with the parts of processes and of the soak written anew."""
    sections = {"processes": lambda: _section(report), "soak": lambda: _soak(soaked)}
    return fill(page, lambda name: sections[name]() if name in sections else None)


def _soak(report: Report) -> str:
    [part] = report["parts"]
    machine, lives = part["machine"], sorted({each["life"] for each in part["samples"]})
    said = (
        f"Commit {part['commit']}, {part['date']}; {machine['cores']} cores, load {machine['load']} before, "
        "and meanwhile {:.0f} to {:.0f}: ".format(*part["loads"])
        + f"{part['hours']:g} hours with {part['highest'] / 2:,.0f} records/s, {part['kills']} kills and "
        f"{part['turns']} other disturbances. {len(part['wrong'])} things were wrong in the end."
    )
    rows = [
        ["measured", "first life", "last life", "change in a minute of a life"],
        ["---", "---:", "---:", "---:"],
    ]
    for name, what in _QUANTITIES.items():
        first, last = (
            median(each[name] for each in part["samples"] if each["life"] == life)
            for life in (lives[0], lives[-1])
        )
        slope = part["slopes"][name]
        rows.append([what, *(f"{value:,.4g}" for value in (first, last)), _interval(**slope)])
    return f"{said}\n\n{_lines(rows)}"


def _interval(per_minute: float, half: float) -> str:
    return f"{per_minute - half:+.3g} to {per_minute + half:+.3g}"


def _section(report: Report) -> str:
    runs = [run for part in report["parts"] for run in part["runs"]]
    said = "\n".join(f"- {_origin(part)}" for part in report["parts"])
    rows = [[name for name, _ in _HEADINGS], [rule for _, rule in _HEADINGS]]
    for name, fault in FAULTS.items():
        outcomes = [run["outcome"] for run in runs if run["fault"] == name]
        rows.append([name, fault.number, fault.how, *_figures(outcomes, refuses=fault.refused is not None)])
    return f"{said}\n\n{_lines(rows)}{_walks(runs)}"


def _lines(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _walks(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of random walks; nothing without any."""
    rows = [list(_WALK_HEADINGS), ["---", *["---:"] * (len(_WALK_HEADINGS) - 1)]]
    for run in runs:
        if run["fault"] == WALK:
            outcome, seen = run["outcome"], run["outcome"]["seen"]
            counts = [run["seed"], seen["actions"], sum(seen["landed"].values())]
            counts += [seen["ends"], seen["judged"]]
            counts += [len(outcome["wrong"]), outcome["lost"], outcome["doubled"]]
            minutes = f"{outcome['seconds'] / 60:.0f}"
            rows.append([run["pipeline"], *(f"{count:,}" for count in counts), minutes])
    return f"\n\n{_lines(rows)}" if len(rows) > 2 else ""


def _origin(part: Report) -> str:
    machine = part["machine"]
    count = f"{len(part['runs']):,} cases" if len(part["runs"]) > 1 else "1 case"
    loads = "not measured" if "loads" not in part else "{:.0f} to {:.0f}".format(*part["loads"])
    return (
        f"Commit {part['commit']}, {part['date']}; {machine['cores']} cores, load {machine['load']} before, "
        f"and meanwhile {loads}: {count} in {part['seconds']:,} s, each with "
        f"{part['within']:.0f} s to catch up."
    )


def _figures(outcomes: list[Mapping[str, Any]], *, refuses: bool) -> list[str]:
    landed = [each for each in outcomes if each["landed"]]
    right = [each for each in landed if not each["wrong"]]
    # The rule of three: of n runs that all survive, less than 3/n fail in the long run, at 95 %.
    bound = f"{min(100.0, 300 / len(landed)):.0f} %" if landed and len(right) == len(landed) else "–"  # noqa: RUF001
    seconds = [each["recovered"] for each in right if each["recovered"] is not None]
    times = [f"{of(seconds):.1f}" for of in (median, max)] if seconds else ["refused" if refuses else "–"] * 2  # noqa: RUF001
    in_time = len(right) if refuses else sum(each <= HEALED_SECONDS for each in seconds)
    counts = [len(outcomes), len(landed), len(right), in_time]
    counts += [sum(each[of] for each in outcomes) for of in ("lost", "doubled")]
    return [*(f"{count:,}" for count in counts), *times, bound]


def main() -> None:
    PAGE.write_text(render(PAGE.read_text(), *(json.loads(file.read_text()) for file in (RESULT, SOAK))))


if __name__ == "__main__":
    main()

"""The writer of pages: tables of a report, docs/bench.md, and the pages and pictures in docs/bench."""

from __future__ import annotations

import json
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any

from endmark_benchmarks.measurements.lookup_join import CONTENDERS
from endmark_benchmarks.page import state, whole_job
from endmark_benchmarks.page.costs import costs_tables
from endmark_benchmarks.page.hybridjoin_rates import hybridjoin_rates_tables
from endmark_benchmarks.page.lookup_map import map_picture, map_tables
from endmark_benchmarks.page.rates import rate_bars, rate_table
from endmark_benchmarks.page.relation import relation_tables
from endmark_benchmarks.page.summary import summary_table
from endmark_benchmarks.page.targets import targets_table
from endmark_papers.experiments.marked_parts import fill
from endmark_papers.experiments.report import Table

_NOTHING = "No result is kept."
_TABLES = (
    whole_job.TABLES
    | state.TABLES
    | {"costs": costs_tables, "hybridjoin_rates": hybridjoin_rates_tables, "relation": relation_tables}
)
Report = dict[str, Any]


def tables(report: Report) -> list[Table]:
    """Return the tables of a report.

    A contest has a table of rates for each cell. A map of the lookup has a table of the fastest strategies,
    and tables of rates by skew.
    """
    if named := _TABLES.get(report["bench"]):
        return named(report)
    if "cells" in report:
        return [rate_table(cell, "rows/s") for cell in report["cells"]]
    return map_tables(report["runs"])


def pictures(report: Report, section: str) -> dict[str, str]:
    """Return the pictures of a report as SVG, by file name, in the order of its first tables.

    Args:
        report: the report; some measurements have no picture.
        section: the section's name on the page, with which the names of the files begin.
    """
    if report["bench"] in _TABLES:
        ways = whole_job.PICTURES
        drawn = ways[report["bench"]](report) if report["bench"] in ways else []
    elif "cells" in report:
        drawn = [rate_bars(cell, "rows") for cell in report["cells"]]
    else:
        drawn = [map_picture(report["runs"])]
    return {f"{section}-{number}.svg": picture for number, picture in enumerate(drawn, 1)}


def render(page: str, reports: dict[str, Report], operators: Report | None = None) -> str:
    """Return the page with everything between its marks written anew.

    Args:
        page: the page.
        reports: reports by their section.
        operators: the results of `make papers`; `None` without any.
    """
    parts = (
        {"contenders": _contenders()}
        | _front(reports, operators)
        | {section: _section(report, section) for section, report in reports.items()}
    )
    return fill(page, lambda name: parts.get(name, _NOTHING))


def _contenders() -> str:
    return "\n".join(f"- `{name}`: {contender.does}" for name, contender in CONTENDERS.items())


def _front(reports: dict[str, Report], operators: Report | None) -> dict[str, str]:
    """Return the parts that are of all reports: the summary, the machines, and the targets."""
    tables = {
        "summary": summary_table(reports),
        "targets": targets_table(reports if operators is None else reports | {"operators": operators}),
    }
    parts = {name: table.markdown() for name, table in tables.items() if table.rows}
    return parts | ({"machines": _machines(reports)} if reports else {})


def _machines(reports: dict[str, Report]) -> str:
    hardware = dict.fromkeys(map(_hardware, reports.values()))
    versions: dict[str, dict[str, None]] = {}
    for report in reports.values():
        for name, number in report["versions"].items():
            versions.setdefault(name, {})[number] = None
    software = ", ".join(f"{name} {' and '.join(numbers)}" for name, numbers in versions.items())
    return f"- {'; '.join(hardware)}\n- {software}"


def _hardware(report: Report) -> str:
    machine = report["machine"]
    return f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB"


def _section(report: Report, section: str) -> str:
    """Return the tables of a report, each beneath its picture, and the origin of their figures."""
    said: list[str] = []
    for number, (table, picture) in enumerate(zip_longest(tables(report), pictures(report, section))):
        if number == 1 and report["bench"] == "lookup-map":
            said.append("<details><summary>Rates of all strategies</summary>")
        said.append(f"**{table.title}**")
        said += [f"![{table.title}]({picture})"] if picture else []
        said.append(table.markdown())
    if report["bench"] == "lookup-map":
        said.append("</details>")
    return "\n\n".join([*said, _origin(report, section)])


def _origin(report: Report, section: str) -> str:
    file = f"{section.replace('-', '_')}.json"
    options = ", ".join(
        f"{name.replace('_', ' ')} {_spelt(value)}" for name, value in report["options"].items()
    )
    return (
        f"From [{file}](../../benchmarks/results/{file}): commit {report['commit']}, {report['date']}; "
        f"{_hardware(report)}, load {report['machine']['load']} before{options and '; '}{options}."
    )


def _spelt(value: Any) -> str:
    if isinstance(value, list | tuple):
        return " and ".join(map(_spelt, value))
    if isinstance(value, str):
        return value
    return f"{value:,g}" if isinstance(value, float) else f"{value:,}"


def main(results: Path, front: Path) -> None:
    """Write the pages, and pictures beside those that lie below the front page."""
    reports = read(results)
    for page in pages(front):
        page.write_text(render(page.read_text(), reports, of_operators(front)))
    for section, report in reports.items():
        for name, picture in pictures(report, section).items():
            (front.with_suffix("") / name).write_text(picture)


def pages(front: Path) -> list[Path]:
    """Return the front page, and the pages in the directory of its name, which have the reports' sections."""
    return [front, *sorted(front.with_suffix("").glob("*.md"))]


def of_operators(page: Path) -> Report:
    """Return the results of `make papers`, which lie beside the page."""
    found: Report = json.loads((page.parent / "operators" / "results.json").read_text())
    return found


def read(results: Path) -> dict[str, Report]:
    """Return the reports in a directory, by their section on the page, which has the name of the file."""
    found = {
        file.stem.replace("_", "-"): json.loads(file.read_text()) for file in sorted(results.glob("*.json"))
    }
    return {section: report for section, report in found.items() if "bench" in report}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

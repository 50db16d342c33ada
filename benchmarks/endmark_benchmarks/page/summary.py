"""The first table of docs/bench.md: what was measured beside what, and how many times as fast endmark was."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from endmark_benchmarks.page.rates import PLAIN, ratio_text, span
from endmark_papers.experiments.report import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Report = dict[str, Any]
_HEADINGS = ("measured", "endmark", "beside", "endmark / this")
_CONTESTS = {
    "stream-join": ("[stream join](bench/stream-join.md#stream-join)", "rows/s"),
    "lookup-join": ("[lookup](bench/lookup.md#lookup-join), database on the same machine", "rows/s"),
    "lookup-join-far": ("[lookup](bench/lookup.md#lookup-join), database 2 ms away", "rows/s"),
    "pipeline": ("[whole pipeline](bench/pipeline.md#the-whole-pipeline)", "records/s"),
    "three-streams": ("[three streams on one key](bench/pipeline.md#three-streams-on-one-key)", "records/s"),
    "lookup-alone": ("[lookup alone, Kafka to Delta](bench/pipeline.md#a-lookup-alone)", "records/s"),
}


def summary_table(reports: Mapping[str, Report]) -> Table:
    """Return a row for each contender, with its range over all cells, and rows of latency and of starts.

    Args:
        reports: the kept reports, by their section on the page. Sections without one have no row.
    """
    rows: list[list[str]] = []
    for section, (name, unit) in _CONTESTS.items():
        rows += _contest(name, unit, _cells(reports, section))
    for cell in _cells(reports, "nexmark"):
        rows += _contest(
            f"[Nexmark](bench/nexmark.md#nexmark), {cell['title'].split(',')[0]}", "rows/s", [cell]
        )
    for section, found in _OTHERS.items():
        if section in reports:
            rows += found(reports[section])
    return Table("In short", _HEADINGS, rows)


def _cells(reports: Mapping[str, Report], section: str) -> list[Report]:
    found: list[Report] = reports[section]["cells"] if section in reports else []
    return found


def _contest(name: str, unit: str, cells: list[Report]) -> list[list[str]]:
    """Return a row for each contender that `PLAIN` names; only the first row has the name and our rate."""
    rows: list[list[str]] = []
    for contender, plain in PLAIN.items():
        found = [cell["contenders"] for cell in cells if contender in cell["contenders"]]
        if not found:
            continue
        ours = [next(iter(each.values()))["median"] for each in found]
        ratios = [rate / each[contender]["median"] for rate, each in zip(ours, found, strict=True)]
        front = ["", ""] if rows else [name, f"{span(ours, lambda rate: f'{rate:,.0f}')} {unit}"]
        rows.append([*front, plain, span(ratios, ratio_text)])
    return rows


def _latency(report: Report) -> Iterator[list[str]]:
    for load in report["loads"]:
        name = f"[latency](bench/pipeline.md#latency) at {load['share']:g} % of the highest rate"
        seconds = load["seconds"]
        yield [name, f"p50 {seconds['p50']:.2f} s, p99 {seconds['p99']:.2f} s", "", ""]


def _recovery(report: Report) -> Iterator[list[str]]:
    for name, runs in report["runs"].items():
        seconds = median(sum(run.values()) for run in runs)
        yield [
            f"[first output](bench/pipeline.md#start-and-recovery) after {name}",
            f"{seconds:.2f} s",
            "",
            "",
        ]


_OTHERS: dict[str, Callable[[Report], Iterator[list[str]]]] = {"latency": _latency, "recovery": _recovery}

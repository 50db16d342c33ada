"""Tables and pictures of measurements on whole jobs: rates, latencies, starts, and the use of time."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from endmark_benchmarks.measurements.latency import PERCENTILES
from endmark_benchmarks.measurements.pipeline import CONTENDERS
from endmark_benchmarks.measurements.recovery import medians
from endmark_benchmarks.page.chart import stacked
from endmark_benchmarks.page.rates import rate_bars, rate_table
from endmark_papers.experiments.report import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Report = dict[str, Any]


def _pipeline_tables(report: Report) -> list[Table]:
    [cell] = report["cells"]
    shares = report["shares"]
    return [
        rate_table(cell, "records/s"),
        _shares("Where a batch of endmark spends its time", "percent of it", shares["wall"]),
        _shares("Where endmark's Python uses the cores", "percent of all cores", shares["python"]),
    ]


def _auction_tables(report: Report) -> list[Table]:
    """Return the tables of the whole pipeline, with what each contender does not give."""
    (title, headings, rows), *shares = _pipeline_tables(report)
    with_lacks = [[*row, CONTENDERS[row[0]]] for row in rows]
    return [Table(title, (*headings, "does not give"), with_lacks), *shares]


def _shares(title: str, of: str, shares: Mapping[str, float]) -> Table:
    return Table(title, ("phase", of), [[name, f"{share:.1f}"] for name, share in shares.items()])


def _connection_tables(report: Report) -> list[Table]:
    """Return the rates, and the time that jobs spend. A ratio above 1 is a connection slower than none."""
    [cell] = report["cells"]
    return [rate_table(cell, "records/s"), *_times_spent(report["seconds"])]


def _pipeline_pictures(report: Report) -> list[str]:
    [cell] = report["cells"]
    of_time = {"wall clock": report["shares"]["wall"], "cores": report["shares"]["python"]}
    return [rate_bars(cell, "records"), stacked("Where the time goes, in percent", of_time)]


def _stage_tables(report: Report) -> list[Table]:
    [cell] = report["cells"]
    names = [f"p{each}" for each in PERCENTILES]
    rows = [
        [stage, *(f"{load['seconds'][name]:.2f}" for name in names), f"{load['feed_behind']:.2f}"]
        for stage, load in report["latency"].items()
    ]
    title = f"Seconds from intended arrival to visible, at {report['options']['fed']:,.0f} records/s"
    return [
        rate_table(cell, "records/s"),
        Table(title, ("groups in", *names, "feed behind"), rows),
        *_times_spent(report["seconds"]),
    ]


def _times_spent(spent: Mapping[str, Report]) -> list[Table]:
    return [
        _spent("Wall clock, by phase", "seconds for a million records", spent, "wall"),
        _spent("Cores, by phase of endmark's Python", "core seconds for a million records", spent, "python"),
    ]


def _spent(title: str, of: str, spent: Mapping[str, Report], kind: str) -> Table:
    """Return a table of what jobs spend by phase; the last job's phases come first."""
    found = {name: each[kind] for name, each in spent.items()}
    phases = dict.fromkeys(phase for each in reversed(list(found.values())) for phase in each)
    rows = [[phase, *(f"{each.get(phase, 0.0):.2f}" for each in found.values())] for phase in phases]
    rows.append(["all", *(f"{sum(each.values()):.2f}" for each in found.values())])
    return Table(title, (of, *found), rows)


def _stage_pictures(report: Report) -> list[str]:
    [cell] = report["cells"]
    return [rate_bars(cell, "records")]


def _latency_tables(report: Report) -> list[Table]:
    names = [f"p{each}" for each in PERCENTILES]
    rows = [
        [
            f"{load['share']:g} %",
            f"{load['rate']:,.0f}",
            *(f"{load['seconds'][name]:.2f}" for name in names),
            f"{load['feed_behind']:.2f}",
            f"{load['results']:,}",
        ]
        for load in report["loads"]
    ]
    headings = ("load", "records/s", *names, "feed behind", "results")
    found = [Table("Seconds from intended arrival to visible", headings, rows)]
    if search := report.get("search"):
        found.append(_searched(search))
    return found


def _searched(search: Mapping[str, Any]) -> Table:
    rows = [
        [
            f"{step['rate']:,.0f}",
            "no batch ended" if step["lag"] is None else f"{step['lag']:.2f}",
            f"{step['feed_behind']:.2f}",
        ]
        for step in search["steps"]
    ]
    headings = ("records/s", "lag, s", "feed behind, s")
    return Table(f"The highest rate, which ends at {search['bound']}", headings, rows)


def _latency_pictures(report: Report) -> list[str]:
    """Draw each load as a bar, in which each percentile is a part on top of the lower ones."""
    found: dict[str, dict[str, float]] = {}
    for load in report["loads"]:
        below = 0.0
        parts = found.setdefault(f"{load['share']:g} %", {})
        for name, seconds in load["seconds"].items():
            parts[name] = seconds - below
            below = seconds
    return [stacked("Seconds from intended arrival to visible", found)]


def _recovery_tables(report: Report) -> list[Table]:
    found = {name: medians(runs) for name, runs in report["runs"].items()}
    stages = next(iter(found.values()))
    rows = [[stage, *(f"{each[stage]:.2f}" for each in found.values())] for stage in stages]
    totals = [[sum(run.values()) for run in runs] for runs in report["runs"].values()]
    for name, of in (("all, median", median), ("all, least", min), ("all, most", max)):
        rows.append([name, *(f"{of(each):.2f}" for each in totals)])
    return [Table("Seconds until the first output, medians by stage", ("from", *found), rows)]


def _recovery_pictures(report: Report) -> list[str]:
    found = {name: medians(runs) for name, runs in report["runs"].items()}
    return [stacked("Seconds until the first output, medians by stage", found)]


def _sidecar_tables(report: Report) -> list[Table]:
    [cell] = report["cells"]
    names = {
        "requests a second": "requests_per_second",
        "median answer, ms": "p50_milliseconds",
        "p99, ms": "p99_milliseconds",
        "cores": "sidecar_cores",
    }
    rows = [[f"{answer[name]:,.2f}" for name in names.values()] for answer in report["answers"]]
    return [rate_table(cell, "records/s"), Table("The sidecar in each run", tuple(names), rows)]


def _profile_tables(report: Report) -> list[Table]:
    return [
        _thirds("Cores, by what uses them", "percent of all", report["cores"]),
        _thirds("Wall clock, by Spark's phases", "ms a batch", report["wall"]),
        _shares("What the JVM's tasks do, in the last third", "percent of samples", report["tasks"]),
    ]


def _thirds(title: str, of: str, found: Mapping[str, Mapping[str, float]]) -> Table:
    names = dict.fromkeys(name for each in reversed(list(found.values())) for name in each)
    rows = [[name, *(f"{each.get(name, 0.0):,.1f}" for each in found.values())] for name in names]
    return Table(title, (of, *found), rows)


def _profile_pictures(report: Report) -> list[str]:
    return [stacked("Cores, by what uses them, in percent", report["cores"])]


TABLES: dict[str, Callable[[Report], list[Table]]] = {
    "pipeline": _auction_tables,
    "three-streams": _pipeline_tables,
    "lookup-alone": _pipeline_tables,
    "further-stage": _stage_tables,
    "connections": _connection_tables,
    "latency": _latency_tables,
    "recovery": _recovery_tables,
    "sidecar": _sidecar_tables,
    "batch-profile": _profile_tables,
}
PICTURES: dict[str, Callable[[Report], list[str]]] = {
    "pipeline": _pipeline_pictures,
    "three-streams": _pipeline_pictures,
    "lookup-alone": _pipeline_pictures,
    "further-stage": _stage_pictures,
    "connections": _stage_pictures,
    "latency": _latency_pictures,
    "recovery": _recovery_pictures,
    "batch-profile": _profile_pictures,
}

"""The targets of the project, beside what the kept results have measured for each."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from endmark_benchmarks.page.costs import ratios as cost_ratios
from endmark_benchmarks.page.lookup_map import auto_ratios
from endmark_benchmarks.page.rates import PLAIN, span
from endmark_benchmarks.page.state import growth
from endmark_papers.experiments.report import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Report = dict[str, Any]
_HEADINGS = ("measured", "target", "found", "met", "repeat by")
_STREAM = {
    "spark-rocksdb": 15.0,
    "spark-heap": 8.0,
    "flink-heap": 5.0,
    "flink-rocksdb": 20.0,
    "pathway": 3.0,
    "duckdb": 0.15,
}
_SMALL_BATCHES = {"spark-rocksdb": 2.0, "spark-heap": 2.0}
_LEAST_ROWS = 10_000  # in a file of the large measurement; the one of small batches has smaller files
_LOOKUP = {
    "flink-lookup": {"uniform": 6.0, "zipf": 6.0},
    "flink-lookup-cached": {"uniform": 6.0, "zipf": 4.0},
    "spark-full-read": {"uniform": 3.0, "zipf": 3.0},
    "spark-in-list": {"uniform": 1.9, "zipf": 1.9},
    "memory": {"uniform": 0.9, "zipf": 0.9},
}
_PIPELINE = {
    "spark": 10.0,
    "flink-counting": 1.5,
    "flink-files": 2.5,
    "flink-counting-rocksdb": 5.0,
    "pathway": 3.0,
}
# Seconds, by percentile and by percent of the highest rate.
_LATENCY = {10.0: {"p50": 0.7, "p99": 1.5}, 50.0: {"p50": 1.5, "p99": 4.0}}
_CONNECTIONS = {
    "tls-and-login": ("over TLS with a login", 0.85),
    "avro": ("in Avro", 1.0),
    "s3": ("with tables and checkpoint in S3", 0.8),
}
_NEAR = 0.85  # of the best strategy's rate
_FAR = 10.0  # times as fast as Flink without a cache, milliseconds away
_PAYLOAD = 52  # bytes of a row's values in `extremes`
_PWJOIN = {1.0: 21.0, 5.0: 45.0, 15.0: 75.0}  # percent of state saved, by seconds of window


@dataclass(frozen=True)
class Target:
    """A figure that has a bar.

    Args:
        what: names the figure. Figures with the same name and the same bar share a line of the table.
        bar: the least or the most that is enough.
        measured: in the unit of the bar.
        unit: the unit of both.
        command: the target of `make` that measures it.
        most: whether the bar is the most that is allowed; by default it is the least.
    """

    what: str
    bar: float
    measured: float
    unit: str
    command: str
    most: bool = False

    @property
    def met(self) -> bool:
        return self.measured <= self.bar if self.most else self.measured >= self.bar


def targets_table(reports: Mapping[str, Report]) -> Table:
    """Return the table of targets from all kept reports, by their section or subject."""
    lines: dict[tuple[str, float], list[Target]] = {}
    for name, of in _ALL.items():
        for section, report in reports.items():
            if report.get("bench", section) == name:
                for target in of(report):
                    lines.setdefault((target.what, target.bar), []).append(target)
    return Table("Targets", _HEADINGS, [_line(targets) for targets in lines.values()])


def _line(targets: list[Target]) -> list[str]:
    """Return the line of figures with one name and one bar."""
    first = targets[0]
    bar = f"at {'most' if first.most else 'least'} {first.bar:,g} {first.unit}"
    found = f"{span([each.measured for each in targets], lambda value: f'{value:,.2f}')} {first.unit}"
    met = sum(each.met for each in targets)
    some = f"**{met} of {len(targets)}**" if met else "**no**"
    return [first.what, bar, found, "yes" if met == len(targets) else some, f"`make {first.command}`"]


def _stream(report: Report) -> Iterator[Target]:
    is_small = report["options"]["rows_per_file"] < _LEAST_ROWS
    for cell in report["cells"]:
        for contender, bar in (_SMALL_BATCHES if is_small else _STREAM).items():
            if contender in cell["contenders"]:
                what = f"stream join over {PLAIN[contender]}" + (f", {cell['title']}" if is_small else "")
                command = "bench-small-batches" if is_small else "bench"
                yield Target(what, bar, cell["contenders"][contender]["ratio"], "times", command)


def _lookup(report: Report) -> Iterator[Target]:
    for cell in report["cells"]:
        for contender, bars in _LOOKUP.items():
            far = cell["delay_ms"] > 0
            if contender not in cell["contenders"] or (far and contender != "flink-lookup"):
                continue
            where = f"{cell['keys']} keys, {cell['delay_ms']:g} ms away"
            bar = _FAR if far else bars[cell["keys"]]
            ratio = cell["contenders"][contender]["ratio"]
            yield Target(f"lookup over {PLAIN[contender]}, {where}", bar, ratio, "times", "bench-lookup")


def _pipeline(report: Report) -> Iterator[Target]:
    [cell] = report["cells"]
    ours = cell["contenders"]["endmark"]
    yield Target(
        "rate of the whole pipeline", 200.0, ours["median"] / 1e3, "thousand records/s", "bench-pipeline"
    )
    for contender, bar in _PIPELINE.items():
        if contender in cell["contenders"]:
            what = f"whole pipeline over {PLAIN[contender]}"
            yield Target(what, bar, cell["contenders"][contender]["ratio"], "times", "bench-pipeline")


def _connections(report: Report) -> Iterator[Target]:
    [cell] = report["cells"]
    for contender, (plain, bar) in _CONNECTIONS.items():
        if contender in cell["contenders"]:
            ratio = 1 / cell["contenders"][contender]["ratio"]
            what = f"whole pipeline {plain}, over JSON without a login on a disk"
            yield Target(what, bar, ratio, "times", "bench-connections")


def _latency(report: Report) -> Iterator[Target]:
    for load in report["loads"]:
        for name, bar in _LATENCY.get(load["share"], {}).items():
            what = f"latency at {load['share']:g} % of the highest rate, {name}"
            yield Target(what, bar, load["seconds"][name], "s", "bench-latency", most=True)


def _recovery(report: Report) -> Iterator[Target]:
    bars = {
        "start": ("from a job's start to its first output", 8.0),
        "kill -9": ("from kill -9 to the first output", 8.0),
    }
    for name, (what, bar) in bars.items():
        seconds = median(sum(run.values()) for run in report["runs"][name])
        yield Target(what, bar, seconds, "s", "bench-recovery", most=True)


def _sidecar(report: Report) -> Iterator[Target]:
    [cell] = report["cells"]
    alone, asked = (cell["contenders"][name]["median"] for name in ("alone", "asked"))
    what = f"cost of {report['options']['requests']:,g} requests a second to the sidecar"
    yield Target(what, 5.0, 100 * (1 - asked / alone), "% of the job's rate", "bench-sidecar", most=True)


def _map(report: Report) -> Iterator[Target]:
    runs = report["runs"]
    sizes = " and ".join(f"{rows:,}" for rows in dict.fromkeys(run["relation_rows"] for run in runs))
    memories = " and ".join(f"{waits}" for waits in dict.fromkeys(run["waits"] for run in runs))
    what = f"lookup by `auto` over the best other strategy, R of {sizes} rows, {memories} MB for waiting rows"
    for ratio in auto_ratios(runs):
        yield Target(what, _NEAR, ratio, "times", "bench-lookup-map")


def _live_state(report: Report) -> Iterator[Target]:
    first, *_, last = (each["live_rows"] for each in report["windows"])
    what = f"time of a batch with {last:,} live rows over one with {first:,}"
    yield Target(what, 1.3, growth(report), "times", "bench-live-state", most=True)


def _extremes(report: Report) -> Iterator[Target]:
    command = "bench-extremes"
    found = {name: each["figures"] for name, each in report["scenarios"].items()}
    for each in found["live rows"]:
        what = "a closing, of 10,000 in a batch"
        yield Target(what, 2.0, each["us a closing"], "us", command, most=True)
    bytes_a_row = max(each["durable bytes a row"] for each in found["live rows"])
    yield Target("durable state of a live row", _PAYLOAD + 24.0, bytes_a_row, "bytes", command, most=True)
    [interval], [purging], [nothing] = (
        found[name] for name in ("an interval", "purging at once", "closing nothing")
    )
    yield Target("an interval that closes a million rows", 50.0, interval["ms"], "ms", command, most=True)
    what = "purging at once over purging every 10 batches"
    yield Target(what, 1.1, purging["eager / lazy"], "times", command, most=True)
    what = "rate of the join with punctuations that match nothing over the rate without"
    yield Target(what, 0.97, nothing["with / without"], "times", command)


def _nary(report: Report) -> Iterator[Target]:
    for name, found in report["workloads"].items():
        one, chain = found["one operator"], found["chain of two"]
        what = "three streams on one key, one operator over a chain of two"
        rate = one["rows_a_second"] / chain["rows_a_second"]
        yield Target(f"{what}: rate, {name}", 1.0, rate, "times", "bench-nary")
        state = one["most_bytes"] / chain["most_bytes"]
        yield Target(f"{what}: state, {name}", 1.0, state, "times", "bench-nary", most=True)


def _three_streams(report: Report) -> Iterator[Target]:
    [cell] = report["cells"]
    for contender in ("spark-rocksdb", "spark-heap"):
        what = f"three streams on one key over a chain of two joins, {PLAIN[contender]}"
        yield Target(what, 1.0, cell["contenders"][contender]["ratio"], "times", "bench-three-streams")


def _costs(report: Report) -> Iterator[Target]:
    """Yield the targets of predicted costs: the median and the worst deviation from what was measured."""
    for found in cost_ratios(report).values():
        percents = [100 * abs(1 - ratio) for ratio in found]
        for name, of in (("median", median), ("worst", max)):
            what = f"error of a strategy's predicted cost, {name}"
            yield Target(what, 15.0, of(percents), "%", "bench-costs", most=True)


def _operators(report: Report) -> Iterator[Target]:
    for each in report["window_state"]:
        seconds = each["window_seconds"]
        what = f"share of WJoin's state that PWJoin saves, window of {seconds:g} s"
        yield Target(what, _PWJOIN[seconds], each["saved_percent"]["mean"], "%", "docs")
    ratio = min(each["counted"]["mean"] / each["meshjoin"] for each in report["pages"] if _aligned(each))
    yield Target("rows answered by a page read, HYBRIDJOIN over MESHJOIN", 2.0, ratio, "times", "docs")


def _aligned(pages: Report) -> bool:
    return bool(pages["pages"] == "aligned")


_ALL: dict[str, Callable[[Report], Iterator[Target]]] = {
    "stream-join": _stream,
    "lookup-join": _lookup,
    "pipeline": _pipeline,
    "connections": _connections,
    "latency": _latency,
    "recovery": _recovery,
    "sidecar": _sidecar,
    "lookup-map": _map,
    "live-state": _live_state,
    "extremes": _extremes,
    "nary-join": _nary,
    "three-streams": _three_streams,
    "costs": _costs,
    "operators": _operators,
}

"""The targets of the project, beside what the kept results say of each."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from endmark_benchmarks.page.costs import ratios as cost_ratios
from endmark_benchmarks.page.lookup_map import auto_ratios
from endmark_benchmarks.page.state import growth
from endmark_papers.experiments.report import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Report = dict[str, Any]
_HEADINGS = ("target", "bar", "measured", "met", "by")
_STREAM = (
    ("Spark, state in RocksDB", "spark-rocksdb", 15.0),
    ("Spark, state on the heap", "spark-heap", 8.0),
    ("Flink, state on the heap", "flink-heap", 5.0),
    ("Flink, state in RocksDB", "flink-rocksdb", 20.0),
    ("DuckDB, all at once", "duckdb", 0.2),
)
_LOOKUP = (
    ("Flink without a cache", "flink-lookup", {"uniform": 6.0, "zipf": 6.0}),
    ("Flink with a cache", "flink-lookup-cached", {"uniform": 6.0, "zipf": 4.0}),
    ("Spark reading all of R", "spark-full-read", {"uniform": 15.0, "zipf": 15.0}),
    ("Spark's lists of keys", "spark-in-list", {"uniform": 4.0, "zipf": 4.0}),
    ("all of R in memory", "memory", {"uniform": 0.25, "zipf": 0.25}),
)
_NEAR = 0.85  # of the best strategy's rate
_FAR = 10.0  # times as fast as Flink without a cache, milliseconds away
_PAYLOAD = 52  # bytes of a row's values in `extremes`
_PWJOIN = {1.0: 21.0, 5.0: 45.0, 15.0: 75.0}  # percent of state saved, by seconds of window


@dataclass(frozen=True)
class Target:
    """One line.

    Args:
        what: is measured.
        bar: what is enough.
        measured: in the unit of the bar.
        unit: behind both.
        command: that measures it.
        most: whether the bar is the most that is allowed, and not the least.
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

    def row(self) -> list[str]:
        bound = "at most" if self.most else "at least"
        figures = (f"{bound} {self.bar:,g} {self.unit}", f"{self.measured:,.2f} {self.unit}")
        return [self.what, *figures, "yes" if self.met else "**no**", f"`make {self.command}`"]


def targets_table(reports: Mapping[str, Report]) -> Table:
    """Return the table of targets from all kept reports, by their section or subject."""
    found = [
        target
        for name, of in _ALL.items()
        for section, report in reports.items()
        if report.get("bench", section) == name
        for target in of(report)
    ]
    return Table("Targets", _HEADINGS, [target.row() for target in found])


def _stream(report: Report) -> Iterator[Target]:
    for cell in report["cells"]:
        for name, contender, bar in _STREAM:
            if contender in cell["contenders"]:
                ratio = cell["contenders"][contender]["ratio"]
                yield Target(f"stream join over {name}, {cell['title']}", bar, ratio, "times", "bench")


def _lookup(report: Report) -> Iterator[Target]:
    for cell in report["cells"]:
        for name, contender, bars in _LOOKUP:
            far = cell["delay_ms"] > 0
            if contender not in cell["contenders"] or (far and contender != "flink-lookup"):
                continue
            bar = _FAR if far else bars[cell["keys"]]
            ratio = cell["contenders"][contender]["ratio"]
            yield Target(f"lookup over {name}, {cell['title']}", bar, ratio, "times", "bench-lookup")


def _pipeline(report: Report) -> Iterator[Target]:
    [cell] = report["cells"]
    ours, theirs = cell["contenders"]["endmark"], cell["contenders"]["spark"]
    yield Target("whole pipeline", 100.0, ours["median"] / 1e3, "thousand records/s", "bench-pipeline")
    yield Target("whole pipeline over Spark's own operators", 5.0, theirs["ratio"], "times", "bench-pipeline")


def _latency(report: Report) -> Iterator[Target]:
    for load in report["loads"]:
        if load["share"] == 50.0:
            for name, bar in (("p50", 1.5), ("p99", 4.0)):
                what = f"latency at half of the highest rate, {name}"
                yield Target(what, bar, load["seconds"][name], "s", "bench-latency", most=True)


def _recovery(report: Report) -> Iterator[Target]:
    bars = {"start": ("from a job's start to its first output", 8.0), "kill -9": ("from kill -9 to it", 20.0)}
    for name, (what, bar) in bars.items():
        seconds = median(sum(run.values()) for run in report["runs"][name])
        yield Target(what, bar, seconds, "s", "bench-recovery", most=True)


def _sidecar(report: Report) -> Iterator[Target]:
    [cell] = report["cells"]
    alone, asked = (cell["contenders"][name]["median"] for name in ("alone", "asked"))
    what = f"what {report['options']['requests']:,g} requests a second to the sidecar cost its job"
    yield Target(what, 5.0, 100 * (1 - asked / alone), "% of its rate", "bench-sidecar", most=True)


def _map(report: Report) -> Iterator[Target]:
    ratios = auto_ratios(report["runs"])
    near = sum(ratio >= _NEAR for ratio in ratios)
    sizes = " and ".join(
        f"{rows:,}" for rows in dict.fromkeys(run["relation_rows"] for run in report["runs"])
    )
    what = f"lookup by `auto` over the best other strategy, R of {sizes} rows"
    said = f"{what}, where it is worst; {near} of {len(ratios)} cells reach it"
    yield Target(said, _NEAR, min(ratios), "times", "bench-lookup-map")


def _live_state(report: Report) -> Iterator[Target]:
    first, *_, last = (each["live_rows"] for each in report["windows"])
    what = f"time of a batch with {last:,} live rows over one with {first:,}"
    yield Target(what, 1.3, growth(report), "times", "bench-live-state", most=True)


def _extremes(report: Report) -> Iterator[Target]:
    command = "bench-extremes"
    found = {name: each["figures"] for name, each in report["scenarios"].items()}
    for each in found["live rows"]:
        what = f"a closing, of 10,000 in a batch, {each['live rows']:,} rows live"
        yield Target(what, 2.0, each["us a closing"], "us", command, most=True)
    bytes_a_row = max(each["durable bytes a row"] for each in found["live rows"])
    yield Target("durable state of a live row", _PAYLOAD + 24.0, bytes_a_row, "bytes", command, most=True)
    [interval], [purging], [nothing] = (
        found[name] for name in ("an interval", "purging at once", "closing nothing")
    )
    yield Target("an interval that closes a million rows", 50.0, interval["ms"], "ms", command, most=True)
    what = "purging at once over purging every 10 batches"
    yield Target(what, 1.1, purging["eager / lazy"], "times", command, most=True)
    what = "rate with punctuations that match nothing over that without, the join alone"
    yield Target(what, 0.97, nothing["with / without"], "times", command)


def _costs(report: Report) -> Iterator[Target]:
    """Yield the targets of predicted costs: the median and the worst deviation from what was measured."""
    for strategy, found in cost_ratios(report).items():
        percents = [100 * abs(1 - ratio) for ratio in found]
        for name, of in (("in the middle", median), ("at worst", max)):
            what = f"predicted cost of a loop of {strategy} off the measured one, {name}"
            yield Target(what, 15.0, of(percents), "%", "bench-costs", most=True)


def _operators(report: Report) -> Iterator[Target]:
    for each in report["window_state"]:
        seconds = each["window_seconds"]
        what = f"state that PWJoin saves of WJoin's, window of {seconds:g} s"
        yield Target(what, _PWJOIN[seconds], each["saved_percent"]["mean"], "%", "docs")
    ratio = min(each["counted"]["mean"] / each["meshjoin"] for each in report["pages"] if _aligned(each))
    yield Target("rows a page read of HYBRIDJOIN over MESHJOIN's", 2.0, ratio, "times", "docs")


def _aligned(pages: Report) -> bool:
    return bool(pages["pages"] == "aligned")


_ALL: dict[str, Callable[[Report], Iterator[Target]]] = {
    "stream-join": _stream,
    "lookup-join": _lookup,
    "pipeline": _pipeline,
    "latency": _latency,
    "recovery": _recovery,
    "sidecar": _sidecar,
    "lookup-map": _map,
    "live-state": _live_state,
    "extremes": _extremes,
    "costs": _costs,
    "operators": _operators,
}

"""CPU time and rates of the auction on a Spark standalone cluster, by executors and by buckets:
`make bench-cluster`, as root.

The executors are on one machine with the driver, the broker and the database. Each run has two parts. In the
first one, all of them share the machine, and their CPU time is counted. In the second one, each executor has
a limited share of a core, and all of them leave enough of the machine to the other parts. So rates by
executors are those of a cluster of slow cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from cluster.control_group import ControlGroup
from cluster.packaged_job import arguments
from cluster.stage_model import Span, between, predicted_seconds
from cluster.standalone import PackagedCluster
from endmark_benchmarks.contenders.job import Job, wait_until
from endmark_benchmarks.harness.contest import Digest, interleaved
from endmark_benchmarks.harness.delta import digests
from endmark_benchmarks.harness.job_contest import BatchTime, samples_of
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads.auction import MEASURED, recorded, workload
from endmark_benchmarks.workloads.recorded import Servers, running
from endmark_feed.options import Partitions
from support.cluster_page import RESULTS, SCALE_OUT, write_page
from support.processes import descendants

RECORDINGS = Path(__file__).parents[2] / "var" / "bench"
# As many partitions as the most executors: a partition is read by one task.
FEED = replace(workload(seconds=300, rate=20_000, sellers=500_000), partitions=Partitions(items=8, bids=8))
BATCH_RECORDS = 400_000
SHARE = 0.15  # of a core for each executor: eight of them leave 0.8 of two cores
WARM_BATCHES, FREE_BATCHES, LIMITED_BATCHES = 6, 5, 2
REPEATS = 1
_SECONDS = 600.0
_LOOK_SECONDS = 0.1


class Cell(NamedTuple):
    """The executors of a run, one core each, and the buckets of its job."""

    executors: int
    buckets: int


CELLS = (Cell(1, 8), Cell(2, 8), Cell(4, 8), Cell(8, 8), Cell(2, 2), Cell(2, 64))


class Moment(NamedTuple):
    """The time of the end of a batch, in seconds since 1970, and the CPU seconds of each part so far."""

    at: float
    cpu: dict[str, float]


class Run(NamedTuple):
    """A run of a cell: its figures, and its batches before and after its executors were limited."""

    figures: dict[str, Any]
    free: Span
    limited: Span


@dataclass(frozen=True)
class Parts:
    """The control groups of all parts: `driver`, `broker`, `database`, and one for each executor."""

    others: dict[str, ControlGroup]
    executors: list[ControlGroup]

    def limit(self, cores: float | None) -> None:
        """Limit each executor to a share of a core; `None` is no limit."""
        for each in self.executors:
            each.limit(cores)

    def now(self) -> Moment:
        cpu = {name: each.seconds() for name, each in self.others.items()}
        return Moment(time.time(), cpu | {"executors": sum(each.seconds() for each in self.executors)})


def measure(cluster: PackagedCluster, parts: Parts, job: Job, cell: Cell) -> Run:
    """Run a job on all records, and return its figures once it is warm.

    Returns:
        A run with these figures:

        cpu: CPU seconds for a million records, by part, while the parts share the machine.
        shuffled: bytes of a record in shuffles.
        rate: records a second with limited executors.
        cpu_limited: the CPU seconds of limited executors for a million records.
        idle: the seconds of a batch in which no task runs, with limited executors.
    """
    settings = [*MEASURED.settings, f"batch.records={BATCH_RECORDS}", "batch.every=0s"]
    more = ["--available-now", *(f"--set={setting}" for setting in settings)]
    place = job.servers.bootstrap, job.warehouse, job.directory / "checkpoint", job.ops_url
    events = job.directory / "events"
    events.mkdir()
    conf = {
        # Java's second compiler pays for what runs for minutes, and would compile in each executor.
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    parts.limit(None)
    process = cluster.submit(
        *arguments(*place, *more, buckets=cell.buckets), executors=cell.executors, conf=conf
    )
    parts.others["driver"].add(process.pid)

    def at_the_end_of(batches: int) -> Moment:
        wait_until(lambda: len(job.batches()) >= batches, process, _LOOK_SECONDS)
        return parts.now()

    warm = at_the_end_of(WARM_BATCHES)
    free = at_the_end_of(WARM_BATCHES + FREE_BATCHES)
    parts.limit(SHARE)
    limited = at_the_end_of(WARM_BATCHES + FREE_BATCHES + LIMITED_BATCHES)
    parts.limit(None)
    process.wait_done(_SECONDS)
    # The rate is that of the batches' own times, since a batch ends between two looks.
    batches = [
        BatchTime.of(each) for each in samples_of(job)[WARM_BATCHES + FREE_BATCHES :][:LIMITED_BATCHES]
    ]
    spans = between(events, warm.at, free.at), between(events, free.at, limited.at)
    figures = {
        "cpu": _per_million(warm, free, FREE_BATCHES),
        "shuffled": spans[0].shuffled / (FREE_BATCHES * BATCH_RECORDS),
        "rate": sum(each.records for each in batches) / sum(each.seconds for each in batches),
        "cpu_limited": _per_million(free, limited, LIMITED_BATCHES)["executors"],
        "idle": spans[1].idle / LIMITED_BATCHES,
    }
    return Run(figures, *spans)


def _per_million(begin: Moment, end: Moment, batches: int) -> dict[str, float]:
    """Return the CPU seconds of each part for a million records, between the ends of two batches."""
    millions = batches * BATCH_RECORDS / 1e6
    return {name: (used - begin.cpu[name]) / millions for name, used in end.cpu.items()}


def measured(
    cluster: PackagedCluster, parts: Parts, servers: Servers, directory: Path
) -> dict[Cell, list[Run]]:
    """Measure all cells in turn; all runs must give the same tables."""
    found: dict[Cell, list[Run]] = defaultdict(list)
    expected: list[Digest] = []
    for repeat, cell in interleaved(CELLS, REPEATS):
        job = Job(directory / f"{repeat}-{cell.executors}-{cell.buckets}", servers)
        job.directory.mkdir()
        found[cell].append(measure(cluster, parts, job, cell))
        given = digests(job.pipeline, job.warehouse)
        expected = expected or given
        assert given == expected, f"{cell}: {given}, and not {expected}"
        print(f"{cell}: {found[cell][-1].figures}", flush=True)
    return found


def cells(found: dict[Cell, list[Run]]) -> list[dict[str, Any]]:
    """Return the figures of all cells, with the rates that the runs with one executor predict."""
    reported = []
    for cell, runs in found.items():
        alone = [run.limited for run in found.get(Cell(1, cell.buckets), [])]
        rates = [rate(span, LIMITED_BATCHES, cell.executors) for span in alone]
        predicted = {"predicted": round(statistics.median(rates))} if rates else {}
        reported.append({**cell._asdict(), **_median([run.figures for run in runs]), **predicted})
    return reported


def on_cores(found: dict[Cell, list[Run]]) -> dict[str, int]:
    """Return the predicted rate by executors, each with a core of its own."""
    buckets = max(cell.executors for cell in CELLS)
    alone = [run.free for run in found[Cell(1, buckets)]]
    counts = sorted({cell.executors for cell in CELLS})
    return {
        str(count): round(statistics.median(rate(span, FREE_BATCHES, count) for span in alone))
        for count in counts
    }


def rate(span: Span, batches: int, executors: int) -> float:
    """Return the predicted records a second, given a span of full batches with one executor."""
    return batches * BATCH_RECORDS / predicted_seconds(span, executors)


def _median(runs: list[Any]) -> Any:
    """Return the median of each number of reports that are alike."""
    if isinstance(runs[0], dict):
        return {name: _median([each[name] for each in runs]) for name in runs[0]}
    return round(statistics.median(runs), 3)


@contextmanager
def parts_of(cluster: PackagedCluster, servers: dict[str, int]) -> Iterator[Parts]:
    """Put servers, by their process ids, and new workers into control groups."""
    with ExitStack() as groups:

        def group(name: str, *pids: int) -> ControlGroup:
            made = groups.enter_context(ControlGroup(name))
            for pid in pids:
                made.add(pid)
            return made

        others = {name: group(name, pid) for name, pid in servers.items()}
        workers = [cluster.start_worker() for _ in range(max(cell.executors for cell in CELLS))]
        executors = [group(f"executor-{number}", each.pid) for number, each in enumerate(workers)]
        yield Parts({**others, "driver": group("driver")}, executors)


def _child(program: str) -> int:
    """Return the only process of a program that this one has started."""
    [found] = [
        pid for pid in descendants(os.getpid()) if Path(f"/proc/{pid}/comm").read_text().strip() == program
    ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="what infra/package.sh has made")
    package: Path = parser.parse_args().package

    def say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    options = {
        "records": FEED.ticks,
        "partitions": FEED.partitions.bids,
        "batch_records": BATCH_RECORDS,
        "share": SHARE,
        "repeats": REPEATS,
    }
    with running(recorded(RECORDINGS, FEED), say) as servers, tempfile.TemporaryDirectory() as scratch:
        report = {**origin(), "options": options}
        os.environ["ENDMARK_RELATION_URL"] = servers.relation_url
        pids = {"broker": _child("java"), "database": _child("mariadbd")}
        with PackagedCluster(Path(scratch), package.resolve()) as cluster, parts_of(cluster, pids) as parts:
            found = measured(cluster, parts, servers, Path(scratch))
            report |= {"cells": cells(found), "on_cores": on_cores(found)}
    (RESULTS / f"{SCALE_OUT}.json").write_text(json.dumps(report, indent=1) + "\n")
    write_page()


if __name__ == "__main__":
    main()

"""`python -m endmark_benchmarks recovery`: from a job's start, and from kill -9, to its first output.

The job is started on topics that hold records, killed after some batches, and started again from its
checkpoint. Output is what a Delta commit shows in the table of results.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.demo.choreography import json_lines
from endmark.metrics import sample
from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.contenders.job import Job, wait_until
from endmark_benchmarks.harness.delta import commits
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads.auction import recorded, workload
from endmark_benchmarks.workloads.recorded import running

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from endmark.control.ops_database.batches import FinishedBatch
    from endmark.embedded.process import ManagedProcess
    from endmark_benchmarks.workloads.recorded import Recorded

# What a job says when a stage of its start is over, by how it begins.
STAGES = {
    "Python": "checking relation ",
    "relation's gate": "relation ",
    "topics and tables": "starting Spark",
    "Spark session": "Spark is up",
    "query": "running",
}
_OFTEN = 0.02
_SELDOM = 0.25  # seconds; asking takes time that the job would have
_TASKS = sample("compute_seconds")
_TABLE = sample("write_seconds", table="results")


@dataclass(frozen=True)
class RecoveryOptions:
    """The options of the measurement.

    Args:
        records: in both topics, enough for all batches until the kill and some more.
        batch_records: of both topics at once.
        sellers: rows of R.
        rate: records for each second of event time.
        batches: before the kill.
        repeats: starts and kills.
        directory: of recorded input, which is made when it is not there.
    """

    records: int
    batch_records: int
    sellers: int
    rate: float
    batches: int
    repeats: int
    directory: Path

    @property
    def recorded(self) -> Recorded:
        return recorded(self.directory, workload(self.records / self.rate, self.rate, self.sellers))


def measure(options: RecoveryOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Start and kill as often as told, and report seconds by stage as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, or a job ended by itself.
    """
    said = {name: value for name, value in asdict(options).items() if name != "directory"}
    report: dict[str, Any] = {"bench": "recovery", **origin(), "options": said}
    local_jars(say)
    runs: dict[str, list[dict[str, float]]] = {"start": [], "kill -9": []}
    with running(options.recorded, say) as servers:
        for repeat in range(options.repeats):
            with tempfile.TemporaryDirectory(prefix="endmark-bench-") as work:
                job = Job(Path(work), servers)
                process, took = _first_output(job, options)
                runs["start"].append(took)
                _let_run(job, process, options.batches)
                process, took = _first_output(job, options)
                process.kill()
                runs["kill -9"].append(took)
            last = ", ".join(f"{name} {sum(each[-1].values()):.1f} s" for name, each in runs.items())
            say(f"{repeat + 1}: {last}")
    report["runs"] = runs
    return report


def medians(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each stage over the runs."""
    return {stage: statistics.median(run[stage] for run in runs) for stage in runs[0]}


def _let_run(job: Job, process: ManagedProcess, batches: int) -> None:
    """Kill it after so many more batches."""
    enough = len(job.batches()) + batches
    wait_until(lambda: len(job.batches()) >= enough, process, _SELDOM)
    process.kill()


def _first_output(job: Job, options: RecoveryOptions) -> tuple[ManagedProcess, dict[str, float]]:
    """Start the job; seconds by stage, until the table of results shows what it did."""
    results = job.warehouse / job.pipeline.outputs.directories["results"]
    began = time.time()
    process = job.start(f"--set=batch.records={options.batch_records}", "--set=batch.every=0s")
    heard: dict[str, float] = {}

    def has_output() -> bool:
        _listen(process, heard)
        return any(commit.time > began and commit.files for commit in commits(results))

    def has_batch() -> bool:
        return any(batch.committed_at > began for batch in job.batches())

    try:
        wait_until(has_output, process, _OFTEN)
        wait_until(has_batch, process, _SELDOM)
    except BaseException:
        process.kill()
        raise
    output = min(commit.time for commit in commits(results) if commit.time > began and commit.files)
    first = next(batch for batch in job.batches() if batch.committed_at > began)
    return process, stages(began, heard, output, first)


def _listen(process: ManagedProcess, heard: dict[str, float]) -> None:
    """Note when what ends a stage was heard for the first time."""
    events = [str(line["event"]) for line in json_lines(process.log) if "event" in line]
    for stage, end in STAGES.items():
        if stage not in heard and any(event.startswith(end) for event in events):
            heard[stage] = time.time()


def stages(began: float, heard: Mapping[str, float], output: float, first: FinishedBatch) -> dict[str, float]:
    """Seconds of each stage, which add up to those from the beginning to the first output.

    Args:
        began, output: in Unix seconds.
        heard: when each of `STAGES` was over, likewise.
        first: the first batch after the beginning, whose tasks and table are stages.
    """
    found, before = {}, began
    for stage in STAGES:
        found[stage] = heard[stage] - before
        before = heard[stage]
    tasks, table = first.samples[_TASKS], first.samples.get(_TABLE, 0.0)
    found["plan of the first batch"] = output - before - tasks - table
    found["its tasks"] = tasks
    found["its table"] = table
    return {stage: round(seconds, 3) for stage, seconds in found.items()}

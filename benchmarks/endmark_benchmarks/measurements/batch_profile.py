"""The profile of a stream join's batches: where they spend their time, in the first two thirds of a run.

Cores by kind of thread, from /proc; wall clock as Spark's progress has it. In the last third the JVM's flight
recorder samples what tasks do; it makes the JVM compile much anew, so the rest is not measured beside it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import typer
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from endmark.embedded.jars import spark_jars
from endmark.embedded.java import require_java
from endmark_benchmarks.contenders import query
from endmark_benchmarks.contenders.stream_run import ours
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads import stream_input
from endmark_benchmarks.workloads.stream_input import STREAM_DDL, figures_of

RESULTS = Path(__file__).parents[2] / "results" / "batch_profile.json"
_TICKS = 100.0
# By how a thread's name begins, as Linux has it: 15 letters at most.
_THREADS = {
    "Executor task": "JVM, tasks",
    "stream executi": "JVM, planning and logs",
    "C1 Compiler": "JVM, compiling",
    "C2 Compiler": "JVM, compiling",
    "GC Thread": "JVM, collecting garbage",
    "rocksdb": "JVM, RocksDB",
}
# By what a frame is called, innermost first; the first that fits counts.
_WORK = {
    "AggregatingAccumulator": "digest of the results, which is the bench's",
    "parquet": "reading Parquet",
    "ArrowFieldWriter": "rows to Arrow",
    "ArrowWriter": "rows to Arrow",
    "columnartorow": "columns to rows",
    "UnsafeProjection": "rows of Spark",
    "streaming/state": "state store",
    "shuffle/": "shuffle",
    "ObjectInputStream": "starting tasks",
}


def cpu_seconds(jvm: int) -> dict[str, float]:
    """CPU seconds of the JVM so far by kind of thread, and of the Python processes below it."""
    found: dict[str, float] = defaultdict(float)
    for thread in Path(f"/proc/{jvm}/task").iterdir():
        name, used, _ = _used(thread)
        kind = next((kind for begins, kind in _THREADS.items() if name.startswith(begins)), "JVM, others")
        found[kind] += used
    _, whole, _ = _used(Path(f"/proc/{jvm}"))
    # Threads that give a task's Python its rows and its state are gone with the task.
    found["JVM, rows and state for Python"] = whole - sum(found.values())
    parents = [jvm]
    while parents:
        parents = [int(child) for parent in parents for child in _children(parent)]
        for process in parents:
            _, used, of_ended = _used(Path(f"/proc/{process}"))
            found["Python, tasks"] += used + of_ended
    return found


def _children(process: int) -> list[str]:
    try:
        return [
            child
            for task in Path(f"/proc/{process}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except FileNotFoundError:
        return []


def _used(place: Path) -> tuple[str, float, float]:
    """Name of a process or thread, its CPU seconds, and those of its children that have ended."""
    try:
        line = (place / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0.0, 0.0
    name, figures = line[line.index("(") + 1 :].rsplit(")", 1)
    own, ended = figures.split()[11:13], figures.split()[13:15]
    return name, sum(map(int, own)) / _TICKS, sum(map(int, ended)) / _TICKS


class Recorder:
    """Notes the CPU used so far when a batch is committed, and samples the last third.

    It looks for the batches' commits: a listener of Spark's took a tenth of the cores.

    Args:
        spark: the session.
        batches: the number of batches of the run.
        work: a directory for its samples.
    """

    def __init__(self, spark: SparkSession, batches: int, work: Path) -> None:
        java: Any = spark.sparkContext._jvm
        self._jvm = int(java.java.lang.ProcessHandle.current().pid())
        self._batches = batches
        self._commits = work / "checkpoint" / "commits"
        self._samples = work / "samples.jfr"
        self.marks: list[tuple[float, dict[str, float]]] = []

    def watch(self, running: StreamingQuery) -> None:
        """Watch a query until it ends."""
        while running.isActive:
            if (self._commits / str(len(self.marks))).exists():
                self.marks.append((monotonic(), cpu_seconds(self._jvm)))
                if len(self.marks) == 2 * (self._batches // 3):
                    self._tell("JFR.start", "name=batches", "settings=profile")
            sleep(0.02)
        running.awaitTermination()
        self._tell("JFR.stop", "name=batches", f"filename={self._samples}")

    def _tell(self, *words: str) -> None:
        jcmd = require_java().with_name("jcmd")
        subprocess.run([jcmd, str(self._jvm), *words], check=True, capture_output=True)

    def cores(self, first: int, last: int) -> dict[str, float]:
        """Percent of all cores from the end of one batch to the end of another."""
        (started, before), (ended, after) = self.marks[first], self.marks[last]
        whole = query.CORES * (ended - started)
        used = {kind: 100 * (after[kind] - before.get(kind, 0.0)) / whole for kind in after}
        return _by_size(used | {"idle, or others'": 100 - sum(used.values())})


def task_work(samples: Path) -> dict[str, float]:
    """Percent of the samples of the JVM's tasks, by what they do."""
    events = ["--events", "jdk.ExecutionSample", "--stack-depth", "64", str(samples)]
    printed = subprocess.check_output([require_java().with_name("jfr"), "print", "--json", *events])
    found: Counter[str] = Counter()
    for event in json.loads(printed)["recording"]["events"]:
        thread = event["values"]["sampledThread"] or {}
        if (thread.get("javaName") or "").startswith("Executor task"):
            frames = event["values"]["stackTrace"]["frames"]
            found[_work(f"{each['method']['type']['name']}.{each['method']['name']}" for each in frames)] += 1
    return _by_size({work: 100 * count / found.total() for work, count in found.items()})


def _work(frames: Iterable[str]) -> str:
    for frame in frames:
        for part, work in _WORK.items():
            if part in frame:
                return work
    return "other"


def wall(progress: list[dict[str, Any]]) -> dict[str, float]:
    """Milliseconds a batch, by what Spark tells of it; `addBatch` begins with planning the tasks."""
    phases = Counter[str]()
    for each in progress:
        phases.update(each["durationMs"])
    return {phase: round(spent / len(progress), 1) for phase, spent in phases.most_common()}


def _by_size(shares: dict[str, float]) -> dict[str, float]:
    return {name: round(share, 1) for name, share in sorted(shares.items(), key=lambda each: -each[1])}


def main(files: int = 60, rows: int = 100_000, files_per_batch: int = 1, results: Path = RESULTS) -> None:
    """Run the stream join over recorded streams, and keep where its time went.

    Args:
        files: seconds of event time of each stream, one file each.
        rows: rows of a file.
        files_per_batch: files of each stream in a batch.
        results: the directory of result files.
    """
    options = {"files": files, "rows_per_file": rows, "files_per_batch": files_per_batch}
    report = {"bench": "batch-profile", **origin(), "options": options}
    recorded = stream_input.recorded(Path("var/bench"), files, rows, print)
    spark = query.session("batch profile", [str(jar) for jar in spark_jars(print)], driver_memory="6g")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        a, b = (query.files(spark, recorded / side, STREAM_DDL, files_per_batch) for side in ("a", "b"))
        recorder = Recorder(spark, -(-files // files_per_batch), Path(work))
        try:
            figures = figures_of("unix_micros(left_ts)", "unix_micros(right_ts)")
            writer = query.digested(ours(a, b), figures)
            started = writer.option("checkpointLocation", f"{work}/checkpoint").trigger(availableNow=True)
            running = started.start()
            recorder.watch(running)
            found = query.progress_of(running)
            whole = [each for each in found if each["numInputRows"] == 2 * rows * files_per_batch]
            report["tasks"] = task_work(Path(work) / "samples.jfr")
        finally:
            spark.stop()
    third = len(whole) // 3
    thirds = {"first third": (0, third), "second third": (third, 2 * third)}
    report["cores"] = {name: recorder.cores(*place) for name, place in thirds.items()}
    report["wall"] = {name: wall(whole[slice(*place)]) for name, place in thirds.items()}
    results.write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps({name: report[name] for name in ("cores", "wall", "tasks")}, indent=1))


if __name__ == "__main__":
    typer.run(main)

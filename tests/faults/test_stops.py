"""How a job ends: asked to by a signal, by a fault in a task, or by a directory that cannot be."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from endmark.control.ops_database.database import OpsDatabase
from endmark.embedded.broker import Broker
from endmark.embedded.jars import spark_jars
from endmark_feed.auction_feed import FeedOptions
from support.warehouse import Warehouse, wait_for

OPTIONS = FeedOptions(seed=3, minutes=0.2, rate=500, sellers=500)
DONE, FAILED, USAGE = 0, 1, 2
ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-m", "endmark.cli"]
SMALL = "--set=batch.records=200"  # so that records are left when a busy machine does something late


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """A broker that holds the whole workload, and its relation."""
    directory = tmp_path_factory.mktemp("stops")
    with Broker(directory / "broker") as broker:
        warehouse = Warehouse(directory, broker, f"sqlite:///{directory / 'sellers.db'}", OPTIONS)
        warehouse.feed()
        yield warehouse


class Job:
    """A job as the first process of a group of its own, as a service manager or a terminal starts it."""

    def __init__(self, warehouse: Warehouse, *extra: str, program: Sequence[str] = PROGRAM) -> None:
        directory = warehouse.directory
        self.log = directory / f"job-{time.monotonic_ns()}.log"
        options = [f"--checkpoint={directory / 'checkpoint'}", f"--warehouse={directory / 'warehouse'}"]
        options += [f"--bootstrap={warehouse.broker.bootstrap}", f"--ops-url={warehouse.ops_url}", *extra]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*program, "run", str(warehouse.pipeline), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "ENDMARK_RELATION_URL": warehouse.relation_url},
                process_group=0,
            )

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """End all of its processes, whatever came of it."""
        if self.running:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def signal_group(self, number: signal.Signals) -> None:
        os.killpg(self.process.pid, number)

    def end(self, seconds: float = 300) -> int:
        return self.process.wait(seconds)

    @property
    def text(self) -> str:
        return self.log.read_text(errors="replace")

    @property
    def said(self) -> list[str]:
        """The lines of the job itself. Its JVM ends by the same signal, and may log a task's fault last."""
        return [line for line in self.text.splitlines() if re.match(r"\d\d:\d\d:\d\d ", line)]

    def wait_said(self, words: str, seconds: float = 300) -> None:
        deadline = time.monotonic() + seconds
        while words not in self.text:
            assert self.running, self.text
            assert time.monotonic() < deadline, self.text
            time.sleep(0.05)


@pytest.fixture
def start(warehouse: Warehouse) -> Iterator[Callable[..., Job]]:
    """Starts jobs, of which none is left behind."""
    jobs: list[Job] = []

    def started(*extra: str, program: Sequence[str] = PROGRAM) -> Job:
        jobs.append(Job(warehouse, *extra, program=program))
        return jobs[-1]

    yield started
    for job in jobs:
        job.kill()


def run_state(warehouse: Warehouse) -> tuple[str, str | None]:
    """State and error of the newest run."""
    with closing(OpsDatabase(warehouse.ops_url)) as ops:
        run = ops.runs.latest("auction")
    assert run is not None
    return run["state"], run["error"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_whole_group_is_no_failure(
    warehouse: Warehouse, start: Callable[..., Job], number: signal.Signals
) -> None:
    """Service managers signal all processes of a job at once, its JVM and Python workers too."""
    before = warehouse.batches()
    job = start(SMALL)
    wait_for(lambda: warehouse.batches() > before, job)
    job.signal_group(number)

    assert job.end() == DONE, job.text
    assert "\nTraceback" not in job.text
    assert "stopped" in job.said[-1]
    assert run_state(warehouse)[0] == "stopped"


def submitted(warehouse: Warehouse) -> list[str]:
    """Return the program that spark-submit runs, for a checkpoint that does not exist yet."""
    for kept in ("checkpoint", "warehouse"):
        shutil.rmtree(warehouse.directory / kept, ignore_errors=True)
    warehouse.ops_url = f"sqlite:///{warehouse.directory / f'ops-{time.monotonic_ns()}.db'}"
    jars = ",".join(map(str, spark_jars(print)))
    submit = Path(sys.executable).with_name("spark-submit")
    return [str(submit), "--master=local[2]", f"--jars={jars}", str(ROOT / "jobs" / "pipeline.py")]


def test_a_signal_to_the_java_of_spark_submit_stops_the_job(
    warehouse: Warehouse, start: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes signals the first process of a pod alone, which is Java. It ended, and the job failed."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    job = start(SMALL, program=submitted(warehouse))
    wait_for(lambda: warehouse.batches() >= 1, job)
    job.process.terminate()

    assert job.end() == DONE, job.text
    assert job.said[-1].endswith("stopped")
    assert run_state(warehouse) == ("stopped", None)


def test_workers_without_endmark_are_told(
    warehouse: Warehouse, start: Callable[..., Job], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The job ended in a stack trace, without a word on what to do."""
    venv.create(tmp_path / "bare")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", sys.executable)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "bare/bin/python"))
    job = start(SMALL, program=submitted(warehouse))

    assert job.end() == FAILED, job.text
    state, error = run_state(warehouse)
    assert state == "failed"
    assert error is not None
    assert "No module named 'endmark'; let spark.pyspark.python name a Python that has endmark" in error
    assert f"endmark: {error}" in job.text.splitlines()


@pytest.mark.parametrize("said", ["checking relation", "starting Spark", "Spark is up"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_stops_the_job(
    start: Callable[..., Job], said: str, number: signal.Signals
) -> None:
    job = start()
    job.wait_said(said)
    job.signal_group(number)

    assert job.end() == DONE, job.text
    assert "\nTraceback" not in job.text


def test_a_fault_in_a_task_is_told_with_its_place(warehouse: Warehouse, start: Callable[..., Job]) -> None:
    """A task that cannot write its table names pipeline, offsets, table and cause in the last line."""
    for kept in ("checkpoint", "warehouse"):
        shutil.rmtree(warehouse.directory / kept, ignore_errors=True)
    warehouse.ops_url = f"sqlite:///{warehouse.directory / 'ops-of-the-fault.db'}"
    job = start(SMALL)
    wait_for(lambda: warehouse.batches() >= 1, job)
    letters = warehouse.directory / "warehouse" / "dead_letters"
    letters.rename(letters.with_name("away"))
    letters.write_text("no directory")

    assert job.end() == FAILED
    last = job.text.splitlines()[-1]
    assert "pipeline auction, batch " in last
    assert "bids/0 " in last
    assert str(letters) in last
    assert "NotADirectoryError" in last
    state, error = run_state(warehouse)
    assert state == "failed"
    assert error is not None
    assert last == f"endmark: {error}"


@pytest.mark.parametrize("option", ["checkpoint", "warehouse"])
def test_a_directory_that_cannot_be_is_refused(
    start: Callable[..., Job], option: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    there = f"--checkpoint={tmp_path / 'checkpoint'}", f"--warehouse={tmp_path / 'warehouse'}"
    job = start(*there, f"--{option}={tmp_path / 'file' / 'inside'}")

    assert job.end() == USAGE, job.text
    assert "\nTraceback" not in job.text
    assert str(tmp_path / "file" / "inside") in job.text.splitlines()[-1]


@pytest.mark.parametrize("name", ["missing/ops.db", "file/ops.db"])
def test_an_ops_database_that_cannot_be_is_refused(
    start: Callable[..., Job], name: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    there = f"--checkpoint={tmp_path / 'checkpoint'}", f"--warehouse={tmp_path / 'warehouse'}"
    job = start(*there, f"--ops-url=sqlite:///{tmp_path / name}")

    assert job.end() == USAGE, job.text
    assert "\nTraceback" not in job.text
    assert "ops database" in job.text.splitlines()[-1]

"""A small warehouse of real parts: broker, relation, feed and a job as a child process."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from endmark.control.ops_database.batches import FinishedBatch
from endmark.control.ops_database.database import OpsDatabase
from endmark.demo.choreography import json_lines
from endmark.embedded.process import ManagedProcess
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.verify.verification import verify
from endmark_feed.auction_feed import FeedOptions, run_feed, seed_relation

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.embedded.broker import Broker
    from endmark.pipeline import Pipeline
    from endmark.storage import Location
    from endmark.verify.report import VerifyReport

START_SECONDS = 300.0


class Warehouse:
    """Everything of one auction pipeline below one directory, but for what lies in an object store.

    The module `program` is the command line that runs jobs. Jobs find the broker at `job_bootstrap`, or where
    everybody finds it.
    """

    def __init__(
        self,
        directory: Path,
        broker: Broker,
        relation_url: str,
        feed: FeedOptions,
        pipeline: Path = AUCTION,
        tables: Location | None = None,
        checkpoint: Location | None = None,
        program: str = "endmark.cli",
        *,
        job_bootstrap: str | None = None,
    ) -> None:
        self.pipeline = pipeline
        self._program = program
        self.directory = directory
        self.tables = directory / "warehouse" if tables is None else tables
        self.checkpoint = directory / "checkpoint" if checkpoint is None else checkpoint
        self.broker = broker
        self._job_bootstrap = broker.bootstrap if job_bootstrap is None else job_bootstrap
        self.relation_url = relation_url
        self.feed_options = feed
        self.ops_url = f"sqlite:///{directory / 'ops.db'}"
        self._jobs = 0
        self.name = self.load().name
        seed_relation(relation_url, feed.sellers, feed.seed)

    def feed(self) -> None:
        """Publish the whole workload in real time."""
        run_feed(self.feed_options, self.broker.bootstrap)

    def start_job(self, *extra: str) -> ManagedProcess:
        self._jobs += 1
        arguments = [
            str(self.pipeline),
            f"--bootstrap={self._job_bootstrap}",
            f"--warehouse={self.tables}",
            f"--checkpoint={self.checkpoint}",
            f"--ops-url={self.ops_url}",
            "--json",
            *extra,
        ]
        os.environ["ENDMARK_RELATION_URL"] = self.relation_url
        command = [sys.executable, "-m", self._program, "run", *arguments]
        return ManagedProcess("job", command, self.directory / f"job-{self._jobs}.log", stop_seconds=90)

    def environment(self) -> dict[str, str]:
        """For commands that are to find endmark and this warehouse, as people set it; less the relation."""
        return {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "ENDMARK_BOOTSTRAP": self.broker.bootstrap,
            "ENDMARK_WAREHOUSE": str(self.tables),
            "ENDMARK_CHECKPOINT": str(self.checkpoint),
            "ENDMARK_OPS_URL": self.ops_url,
        }

    def run_to_the_end(self, *extra: str) -> ManagedProcess:
        """Run until everything in Kafka is done; returns the ended job."""
        job = self.start_job("--available-now", *extra)
        job.wait_done(300)
        return job

    def batch(self) -> FinishedBatch | None:
        with closing(OpsDatabase(self.ops_url)) as ops:
            return ops.batches.latest(self.name)

    def batches(self) -> int:
        batch = self.batch()
        return 0 if batch is None else batch.batch_id + 1

    def verify(self) -> VerifyReport:
        return verify(self.load(), self.broker.bootstrap, self.tables)

    def load(self) -> Pipeline:
        """Return the pipeline of the file."""
        return load(self.pipeline, os.environ | {"ENDMARK_RELATION_URL": self.relation_url})


class Running(Protocol):
    """A job as a process, however it was started."""

    log: Path

    @property
    def running(self) -> bool: ...


def wait_for(condition: Callable[[], bool], job: Running, seconds: float = START_SECONDS) -> None:
    """Wait until `condition`, failing at once when the job ends first."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert job.running, f"the job ended: {errors(job)}"
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s in vain"
        time.sleep(0.1)


def errors(job: Running) -> list[Any]:
    """Return the errors that the job printed, or the last lines of its log if it printed none."""
    said = [line["error"] for line in json_lines(job.log) if "error" in line]
    return said or job.log.read_text(errors="replace").splitlines()[-5:]

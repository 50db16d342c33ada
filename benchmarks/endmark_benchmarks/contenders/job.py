"""`endmark run` on a pipeline, as a process of its own that is watched from outside."""

from __future__ import annotations

import os
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.control.ops_database.database import OpsDatabase
from endmark.demo.choreography import json_lines
from endmark.embedded.process import ManagedProcess
from endmark.errors import EndmarkError
from endmark_benchmarks.workloads.auction import MEASURED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from endmark.control.ops_database.batches import FinishedBatch
    from endmark.pipeline import Pipeline
    from endmark_benchmarks.workloads.measured import Measured
    from endmark_benchmarks.workloads.recorded import Servers

DEADLINE_SECONDS = 300.0
_ALL = 1_000_000


@dataclass(frozen=True)
class Job:
    """The place of a job: its tables, checkpoint, ops database and logs are below one directory.

    Args:
        directory: the directory.
        servers: the servers that it reads from.
        measured: its pipeline, and the settings of this.
        bucket: the URL of a bucket that has tables and checkpoint; `None`: the directory has them, too.
    """

    directory: Path
    servers: Servers
    measured: Measured = MEASURED
    bucket: str | None = None

    @property
    def pipeline(self) -> Pipeline:
        return self.measured.load(self.servers.relation_url)

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse"

    def start(self, *options: str) -> ManagedProcess:
        """Start it, anew or from its checkpoint."""
        # By environment, since a command line shows in the list of processes.
        os.environ["ENDMARK_RELATION_URL"] = self.servers.relation_url
        command = [
            *(sys.executable, "-m", "endmark.cli", "run", "--json"),
            str(self.measured.file),
            f"--bootstrap={self.servers.bootstrap}",
            f"--warehouse={self.bucket or self.directory}/warehouse",
            f"--checkpoint={self.bucket or self.directory}/checkpoint",
            f"--ops-url={self.ops_url}",
            *(f"--set={setting}" for setting in self.measured.settings),
            *options,
        ]
        log = self.directory / f"job-{len(list(self.directory.glob('job-*.log')))}.log"
        return ManagedProcess("endmark run", command, log, stop_seconds=90)

    def batches(self) -> list[FinishedBatch]:
        """Return the job's batches as it has reported them, the oldest first."""
        with closing(OpsDatabase(self.ops_url)) as ops:
            return list(ops.batches.after(self.pipeline.name, -1, _ALL))

    @property
    def ops_url(self) -> str:
        return f"sqlite:///{self.directory / 'ops.db'}"


def wait_until(condition: Callable[[], bool], process: ManagedProcess, every: float) -> None:
    """Return when a condition holds.

    Args:
        condition: the condition.
        process: the process that makes it true.
        every: seconds between two looks.

    Raises:
        EndmarkError: the process ended before, or it took too long.
    """
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        if not process.running:
            said = [line["error"] for line in json_lines(process.log) if "error" in line]
            raise EndmarkError(f"the job ended: {said[-1] if said else 'without a word'}; see {process.log}")
        if time.monotonic() > deadline:
            raise EndmarkError(f"the job took more than {DEADLINE_SECONDS:.0f} s; see {process.log}")
        time.sleep(every)

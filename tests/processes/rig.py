"""A job with its servers, its feed and its supervisor, which faults are injected into."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import sqlalchemy as sa
from deltalake import DeltaTable

from endmark.control.ops_database.batches import FinishedBatch
from endmark.control.ops_database.database import OpsDatabase
from endmark.driver.checkpoint import app_id_of
from endmark.driver.planned_batches import newest
from endmark.embedded.mariadb import MariaDb
from endmark.embedded.ports import LOOPBACK, free_port
from endmark.embedded.process import ManagedProcess
from endmark.errors import MissingPartError
from endmark.metrics import sample
from endmark_feed.options import FeedOptions
from processes.feed import RATE, SELLERS, Feed, Place
from processes.kill_points import Trap
from processes.link import Link
from processes.linked_broker import LinkedBroker
from support.processes import descendants
from support.warehouse import Warehouse, errors

PIPELINES = Path(__file__).parent / "pipelines"
NAMES = tuple(sorted(file.stem for file in PIPELINES.glob("*.yaml")))
START_SECONDS = 400.0
OUTSIDE = "ENDMARK_MOUNTS_OUTSIDE"  # the variable with the mount namespace of whoever has started the runner
# Java's second compiler pays for what runs for minutes. The brokers are killed before.
SHORT_LIVES = {"ENDMARK_BROKER_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
_POLL_SECONDS = 0.25
_MOST_IN_VAIN = 20  # ends of a job in a row without a batch between them
_PAUSE_SECONDS = 1.0  # between the end of a job and its next start
_DISKS = {"job": "192m", "broker": "512m", "database": "384m"}


@dataclass(frozen=True)
class End:
    """The end of a job: its exit code, which is negative for a signal, and its last words."""

    code: int
    error: str

    def __str__(self) -> str:
        return f"{self.code} {self.error[-200:]}"


class Rig:
    """A broker, a database, links from the job to both, a feed and a job on one of the `PIPELINES`.

    Attributes:
        job: the job that runs, or has ended last.
        ends: each end of a job that the supervisor has seen.
        feed: the feed.
        patience: the seconds for which a fault waits for its moment.

    Args:
        directory: an empty directory.
        name: the name of the pipeline.
        seed: equal seeds give equal records.
        rate: records a second.
        has_disks: whether each part has a disk of its own, which a fault may fill.
    """

    job: ManagedProcess

    def __init__(
        self, directory: Path, name: str, seed: int, rate: float = RATE, *, has_disks: bool = True
    ) -> None:
        self.directory = directory
        self.name = name
        self.seed = seed
        self.ends: list[End] = []
        self.trap = Trap(directory)
        self.patience = 60.0
        self._rate = rate
        self._stack = ExitStack()
        self._supervised = True
        self._in_vain = self._batches = 0
        self._has_disks = has_disks and own_mounts()

    def __enter__(self) -> Self:
        with self._stack:
            for part, size in _DISKS.items():
                self._mount(self.disk(part), size)
            os.environ |= {"ENDMARK_TRAP": str(self.directory), "PYTHONPATH": _with_tests()} | SHORT_LIVES
            self.broker_link = self._stack.enter_context(Link(free_port(), self.seed))
            broker = LinkedBroker(self.disk("broker") / "data", self.broker_link)
            self.broker = self._stack.enter_context(broker)
            self.database = self._stack.enter_context(MariaDb(self.disk("database") / "data", memory="64M"))
            url = sa.make_url(self.database.url)
            assert url.port is not None
            self.database_link = self._stack.enter_context(Link(url.port, self.seed))
            self.engine = sa.create_engine(self.database.url, poolclass=sa.NullPool)
            self._stack.callback(self.engine.dispose)
            through = url.set(port=self.database_link.port).render_as_string(hide_password=False)
            disk = self.disk("job")
            self.warehouse = Warehouse(
                self.directory,
                self.broker,
                through,
                FeedOptions(seed=self.seed, sellers=SELLERS),
                PIPELINES / f"{self.name}.yaml",
                tables=disk / "warehouse",
                checkpoint=disk / "checkpoint",
                program="processes.kill_points",
                job_bootstrap=f"{LOOPBACK}:{self.broker_link.port}",
            )
            self._ops = self._stack.enter_context(closing(OpsDatabase(self.warehouse.ops_url)))
            self.feed = Feed(self.broker.bootstrap, self.seed, self._rate)
            self._stack.callback(self.feed.close)
            self.start_job()
            self._stack.callback(self._kill_job)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    def disk(self, of: str) -> Path:
        """Return the directory of the job's, the broker's or the database's disk."""
        return self.directory / f"disk-{of}"

    def _mount(self, disk: Path, size: str) -> None:
        """Make a disk of its own in memory, if this process may mount one."""
        disk.mkdir()
        if self._has_disks:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", disk], check=True)
            self._stack.callback(lambda: subprocess.run(["umount", "--lazy", disk], check=True))

    # The job and its supervisor

    def _kill_job(self) -> None:
        self.job.kill()

    def start_job(self) -> None:
        self.job = self.warehouse.start_job()

    def end(self) -> End:
        """Return how the job has ended."""
        try:
            self.job.wait_done(0)
        except MissingPartError as error:
            [code] = re.findall(r"^job failed with code (-?\d+)", str(error))
            return End(int(code), str(errors(self.job)[-1:]))
        return End(0, "")

    def _told_in_vain(self) -> str:
        """Return the distinct ends since the last batch, and how often each was, the most frequent first."""
        ends = Counter(map(str, self.ends[-self._in_vain :]))
        return "; ".join(f"{times} times {end}" for end, times in ends.most_common())

    @contextmanager
    def unattended(self) -> Iterator[None]:
        """Let nobody start the job again while the body runs."""
        self._supervised, before = False, self._supervised
        try:
            yield
        finally:
            self._supervised = before

    def poll(self) -> None:
        """Start the job again if it has ended, as a service manager does."""
        if self._supervised and not self.job.running:
            self.ends.append(self.end())
            self._in_vain = 1 if self.batches() > self._batches else self._in_vain + 1
            self._batches = self.batches()
            assert self._in_vain <= _MOST_IN_VAIN, f"the job ends again and again: {self._told_in_vain()}"
            time.sleep(_PAUSE_SECONDS)
            self.start_job()

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds, while the supervisor works; return whether it came in time."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                return False
            self.poll()
            time.sleep(_POLL_SECONDS)
        return True

    def stay(self, seconds: float) -> None:
        """Let time pass while the supervisor works."""
        self.wait(lambda: False, seconds)

    def processes(self) -> list[int]:
        """Return the processes of the job, the driver first."""
        return descendants(self.job.pid)

    def log(self, start: int = 0) -> str:
        """Return the log of the job from a byte on."""
        with self.job.log.open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    # Progress

    def batch(self) -> FinishedBatch | None:
        """Return the last batch that a job has finished."""
        return self._ops.batches.latest(self.warehouse.name)

    def batches(self) -> int:
        batch = self.batch()
        return 0 if batch is None else batch.batch_id + 1

    def has_read(self, ends: Mapping[Place, int]) -> bool:
        """Return whether a finished batch of the job has read its topics up to these offsets."""
        batch = self.batch()
        if batch is None:
            return not ends
        return all(
            batch.offsets.get(topic, {}).get(str(partition), 0) >= end
            for (topic, partition), end in ends.items()
            if topic in self.topics
        )

    def is_idle(self) -> bool:
        """Return whether all acknowledged records are read and no row waits."""
        batch = self.batch()
        waits = batch is not None and sample("batch_due_time_seconds") in batch.samples
        return not waits and self.has_read(self.feed.ends())

    @cached_property
    def topics(self) -> set[str]:
        """The topics that the job reads."""
        return {stream.topic for stream in self.warehouse.load().streams.values()}

    # Files

    @property
    def spark(self) -> Path:
        """The directory of the checkpoint that is Spark's."""
        return self.disk("job") / "checkpoint" / "spark"

    @property
    def tables(self) -> list[Path]:
        """The directories of the tables."""
        return sorted(each.parent for each in (self.disk("job") / "warehouse").glob("*/_delta_log"))

    def planned(self) -> int:
        """Return the number of the last batch whose offsets are logged; -1 if there is none."""
        found = newest(self.spark / "offsets")
        return -1 if found is None else found

    def committed(self) -> int:
        """Return the number of the last batch that has a commit; -1 if there is none."""
        found = newest(self.spark / "commits")
        return -1 if found is None else found

    def tables_with(self, batch: int) -> int:
        """Return the number of tables whose last batch is this one."""
        app_id = app_id_of(self.disk("job") / "checkpoint")
        assert app_id is not None
        return sum(DeltaTable(str(table)).transaction_version(app_id) == batch for table in self.tables)

    def turns(self) -> list[str]:
        """Return the names of all knobs that the job has read a turn of."""
        return [turn["name"] for turn in self._ops.turns.of(self.warehouse.name)]


def _with_tests() -> str:
    """Return the path of Python's modules, with the directory of tests, which has the program of jobs."""
    tests, others = str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")
    return others if tests in others.split(os.pathsep) else f"{tests}{os.pathsep}{others}".rstrip(os.pathsep)


def own_mounts() -> bool:
    """Return whether this process has mounts of its own, so that it may mount disks."""
    return os.environ.get(OUTSIDE, mounts()) != mounts()


def mounts() -> str:
    """Return the name of the mount namespace of this process."""
    return str(Path("/proc/self/ns/mnt").readlink())

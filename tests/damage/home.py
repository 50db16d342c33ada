"""The files of a job, which runs in this process until it has read all of its topics."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from deltalake import DeltaTable
from pyspark.sql import SparkSession

from endmark.control.ops_database.database import OpsDatabase
from endmark.driver.options import JobOptions
from endmark.driver.planned_batches import newest
from endmark.driver.stop import StopRequest
from endmark.errors import EndmarkError
from endmark.pipeline import Pipeline
from endmark.pipeline.file import load
from endmark.spark.job import run_job
from endmark.spark.session import start_session
from endmark.verify.verification import verify

PIPELINES = Path(__file__).parent / "pipelines"
Session = Callable[[], SparkSession]


@dataclass(frozen=True)
class World:
    """The servers and records of jobs.

    Args:
        bootstrap: the address of the broker.
        environment: fills the variables of pipeline files.
        topics: the topic of each stream.
        jars: the jars of a Spark session.
        pipelines: the directory of the pipeline files.
    """

    bootstrap: str
    environment: Mapping[str, str]
    topics: Mapping[str, str]
    jars: Sequence[Path]
    pipelines: Path = PIPELINES

    def pipeline(self, name: str, settings: Sequence[str] = ()) -> Pipeline:
        """Return one of the pipelines on the records of this world."""
        file = self.pipelines / f"{name}.yaml"
        used = [topic for topic in self.topics if f"topic: {topic}" in file.read_text()]
        of_topics = [f"streams.{topic}.topic={self.topics[topic]}" for topic in used]
        return load(file, dict(self.environment), [*of_topics, *settings])


@dataclass(frozen=True)
class Home:
    """The directory with tables, checkpoint and ops database of a job on one of the `PIPELINES`.

    Args:
        directory: the directory.
        world: the world of the job.
        name: the name of the pipeline.
    """

    directory: Path
    world: World
    name: str

    @property
    def checkpoint(self) -> Path:
        return self.directory / "checkpoint"

    @property
    def spark(self) -> Path:
        """The directory of the checkpoint that is Spark's."""
        return self.checkpoint / "spark"

    @property
    def tables(self) -> list[Path]:
        """The directories of the tables, by name."""
        return sorted(each.parent for each in (self.directory / "warehouse").glob("*/_delta_log"))

    @property
    def last_batch(self) -> int:
        """The number of the last batch that has a commit in the checkpoint."""
        found = newest(self.spark / "commits")
        assert found is not None, "no batch has a commit"
        return found

    def copied(self, to: Path) -> Home:
        """Copy all files."""
        shutil.copytree(self.directory, to)
        return Home(to, self.world, self.name)

    def run(self, settings: Sequence[str] = (), buckets: int = 2) -> str | None:
        """Run the job until it has read all that its topics hold now; return the error that ended it."""
        options = JobOptions(
            self.world.bootstrap,
            self.directory / "warehouse",
            self.checkpoint,
            f"sqlite:///{self.directory / 'ops.db'}",
            buckets=buckets,
            available_now=True,
        )

        pipeline = self.world.pipeline(self.name, settings)
        try:
            run_job(pipeline, options, partial(self.session, buckets), _quiet, StopRequest())
        except EndmarkError as error:
            return str(error)
        return None

    def session(self, partitions: int) -> SparkSession:
        """Start a Spark session with so many partitions of state."""
        return start_session(
            f"damage {self.name}",
            list(self.world.jars),
            master="local[2]",
            shuffle_partitions=partitions,
            driver_memory="1g",
            delta=False,
        )

    def run_of(self, batch: int) -> str:
        """Return the id of the run that has finished a batch, or finished it again."""
        with closing(OpsDatabase(f"sqlite:///{self.directory / 'ops.db'}")) as ops:
            first, *_ = ops.batches.after(self.world.pipeline(self.name).name, batch - 1, 1_000)
        assert first.batch_id == batch
        return first.run_id

    def versions(self) -> dict[Path, bytes]:
        """Return the files in the logs of all tables."""
        return {
            file: file.read_bytes()
            for table in self.tables
            for file in (table / "_delta_log").iterdir()
            if file.is_file()
        }

    def verdict(self) -> str | None:
        """Compare all tables with what `endmark verify` recomputes; return its report if they differ."""
        pipeline = self.world.pipeline(self.name)
        report = verify(pipeline, self.world.bootstrap, self.directory / "warehouse")
        return None if report.ok else report.to_json()

    def rows(self) -> dict[str, Counter[str]]:
        """Return the rows of each table as texts."""
        return {
            table.name: Counter(map(repr, DeltaTable(str(table)).to_pyarrow_table().to_pylist()))
            for table in self.tables
        }


def _quiet(_line: str) -> None:
    """Hear what a job says of its start."""

"""A contest of whole jobs: each reads the same topics, filled before, and writes tables of its own.

DuckDB compares the tables afterwards. Contenders without tables sum their results up themselves. The rate of
a job with batches is that of the batches after the first third, from trigger to commit.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from endmark.errors import ConfigError
from endmark.metrics import Samples, parse, sample
from endmark_benchmarks.contenders.job import DEADLINE_SECONDS, Job
from endmark_benchmarks.harness.contest import (
    Digest,
    DisagreementError,
    Rates,
    compared,
    in_process,
    interleaved,
)
from endmark_benchmarks.harness.delta import digests
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.harness.shares import python_seconds, python_shares, wall_seconds, wall_shares
from endmark_benchmarks.workloads import recorded
from endmark_benchmarks.workloads.lookup_input import version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from endmark_benchmarks.workloads.measured import Measured
    from endmark_benchmarks.workloads.recorded import Servers

T = TypeVar("T")
DRIVER_MEMORY = "4g"
_TOTAL = sample("batch_seconds", phase="total")


class BatchTime(NamedTuple):
    """A batch: records it read, seconds from trigger to commit."""

    records: float
    seconds: float

    @classmethod
    def of(cls, samples: Samples) -> BatchTime:
        return cls(records_of(samples), samples[_TOTAL])


@dataclass(frozen=True)
class Run:
    """A run of a contender.

    Args:
        rate: records a second.
        samples: those of each batch that read any records, if the job is ours.
        given: the first digests of what it gave; `None` if it wrote tables.
    """

    rate: float
    samples: list[Samples] = field(default_factory=list)
    given: list[Digest] | None = None


Contender = Callable[["Servers", Path], Run]
"""Reads from servers all that is there. It writes tables to `warehouse` in a directory, or gives digests."""


@dataclass(frozen=True)
class JobContest:
    """Contenders that read the same topics.

    Args:
        bench: the name of the measurement.
        title: the title of its rates.
        options: the options of the measurement, as values for JSON.
        servers: starts the servers with the input, whose course `say` hears of.
        contenders: the contenders by name, ours first.
        measured: the pipeline whose tables all contenders write.
        repeats: the runs of each contender.
        figures: SQL of the digest of the results that contenders without tables give.
    """

    bench: str
    title: str
    options: dict[str, Any]
    servers: Callable[[Callable[[str], None]], AbstractContextManager[Servers]]
    contenders: Mapping[str, Contender]
    measured: Measured
    repeats: int
    figures: Sequence[str] = ()

    def run(self, say: Callable[[str], None]) -> tuple[dict[str, Any], dict[str, list[Samples]]]:
        """Run all contenders in turn.

        Returns:
            the report, and the samples of our jobs' batches after the first third, by contender.

        Raises:
            EndmarkError: a part is missing, a contender failed, or they gave different tables.
        """
        report: dict[str, Any] = {"bench": self.bench, **origin(), "options": dict(self.options)}
        rates: dict[str, list[float]] = defaultdict(list)
        samples: dict[str, list[Samples]] = defaultdict(list)
        expected: list[Digest] = []
        with self.servers(say) as servers:
            report["versions"]["mariadb"] = version(servers.relation_url)
            pipeline = self.measured.load(servers.relation_url)
            for repeat, name in interleaved(list(self.contenders), self.repeats):
                with tempfile.TemporaryDirectory(prefix="endmark-bench-") as work:
                    run = self.contenders[name](servers, Path(work))
                    found = run.given or digests(pipeline, Path(work) / "warehouse", self.figures)
                expected = expected or found
                require_same(name, found, expected)
                rates[name].append(run.rate)
                samples[name] += steady(run.samples)
                say(f"{repeat + 1}: {name}: {rates[name][-1]:,.0f} records/s, {found[0][0]:,} results")
        report["options"]["results"] = expected[0][0]
        ours = next(iter(self.contenders))
        compare = compared({name: Rates.of(rates[name]) for name in self.contenders}, ours)
        report["cells"] = [{"title": self.title, "contenders": compare}]
        return report, dict(samples)

    def with_shares(self, say: Callable[[str], None]) -> dict[str, Any]:
        """Run all contenders in turn, and return the report with the shares of our job's time.

        Raises:
            EndmarkError: as `run`.
        """
        report, samples = self.run(say)
        found = samples[next(iter(self.contenders))]
        return report | {"shares": {"wall": wall_shares(found), "python": python_shares(found)}}


def ours(measured: Measured, batch_records: int) -> Contender:
    """Return our job on a pipeline, with batches of so many records of all topics at once."""

    def run(servers: Servers, directory: Path) -> Run:
        return run_job(Job(directory, servers, measured), batch_records)

    return run


def run_job(job: Job, batch_records: int) -> Run:
    """Run our job on all that its topics have, with batches of so many records of all topics at once."""
    process = job.start(
        "--available-now",
        f"--set=batch.records={batch_records}",
        f"--driver-memory={DRIVER_MEMORY}",
    )
    process.wait_done(DEADLINE_SECONDS)
    samples = samples_of(job)
    return Run(rate(BatchTime.of(each) for each in samples), samples)


def in_spark(module: str, name: str, measured: Measured, batch_records: int, jars: list[str]) -> Contender:
    """Return a contender that does the same in Spark without endmark.

    Args:
        module: the module that runs it, by `contenders/kafka_spark.py`.
        name: the name of the contender.
        measured: the pipeline whose tables it writes.
        batch_records: the most records of a batch, of all topics at once.
        jars: the jars of Spark's session.
    """

    def run(servers: Servers, directory: Path) -> Run:
        ends = recorded.ends(servers.bootstrap, measured.load(servers.relation_url))
        own = {"at_once": split(ends, batch_records), "driver_memory": DRIVER_MEMORY, "jars": jars}
        [found] = in_process(module, _task(name, servers, measured, directory) | own)
        return Run(rate(BatchTime(**each) for each in found["batches"]))

    return run


def in_own_process(module: str, name: str, measured: Measured, parts: dict[str, Any]) -> Contender:
    """Return a contender that writes no tables of the pipeline, and gives its rate and digests instead.

    Args:
        module: the module that runs it.
        name: the name of the contender.
        measured: the pipeline whose results it gives.
        parts: what its task has beside, as values for JSON.
    """

    def run(servers: Servers, directory: Path) -> Run:
        ends = recorded.ends(servers.bootstrap, measured.load(servers.relation_url))
        task = _task(name, servers, measured, directory) | {"records": sum(ends.values())}
        [found] = in_process(module, task | parts)
        return Run(found["rate"], given=[Digest(*each) for each in found["given"]])

    return run


def _task(name: str, servers: Servers, measured: Measured, directory: Path) -> dict[str, Any]:
    """Return what every contender in a process of its own is told, as values for JSON."""
    return {
        "contender": name,
        "servers": asdict(servers),
        "measured": measured.to_json(),
        "directory": str(directory),
    }


def require_batches(records: int, batch_records: int) -> None:
    """Refuse fewer records than three batches have.

    Raises:
        ConfigError: there are fewer.
    """
    if records < 3 * batch_records:
        raise ConfigError(
            f"--records: {records} are less than three batches of {batch_records}, "
            "the first of which only warms up; raise it, or lower --batch-records"
        )


def steady(batches: list[T]) -> list[T]:
    return batches[len(batches) // 3 :]


def rate(batches: Iterable[BatchTime]) -> float:
    """Records a second after the first third of the batches."""
    measured = steady(list(batches))
    return sum(each.records for each in measured) / sum(each.seconds for each in measured)


def samples_of(job: Job) -> list[Samples]:
    """Return the samples of a job's batches that read any records."""
    return [each.samples for each in job.batches() if records_of(each.samples) and _TOTAL in each.samples]


def costs(batches: list[Samples]) -> dict[str, dict[str, float]]:
    """Return what a job's batches spend on a million records: wall-clock time, and that of Python's cores."""
    records = sum(map(records_of, batches))
    return {"wall": wall_seconds(batches, records), "python": python_seconds(batches, records)}


def records_of(samples: Samples) -> float:
    """Return the records that a batch read."""
    return sum(value for key, value in samples.items() if parse(key)[0] == "records_total")


def split(records: dict[str, int], batch: int) -> dict[str, int]:
    """Records of each stream in a batch, so that all end together."""
    total = sum(records.values())
    return {name: max(1, round(batch * count / total)) for name, count in records.items()}


def require_same(name: str, found: list[Digest], expected: list[Digest]) -> None:
    """Refuse results or groups that differ from those of the first run.

    Args:
        name: the name of the contender.
        found: its digests; one that gives less than the first run has fewer.
        expected: those of the first run.

    Raises:
        DisagreementError: they differ, or there are none.
    """
    if not found or found != expected[: len(found)]:
        raise DisagreementError(
            f"{name} gave results and groups of digests {found}, but the first run gave {expected}; "
            "there is nothing to compare"
        )

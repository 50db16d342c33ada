"""`python -m endmark_benchmarks pipeline`: Kafka to Delta tables, beside Spark's own operators.

Both read the same topics, filled before, in batches of equal size, and write to tables of their own, which
DuckDB compares afterwards. A rate is that of the batches after the first third, from trigger to commit.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from endmark.errors import ConfigError
from endmark.metrics import Samples, parse, sample
from endmark.spark.class_archive import local_jars
from endmark_benchmarks.contenders.jars import jdbc_jars
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
from endmark_benchmarks.harness.shares import python_shares, wall_shares
from endmark_benchmarks.workloads import auction
from endmark_benchmarks.workloads.auction import Recorded, workload
from endmark_benchmarks.workloads.lookup_input import version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from endmark_benchmarks.workloads.auction import Servers

T = TypeVar("T")
OURS, THEIRS = "endmark", "spark"
DRIVER_MEMORY = "4g"
_TOTAL = sample("batch_seconds", phase="total")


@dataclass(frozen=True)
class PipelineOptions:
    """The options of the measurement.

    Args:
        records: in both topics, the last promises aside.
        batch_records: of both topics at once.
        sellers: rows of R.
        rate: records for each second of event time.
        repeats: runs of each contender.
        directory: of recorded input, which is made when it is not there.
    """

    records: int
    batch_records: int
    sellers: int
    rate: float
    repeats: int
    directory: Path

    def __post_init__(self) -> None:
        if self.records < 3 * self.batch_records:
            raise ConfigError(
                f"--records: {self.records} are less than three batches of {self.batch_records}, "
                "the first of which only warms up; raise it, or lower --batch-records"
            )

    @property
    def recorded(self) -> Recorded:
        return Recorded.of(self.directory, workload(self.records / self.rate, self.rate, self.sellers))


class BatchTime(NamedTuple):
    """A batch: records it read, seconds from trigger to commit."""

    records: float
    seconds: float

    @classmethod
    def of(cls, samples: Samples) -> BatchTime:
        return cls(_records(samples), samples[_TOTAL])


def measure(options: PipelineOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run both in turn, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or they gave different tables.
    """
    said = {name: value for name, value in asdict(options).items() if name != "directory"}
    report: dict[str, Any] = {"bench": "pipeline", **origin(), "options": said}
    jars = [str(jar) for jar in [*local_jars(say), *jdbc_jars(say)]]
    rates: dict[str, list[float]] = defaultdict(list)
    measured: list[Samples] = []
    expected: list[Digest] = []
    with auction.running(options.recorded, say) as servers:
        report["versions"]["mariadb"] = version(servers.relation_url)
        for repeat, name in interleaved((OURS, THEIRS), options.repeats):
            with tempfile.TemporaryDirectory(prefix="endmark-bench-") as work:
                job = Job(Path(work), servers)
                if name == OURS:
                    samples = _ours(job, options)
                    measured += steady(samples)
                    batches = [BatchTime.of(each) for each in samples]
                else:
                    batches = _theirs(job.directory, servers, options, jars)
                found = digests(servers.pipeline, job.warehouse)
            expected = expected or found
            _require_same(name, found, expected)
            rates[name].append(rate(batches))
            say(f"{repeat + 1}: {name}: {rates[name][-1]:,.0f} records/s, {found[0][0]:,} results")
    report["options"]["results"] = expected[0][0]
    compare = compared({name: Rates.of(each) for name, each in rates.items()}, OURS)
    report["cells"] = [
        {"title": f"auction, batches of {options.batch_records:,} records", "contenders": compare}
    ]
    report["shares"] = {"wall": wall_shares(measured), "python": python_shares(measured)}
    return report


def steady(batches: list[T]) -> list[T]:
    return batches[len(batches) // 3 :]


def rate(batches: Iterable[BatchTime]) -> float:
    """Records a second after the first third of the batches."""
    measured = steady(list(batches))
    return sum(each.records for each in measured) / sum(each.seconds for each in measured)


def _ours(job: Job, options: PipelineOptions) -> list[Samples]:
    process = job.start(
        "--available-now",
        f"--set=batch.records={options.batch_records}",
        f"--driver-memory={DRIVER_MEMORY}",
    )
    process.wait_done(DEADLINE_SECONDS)
    return samples_of(job)


def samples_of(job: Job) -> list[Samples]:
    """Return the samples of a job's batches that read any records."""
    return [each.samples for each in job.batches() if _records(each.samples) and _TOTAL in each.samples]


def _records(samples: Samples) -> float:
    return sum(value for key, value in samples.items() if parse(key)[0] == "records_total")


def _theirs(work: Path, servers: Servers, options: PipelineOptions, jars: list[str]) -> list[BatchTime]:
    task = {
        "contender": THEIRS,
        "servers": asdict(servers),
        "directory": str(work),
        "at_once": _split(auction.ends(servers), options.batch_records),
        "driver_memory": DRIVER_MEMORY,
        "jars": jars,
    }
    [run] = in_process("endmark_benchmarks.contenders.pipeline_spark", task)
    return [BatchTime(**each) for each in run["batches"]]


def _split(records: dict[str, int], batch: int) -> dict[str, int]:
    """Records of each stream in a batch, so that both end together."""
    total = sum(records.values())
    return {name: max(1, round(batch * count / total)) for name, count in records.items()}


def _require_same(name: str, found: list[Digest], expected: list[Digest]) -> None:
    if found != expected:
        raise DisagreementError(
            f"{name} gave results and groups of digests {found}, but {OURS} gave {expected}; "
            "there is nothing to compare"
        )

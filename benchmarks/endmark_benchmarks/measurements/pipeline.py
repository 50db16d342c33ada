"""`python -m endmark_benchmarks pipeline`: Kafka to Delta tables, beside Spark's own operators.

Both read the same topics, filled before, in batches of equal size, and write to tables of their own, which
DuckDB compares afterwards. A rate is that of the batches after the first third, from trigger to commit.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.spark.class_archive import local_jars
from endmark_benchmarks.contenders.jars import jdbc_jars
from endmark_benchmarks.harness.job_contest import JobContest, in_spark, ours, require_batches
from endmark_benchmarks.workloads.auction import MEASURED, recorded, workload

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark_benchmarks.workloads.recorded import Recorded

OURS, THEIRS = "endmark", "spark"


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
        require_batches(self.records, self.batch_records)

    @property
    def recorded(self) -> Recorded:
        return recorded(self.directory, workload(self.records / self.rate, self.rate, self.sellers))

    def to_json(self) -> dict[str, Any]:
        """Return the options as values for JSON, without the place of the recorded input."""
        return {name: value for name, value in asdict(self).items() if name != "directory"}


def measure(options: PipelineOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run both in turn, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or they gave different tables.
    """
    jars = [str(jar) for jar in [*local_jars(say), *jdbc_jars(say)]]
    module, size = "endmark_benchmarks.contenders.pipeline_spark", options.batch_records
    contest = JobContest(
        "pipeline",
        f"auction, batches of {size:,} records",
        options.to_json(),
        options.recorded,
        {OURS: ours(MEASURED, size), THEIRS: in_spark(module, THEIRS, MEASURED, size, jars)},
        MEASURED,
        options.repeats,
    )
    return contest.with_shares(say)

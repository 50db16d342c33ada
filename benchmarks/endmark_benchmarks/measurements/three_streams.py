"""`python -m endmark_benchmarks three-streams`: three streams on one key, beside Spark's chain of two joins.

All read the same topics, filled before, in batches of equal size, and write to a table of their own. All have
the same window, so the results are equal.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.contenders.query import ON_HEAP
from endmark_benchmarks.harness.job_contest import JobContest, in_spark, ours, require_batches
from endmark_benchmarks.workloads.recorded import running
from endmark_benchmarks.workloads.shop import MEASURED, recorded

if TYPE_CHECKING:
    from collections.abc import Callable

OURS = "endmark"
THEIRS = ("spark-rocksdb", ON_HEAP)


@dataclass(frozen=True)
class ThreeStreamsOptions:
    """The options of the measurement.

    Args:
        records: in all topics, about.
        batch_records: of all topics at once.
        rate: records for each second of the shop's run, which is four hours of event time.
        repeats: runs of each contender.
        directory: of recorded input, which is made when it is not there.
    """

    records: int
    batch_records: int
    rate: float
    repeats: int
    directory: Path

    def __post_init__(self) -> None:
        require_batches(self.records, self.batch_records)


def measure(options: ThreeStreamsOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run all in turn, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or they gave different results.
    """
    jars = [str(jar) for jar in local_jars(say)]
    module, size = "endmark_benchmarks.contenders.three_streams_spark", options.batch_records
    theirs = {name: in_spark(module, name, MEASURED, size, jars) for name in THEIRS}
    contest = JobContest(
        "three-streams",
        f"three streams on one key, batches of {size:,} records",
        {name: value for name, value in asdict(options).items() if name != "directory"},
        partial(running, recorded(options.directory, options.records, options.rate)),
        {OURS: ours(MEASURED, size), **theirs},
        MEASURED,
        options.repeats,
    )
    return contest.with_shares(say)

"""`python -m endmark_benchmarks lookup-alone`: a topic's rows with their rows of R, beside the same in Spark.

All read the bids of the auction, filled before, in batches of equal size, look their sellers up in MariaDB,
and write to a table of their own.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.contenders.jars import jdbc_jars
from endmark_benchmarks.contenders.lookup_alone_spark import FULL_READ, IN_LIST
from endmark_benchmarks.harness.job_contest import JobContest, in_spark, ours
from endmark_benchmarks.workloads import recorded
from endmark_benchmarks.workloads.measured import Measured

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark_benchmarks.measurements.pipeline import PipelineOptions

OURS = "endmark"
MEASURED = Measured(Path(recorded.__file__).with_name("lookup_alone.yaml"))


def measure(options: PipelineOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run all in turn, and report as JSON has values for it.

    Args:
        options: those of the whole pipeline, whose recording has the bids. A batch is of bids alone.
        say: hears of the course of the measurement.

    Raises:
        EndmarkError: a part is missing, a contender failed, or they gave different results.
    """
    jars = [str(jar) for jar in [*local_jars(say), *jdbc_jars(say)]]
    module, size = "endmark_benchmarks.contenders.lookup_alone_spark", options.batch_records
    theirs = {name: in_spark(module, name, MEASURED, size, jars) for name in (IN_LIST, FULL_READ)}
    contest = JobContest(
        "lookup-alone",
        f"bids with their sellers, batches of {size:,} records",
        options.to_json(),
        partial(recorded.running, options.recorded),
        {OURS: ours(MEASURED, size), **theirs},
        MEASURED,
        options.repeats,
    )
    return contest.with_shares(say)

"""`python -m endmark_benchmarks pipeline`: Kafka to Delta tables, beside Spark, Flink, Pathway and DuckDB.

All read the same topics, filled before; only DuckDB reads their records from files. endmark and Spark read in
batches of equal size and write tables of their own, which DuckDB compares afterwards. The others sum their
results up, or write files of them. The clock of all but DuckDB and Pathway starts after the first third.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.contenders import pipeline_flink
from endmark_benchmarks.contenders.jars import flink_jars, jdbc_jars
from endmark_benchmarks.contenders.pathway_python import pathway_python
from endmark_benchmarks.contenders.pipeline_duckdb import DUCKDB
from endmark_benchmarks.contenders.pipeline_pathway import PATHWAY
from endmark_benchmarks.harness.contest import require_known, with_parts
from endmark_benchmarks.harness.job_contest import (
    JobContest,
    in_own_process,
    in_spark,
    ours,
    require_batches,
)
from endmark_benchmarks.workloads.auction import MEASURED, figures_of, recorded, workload
from endmark_benchmarks.workloads.recorded import running, texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark_benchmarks.harness.job_contest import Contender
    from endmark_benchmarks.workloads.recorded import Recorded

OURS, THEIRS = "endmark", "spark"
_MODULES = "endmark_benchmarks.contenders.pipeline_"
# Contenders without tables of the pipeline, each by the module of this name.
_MODULE_OF = {**dict.fromkeys(pipeline_flink.SETTINGS, "flink"), PATHWAY: "pathway", DUCKDB: "duckdb"}
_ALL_OF_IT = "tables exactly once, final groups, dead letters"
# By name, what endmark gives and it does not.
CONTENDERS = {
    OURS: "",
    THEIRS: "final groups, dead letters",
    pipeline_flink.HEAP: _ALL_OF_IT,
    pipeline_flink.FILES: "final groups, dead letters",
    pipeline_flink.ROCKSDB: _ALL_OF_IT,
    PATHWAY: f"{_ALL_OF_IT}, lookups in a database",
    DUCKDB: f"{_ALL_OF_IT}, streams",
}


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
        contenders: by name; `OURS` is always among them.
    """

    records: int
    batch_records: int
    sellers: int
    rate: float
    repeats: int
    directory: Path
    contenders: tuple[str, ...] = tuple(CONTENDERS)

    def __post_init__(self) -> None:
        require_batches(self.records, self.batch_records)
        require_known("contender", self.contenders, CONTENDERS)

    @property
    def recorded(self) -> Recorded:
        return recorded(self.directory, workload(self.records / self.rate, self.rate, self.sellers))

    def to_json(self) -> dict[str, Any]:
        """Return the options as values for JSON, without the contenders and the place of recorded input."""
        hidden = ("directory", "contenders")
        return {name: value for name, value in asdict(self).items() if name not in hidden}


def measure(options: PipelineOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run the contenders in turn, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a contender failed, or they gave different results.
    """
    contest = JobContest(
        "pipeline",
        f"auction, batches of {options.batch_records:,} records",
        options.to_json(),
        partial(running, options.recorded),
        _contenders(options, say),
        MEASURED,
        options.repeats,
        figures_of(lambda time: f"epoch_us({time})"),
    )
    return contest.with_shares(say)


def _contenders(options: PipelineOptions, say: Callable[[str], None]) -> dict[str, Contender]:
    """Return the contenders of a measurement, ours first; those whose parts cannot be had are left out."""
    size = options.batch_records
    jars = [str(jar) for jar in [*local_jars(say), *jdbc_jars(say)]]
    names = [name for name in CONTENDERS if name in (OURS, *options.contenders)]
    names, of_flink = with_parts(names, pipeline_flink.SETTINGS, flink_jars, say)
    names, python = with_parts(names, [PATHWAY], pathway_python, say)
    parts: dict[str, Any] = {"flink_jars": of_flink, "python": python}
    if DUCKDB in names:
        parts["texts"] = str(texts(options.recorded, say))
    found = {
        OURS: ours(MEASURED, size),
        THEIRS: in_spark(f"{_MODULES}spark", THEIRS, MEASURED, size, jars),
        **{
            name: in_own_process(_MODULES + module, name, MEASURED, parts)
            for name, module in _MODULE_OF.items()
        },
    }
    return {name: found[name] for name in names}

"""`python -m endmark_benchmarks further-stage`: the auction with one stage, and with a further one.

One stage groups by the join's key, the item. The further one groups by the item's seller. In both, the table
of groups gets a row of each group that a batch has changed. DuckDB groups the results of each run as its job
did, and the groups must be equal. Rates are those of `pipeline`, and latency is that of `latency` at one
rate.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.harness.contest import DisagreementError, interleaved
from endmark_benchmarks.harness.job_contest import JobContest, costs, ours
from endmark_benchmarks.measurements.latency import LatencyOptions, load_of, record
from endmark_benchmarks.workloads.auction import MEASURED
from endmark_benchmarks.workloads.lookup_input import in_memory
from endmark_benchmarks.workloads.recorded import running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from endmark.pipeline import Pipeline
    from endmark_benchmarks.harness.job_contest import Contender, Run
    from endmark_benchmarks.measurements.pipeline import PipelineOptions
    from endmark_benchmarks.workloads.recorded import Servers

_SETTINGS = (*MEASURED.settings, "tables.groups.mode=changes")
STAGES = {
    "one stage": replace(MEASURED, settings=_SETTINGS),
    "two stages": replace(MEASURED, settings=(*_SETTINGS, "steps.by_item.aggregate.by=items.seller_id")),
}
# The newest row of each group, beside the group of all its results; a result has one row of each.
_WRONG_GROUPS = """
SELECT count(*), count(*) FILTER (WHERE written IS DISTINCT FROM due) FROM (
    SELECT {key} AS key, arg_max((bids, highest_bid), batch) AS written
    FROM read_parquet($groups) GROUP BY key
) FULL JOIN (
    SELECT {source} AS key, (count(*), max(bids_price)) AS due
    FROM read_parquet($results) GROUP BY key
) USING (key)
"""


@dataclass(frozen=True)
class FurtherStageOptions:
    """The options of the measurement.

    Args:
        rates: those of the rates.
        fed: the records a second at which latency is measured.
        warm_seconds, seconds: of feeding, before latency is measured and while it is.
        trigger_seconds: least time from the start of one batch to the next, then.
        latency_repeats: the runs of each job, then.
    """

    rates: PipelineOptions
    fed: float
    warm_seconds: float
    seconds: float
    trigger_seconds: float
    latency_repeats: int

    @property
    def latency(self) -> LatencyOptions:
        return LatencyOptions(
            self.fed,
            (100.0,),
            self.warm_seconds,
            self.seconds,
            self.rates.sellers,
            self.rates.rate,
            self.trigger_seconds,
            self.rates.directory,
        )

    def to_json(self) -> dict[str, Any]:
        """Return the options as values for JSON, without the place of the recorded input."""
        names = ("fed", "warm_seconds", "seconds", "trigger_seconds", "latency_repeats")
        return self.rates.to_json() | {name: getattr(self, name) for name in names}


def measure(options: FurtherStageOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Run both in turn, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a job failed, or they gave different tables.
    """
    local_jars(say)
    sizes = options.rates
    contest = JobContest(
        "further-stage",
        f"auction, batches of {sizes.batch_records:,} records",
        options.to_json(),
        partial(running, sizes.recorded),
        {name: _with_right_groups(name, sizes.batch_records) for name in STAGES},
        STAGES["one stage"],
        sizes.repeats,
    )
    report, samples = contest.run(say)
    report["seconds"] = {name: costs(found) for name, found in samples.items()}
    report["latency"] = _latency(options, say)
    return report


def _with_right_groups(name: str, batch_records: int) -> Contender:
    """Return our job with one of the `STAGES`, which fails if its groups are not those of its results."""
    measured = STAGES[name]
    job = ours(measured, batch_records)

    def run(servers: Servers, directory: Path) -> Run:
        found = job(servers, directory)
        require_right_groups(name, measured.load(servers.relation_url), directory / "warehouse")
        return found

    return run


def require_right_groups(name: str, pipeline: Pipeline, warehouse: Path) -> None:
    """Compare the auction's groups with those that DuckDB makes of its results.

    Args:
        name: the name of the job.
        pipeline: the pipeline, which has one column in the key of its groups.
        warehouse: the directory of the tables.

    Raises:
        DisagreementError: a group is missing, differs, or should not be there.
    """
    [groups] = pipeline.groups
    [(key, reference)] = groups.references.items()
    source = f"items_{reference.removeprefix('items.')}"
    files = {
        role: DeltaTable(str(warehouse / pipeline.outputs.directories[of])).file_uris()
        for role, of in (("groups", groups.running_role), ("results", "results"))
    }
    with in_memory() as connection:
        statement = _WRONG_GROUPS.format(key=key, source=source)
        [(number, wrong)] = connection.execute(statement, files).fetchall()
    if wrong:
        raise DisagreementError(f"{name}: {wrong:,} of {number:,} groups are not those of the results")


def _latency(options: FurtherStageOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Feed new jobs in turn; return the percentiles of each run, and their medians, in seconds."""
    latency = options.latency
    record(latency.feed, say)
    loads: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for repeat, name in interleaved(list(STAGES), options.latency_repeats):
        loads[name].append(load_of(STAGES[name], latency, options.fed))
        say(f"{repeat + 1}: {name} at {options.fed:,.0f} records/s: {loads[name][-1]['seconds']}")
    return {name: _medians(found) for name, found in loads.items()}


def _medians(loads: list[dict[str, Any]]) -> dict[str, Any]:
    runs = [load["seconds"] for load in loads]
    seconds = {name: round(median(run[name] for run in runs), 3) for name in runs[0]}
    behind = max(load["feed_behind"] for load in loads)
    return {
        "runs": runs,
        "seconds": seconds,
        "feed_behind": behind,
        "results": sum(load["results"] for load in loads),
    }

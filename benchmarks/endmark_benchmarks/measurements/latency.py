"""`python -m endmark_benchmarks latency`: from a record's intended arrival to its results in a Delta table.

A recorded feed keeps its own pace, at shares of the highest rate that the job keeps up with, which some steps
of a search find. Event time goes with the pace: a job that falls behind makes all that follows late, and a
feed that does counts as well. A result arrives with the later of its two rows, and is visible once the
table's log has the version it is in.
"""

from __future__ import annotations

import math
import tempfile
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.control.ops_database.database import OpsDatabase
from endmark.demo.choreography import caught_up, json_lines
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError, EndmarkError
from endmark.spark.processes.class_archive import local_jars
from endmark_benchmarks.contenders.job import Job, wait_until
from endmark_benchmarks.harness.contest import in_process
from endmark_benchmarks.harness.delta import commits
from endmark_benchmarks.harness.highest_rate import STEPS, WARM_UP, bound, highest, step
from endmark_benchmarks.harness.origin import origin
from endmark_benchmarks.workloads.auction import MEASURED, PARTITIONS
from endmark_benchmarks.workloads.lookup_input import in_memory
from endmark_benchmarks.workloads.recorded import SERVER_MEMORY, Servers
from endmark_benchmarks.workloads.recorded_feed import Fed, Phase, RecordedFeed
from endmark_feed.message import BIDS, EPOCH, ITEMS
from endmark_feed.producer import create_topics
from endmark_feed.relation import seed_relation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from endmark.embedded.process import ManagedProcess
    from endmark_benchmarks.harness.delta import Commit
    from endmark_benchmarks.harness.highest_rate import Step
    from endmark_benchmarks.workloads.measured import Measured

PERCENTILES = (50, 95, 99)
_POLL_SECONDS = 0.25
_ARRIVALS = "SELECT epoch(greatest(items_listed_at, bids_bid_at)) FROM read_parquet($files)"


@dataclass(frozen=True)
class LatencyOptions:
    """The options of the measurement.

    Args:
        highest: records a second that the job keeps up with; `None` looks for it.
        shares: of the highest rate, in percent.
        warm_seconds, seconds: of feeding, before anything is measured and while it is.
        sellers: rows of R.
        rate: records for each second of event time.
        trigger_seconds: least time from the start of one batch to the next.
        directory: of the recorded feed, which is made when it is not there.
    """

    highest: float | None
    shares: tuple[float, ...]
    warm_seconds: float
    seconds: float
    sellers: int
    rate: float
    trigger_seconds: float
    directory: Path

    def __post_init__(self) -> None:
        if wrong := [share for share in self.shares if not 0 < share <= 100]:
            raise ConfigError(f"--share: {wrong[0]:g} is not above 0 and at most 100 percent")

    @property
    def feed(self) -> RecordedFeed:
        """Return the feed with as many records as the longest run needs."""
        most = (self.highest or STEPS[-1].rate) * max(self.shares) / 100
        needed = most * (self.warm_seconds + self.seconds)
        if self.highest is None:
            needed = max(needed, sum(each.records for each in (WARM_UP, *STEPS)))
        seconds = math.ceil(needed / self.rate) + 1
        place = self.directory / f"feed-{seconds}-{self.rate:g}-{self.sellers}"
        return RecordedFeed(place, seconds, self.rate, self.sellers)


def measure(options: LatencyOptions, say: Callable[[str], None]) -> dict[str, Any]:
    """Feed a new job at each share of the highest rate, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a job ended by itself, or nothing came out.
    """
    report: dict[str, Any] = {"bench": "latency", **origin()}
    local_jars(say)
    record(options.feed, say)
    most = options.highest
    if most is None:
        steps = _searched(options, say)
        most = highest(steps)
        report["search"] = {"bound": bound(steps), "steps": [each.to_json() for each in steps]}
        say(f"the job keeps up with {most:,.0f} records/s; what ends it is {bound(steps)}")
    settings = {name: value for name, value in asdict(options).items() if name != "directory"}
    report["options"] = settings | {"highest": most}
    report["loads"] = []
    for share in options.shares:
        load = load_of(MEASURED, options, most * share / 100)
        report["loads"].append({"share": share, **load})
        said = ", ".join(f"p{each} {load['seconds'][f'p{each}']:.2f} s" for each in PERCENTILES)
        say(f"{share:g} %: {said}, the feed at most {load['feed_behind']:.2f} s behind")
    return report


def record(feed: RecordedFeed, say: Callable[[str], None]) -> None:
    """Make a feed that is not there."""
    if not feed.directory.exists():
        say(f"recording {feed.seconds * feed.rate:,.0f} records in {feed.directory}")
        feed.make()


@dataclass(frozen=True)
class _Running:
    """A job, and the servers that it reads from."""

    job: Job
    process: ManagedProcess

    def fed(self, feed: RecordedFeed, phases: Sequence[Phase]) -> list[Fed]:
        """Feed some phases; return the course of each once they are over."""
        bootstrap = self.job.servers.bootstrap
        task = {"contender": "the feed", "bootstrap": bootstrap, "feed": feed.to_json(), "phases": phases}
        return [Fed(**found) for found in in_process("endmark_benchmarks.workloads.recorded_feed", task)]

    def wait(self, until: Callable[[], bool]) -> None:
        wait_until(until, self.process, _POLL_SECONDS)


@contextmanager
def _running(measured: Measured, options: LatencyOptions) -> Iterator[_Running]:
    """A new job of a pipeline, on the auction's empty topics."""
    with tempfile.TemporaryDirectory(prefix="endmark-bench-") as directory:
        work = Path(directory)
        broker, database = Broker(work / "broker"), MariaDb(work / "mariadb", memory=SERVER_MEMORY)
        with broker, database:
            seed_relation(database.url, options.sellers, seed=1)
            create_topics(broker.bootstrap, {ITEMS: PARTITIONS.items, BIDS: PARTITIONS.bids})
            job = Job(work, Servers(broker.bootstrap, database.url), measured)
            with job.start(f"--set=batch.every={options.trigger_seconds}s") as process:
                found = _Running(job, process)
                found.wait(lambda: {"event": "running"} in json_lines(process.log))
                yield found


def _searched(options: LatencyOptions, say: Callable[[str], None]) -> list[Step]:
    with _running(MEASURED, options) as running:
        _, *phases = running.fed(options.feed, (WARM_UP, *STEPS))
        batches = running.job.batches()
    steps = [step(phase, options.rate, batches) for phase in phases]
    for each in steps:
        say(
            f"{each.rate:,.0f} records/s: a lag of {each.lag:.1f} s, the feed {each.feed_behind:.2f} s behind"
        )
    return steps


def load_of(measured: Measured, options: LatencyOptions, rate: float) -> dict[str, Any]:
    """Feed a new job at a rate, and return the latency of its results.

    Args:
        measured: the pipeline, with the streams and the results of the auction.
        options: the options of the measurement; its shares do not matter here.
        rate: records a second.

    Raises:
        EndmarkError: the job ended by itself, or nothing came out.
    """
    with _running(measured, options) as running:
        [fed] = running.fed(options.feed, [Phase(rate, options.warm_seconds + options.seconds)])
        job, pipeline = running.job, running.job.pipeline
        with closing(OpsDatabase(job.ops_url)) as ops:
            running.wait(lambda: caught_up(ops, pipeline.name, job.servers.bootstrap))
        versions = commits(job.warehouse / pipeline.outputs.directories["results"])
        found = _latencies(versions, fed.began, options.warm_seconds, rate / options.rate)
    return {
        "rate": rate,
        "results": len(found),
        "seconds": percentiles(found),
        "feed_behind": fed.behind,
    }


def _latencies(versions: list[Commit], began: float, skipped: float, pace: float) -> NDArray[np.float64]:
    """Seconds from each result's arrival to its commit, without those that arrived in the first seconds.

    Args:
        began: Unix seconds when event time began.
        skipped: seconds.
        pace: seconds of event time in a second.
    """
    epoch = datetime.fromisoformat(EPOCH).replace(tzinfo=UTC).timestamp()
    found = [np.zeros(0)]
    with in_memory() as connection:
        for version in versions:
            if version.files:
                files = [str(file) for file in version.files]
                due = connection.execute(_ARRIVALS, {"files": files}).fetchnumpy()
                [times] = due.values()
                since = (np.asarray(times, dtype=np.float64) - epoch) / pace
                found.append(version.time - began - since[since >= skipped])
    return np.concatenate(found)


def percentiles(seconds: NDArray[np.float64]) -> dict[str, float]:
    """Return percentiles by name, such as `p50`.

    Raises:
        EndmarkError: there are no values.
    """
    if not len(seconds):
        raise EndmarkError("no result came of what was fed after the warm-up; feed longer or faster")
    return {f"p{each}": round(float(np.percentile(seconds, each)), 3) for each in PERCENTILES}

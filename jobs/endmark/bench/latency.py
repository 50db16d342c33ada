"""`endmark bench latency`: from a record's intended arrival to its results in a Delta table, under load.

The feed keeps its own pace, at shares of a given highest rate, and a record's event time is when it should
have been sent: a job that falls behind makes all that follows late, and a feed that does counts as well. A
result arrives with the later of its two rows, and is visible once the table's log has the version it is in.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from endmark.bench.auction import PARTITIONS, SERVER_MEMORY, Servers
from endmark.bench.contest import in_process
from endmark.bench.delta import commits
from endmark.bench.job import Job, wait_until
from endmark.bench.lookup_input import in_memory
from endmark.bench.report import origin
from endmark.demo.run import caught_up, json_lines
from endmark.errors import ConfigError, EndmarkError
from endmark.ops.database import OpsDatabase
from endmark.parts.broker import Broker
from endmark.parts.mariadb import MariaDb
from endmark.spark.class_archive import local_jars
from endmark_feed.message import BIDS, EPOCH, ITEMS
from endmark_feed.producer import create_topics
from endmark_feed.relation import seed_relation

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from endmark.bench.delta import Commit

PERCENTILES = (50, 95, 99)
_POLL_SECONDS = 0.25
_ARRIVALS = "SELECT epoch(greatest(items_listed_at, bids_bid_at)) FROM read_parquet($files)"


@dataclass(frozen=True)
class Options:
    """What is measured.

    Args:
        highest: records a second that the job keeps up with.
        shares: of the highest rate, in percent.
        warm_seconds, seconds: of feeding, before anything is measured and while it is.
        sellers: rows of R.
        trigger_seconds: least time from the start of one batch to the next.
    """

    highest: float
    shares: tuple[float, ...]
    warm_seconds: float
    seconds: float
    sellers: int
    trigger_seconds: float

    def __post_init__(self) -> None:
        if wrong := [share for share in self.shares if not 0 < share <= 100]:
            raise ConfigError(f"--share: {wrong[0]:g} is not above 0 and at most 100 percent")


def measure(options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    """Feed a new job at each share of the highest rate, and report as JSON has values for it.

    Raises:
        EndmarkError: a part is missing, a job ended by itself, or nothing came out.
    """
    report: dict[str, Any] = {"bench": "latency", **origin(), "options": asdict(options)}
    local_jars(say)
    report["loads"] = []
    for share in options.shares:
        with tempfile.TemporaryDirectory(prefix="endmark-bench-") as work:
            load = _measured(Path(work), options, options.highest * share / 100)
        report["loads"].append({"share": share, **load})
        said = ", ".join(f"p{each} {load['seconds'][f'p{each}']:.2f} s" for each in PERCENTILES)
        say(f"{share:g} %: {said}, the feed at most {load['feed_behind']:.2f} s behind")
    return report


def _measured(work: Path, options: Options, rate: float) -> dict[str, Any]:
    broker, database = Broker(work / "broker"), MariaDb(work / "mariadb", memory=SERVER_MEMORY)
    with broker, database:
        servers = Servers(broker.bootstrap, database.url)
        seed_relation(database.url, options.sellers, seed=1)
        create_topics(broker.bootstrap, {ITEMS: PARTITIONS.items, BIDS: PARTITIONS.bids})
        job = Job(work, servers)
        with job.start(f"--set=batch.every={options.trigger_seconds}s") as process:
            running = {"event": "running"}
            wait_until(lambda: running in json_lines(process.log), process, _POLL_SECONDS)
            task = {
                "contender": "the feed",
                "bootstrap": broker.bootstrap,
                "seconds": options.warm_seconds + options.seconds,
                "rate": rate,
                "sellers": options.sellers,
            }
            [fed] = in_process("endmark.bench.latency_feed", task)
            with closing(OpsDatabase(job.ops_url)) as ops:
                name = servers.pipeline.name
                wait_until(lambda: caught_up(ops, name, broker.bootstrap), process, _POLL_SECONDS)
        versions = commits(job.warehouse / servers.pipeline.tables.results)
        found = _latencies(versions, fed["began"], options.warm_seconds)
    return {
        "rate": rate,
        "results": len(found),
        "seconds": percentiles(found),
        "feed_behind": fed["behind"],
    }


def _latencies(versions: list[Commit], began: float, skipped: float) -> NDArray[np.float64]:
    """Seconds from each result's arrival to its commit, without those that arrived in the first seconds.

    Args:
        began: Unix seconds when event time began.
        skipped: seconds.
    """
    epoch = datetime.fromisoformat(EPOCH).replace(tzinfo=UTC).timestamp()
    found = [np.zeros(0)]
    with in_memory() as connection:
        for version in versions:
            if version.files:
                files = [str(file) for file in version.files]
                due = connection.execute(_ARRIVALS, {"files": files}).fetchnumpy()
                [times] = due.values()
                since = np.asarray(times, dtype=np.float64) - epoch
                found.append(version.time - began - since[since >= skipped])
    return np.concatenate(found)


def percentiles(seconds: NDArray[np.float64]) -> dict[str, float]:
    """By `p50` and the like.

    Raises:
        EndmarkError: there are none.
    """
    if not len(seconds):
        raise EndmarkError("no result came of what was fed after the warm-up; feed longer or faster")
    return {f"p{each}": round(float(np.percentile(seconds, each)), 3) for each in PERCENTILES}

"""A job on a Spark standalone cluster, as packaged for spark-submit: `make test-cluster`.

Tables and checkpoint are in S3, and two workers share the state of a job, but no volume. A worker, an
executor, the store and the driver are killed in turn while records are left to read. Then every table must be
right, and what was seen is kept.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

from cluster.doors import (
    test_no_end_by_web_page,
    test_no_submission_by_rest,
    test_no_worker_without_the_secret,
)
from cluster.standalone import PackagedCluster
from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.pipelines import AUCTION
from endmark.storage import Location, StoreUrl
from endmark_feed.auction_feed import FeedOptions
from support.faults import Faults, step
from support.s3_server import S3Server
from support.warehouse import Warehouse, wait_for

# Generous, for machines of two cores that do something else beside.
SECONDS = 600.0
_SMALL_BATCHES = "--set=batch.records=4000"


def arguments(
    bootstrap: str,
    tables: Location,
    checkpoint: Location,
    ops_url: str,
    *more: str,
    pipeline: Path = AUCTION,
    buckets: int = 4,
) -> list[str]:
    """Return the arguments of a job."""
    return [
        "run",
        str(pipeline),
        f"--bootstrap={bootstrap}",
        f"--warehouse={tables}",
        f"--checkpoint={checkpoint}",
        f"--ops-url={ops_url}",
        f"--buckets={buckets}",
        "--json",
        *more,
    ]


def moves_on(warehouse: Warehouse, job: ManagedProcess) -> None:
    """The job commits a batch that began after this call."""
    before = warehouse.batches()
    wait_for(lambda: warehouse.batches() >= before + 2, job, SECONDS)


def records_read(warehouse: Warehouse) -> float:
    batch = warehouse.batch()
    assert batch is not None
    return sum(value for name, value in batch.totals.items() if name.startswith("records_total{"))


def test_every_part_killed(
    cluster: PackagedCluster, store: S3Server, warehouse: Warehouse, faults: Faults
) -> None:
    feed = threading.Thread(target=warehouse.feed, daemon=True)
    feed.start()
    first, second = cluster.start_worker(), cluster.start_worker()
    place = warehouse.broker.bootstrap, warehouse.tables, warehouse.checkpoint, warehouse.ops_url
    job = cluster.submit(*arguments(*place, _SMALL_BATCHES))
    with step("first batches"):
        wait_for(lambda: warehouse.batches() > 1, job, SECONDS)
    held = first.segments(), second.segments()
    assert min(held) > 0, f"one worker has no state: {held}"
    print(f"segments of state that each worker has seen: {held}", flush=True)

    test_no_submission_by_rest(cluster)
    test_no_end_by_web_page(cluster)
    test_no_worker_without_the_secret(cluster)

    seen = "Spark repeats its tasks on the other executor, which reads their state from the checkpoint."
    with faults.survived("one of two workers, with its executor", seen):
        first.kill()
        moves_on(warehouse, job)
    with step("another worker joins"):
        third = cluster.start_worker()
        wait_for(third.has_environment, job, SECONDS)
    # Spark leaves state where it is for as long as that executor lives and is not too busy.
    seen = (
        "The worker starts another. The one that has joined meanwhile takes the tasks and reads their state."
    )
    with faults.survived("the executor that has all state", seen):
        second.kill_executor()
        moves_on(warehouse, job)
        wait_for(lambda: third.segments() > 0, job, SECONDS)
        wait_for(lambda: second.executors() > 1, job, SECONDS)
    with faults.survived("the object store", "Clients try again until it is back."):
        store.kill()
        store.start()
        moves_on(warehouse, job)
    job.kill()
    read = records_read(warehouse)
    feed.join()
    with faults.survived("the driver") as fault:
        job = cluster.submit(*arguments(*place, "--available-now"))
        job.wait_done(SECONDS)
    left = records_read(warehouse) - read
    assert left > 0, "nothing was left to read when the driver was killed"
    fault.seen = (
        "Another waits until that one counts as dead, goes on from the checkpoint, and reads the "
        f"{left:,.0f} records that are left."
    )
    assert not list(warehouse.directory.glob("*checkpoint*")), "the checkpoint is on a file system"

    report = warehouse.verify()
    assert report.ok, report.to_json()
    rows = sum(table.actual for table in report.tables)
    assert rows > 10_000
    print(f"{rows} rows as recomputed", flush=True)
    faults.keep()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="what infra/package.sh has made")
    package: Path = parser.parse_args().package
    feed = FeedOptions(seed=3, minutes=2.0, rate=1_000, sellers=5_000, bad_rate=0.002)
    with tempfile.TemporaryDirectory(prefix="endmark-cluster-") as scratch, ExitStack() as stack:
        directory = Path(scratch)
        broker = stack.enter_context(Broker(directory / "broker"))
        store = stack.enter_context(S3Server(directory / "s3"))
        os.environ |= store.environment()
        bucket = StoreUrl(store.make_bucket("shop"))
        relation = f"sqlite:///{directory / 'relation.db'}"
        warehouse = Warehouse(
            directory, broker, relation, feed, tables=bucket / "tables", checkpoint=bucket / "checkpoint"
        )
        os.environ["ENDMARK_RELATION_URL"] = warehouse.relation_url
        faults = Faults("cluster_faults")
        cluster = stack.enter_context(PackagedCluster(directory, package.resolve()))
        test_every_part_killed(cluster, store, warehouse, faults)
    print("the cluster is as it should be")


if __name__ == "__main__":
    main()

"""A job on a Spark standalone cluster, as packaged for spark-submit: `make test-cluster`.

Two workers share the state of a job. A worker, an executor and the driver are killed in turn while records
are left to read; then every table must be right.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cluster.doors import (
    test_no_end_by_web_page,
    test_no_submission_by_rest,
    test_no_worker_without_the_secret,
)
from cluster.standalone import Cluster
from endmark.cli import AUCTION
from endmark.parts.broker import Broker
from endmark.parts.process import ManagedProcess
from endmark_feed.run import FeedOptions
from support.warehouse import Warehouse, wait_for

# Generous, for machines of two cores that do something else beside.
_SECONDS = 600.0
_SMALL_BATCHES = "--max-records-per-batch=4000"


@contextmanager
def step(name: str) -> Iterator[None]:
    started = time.monotonic()
    yield
    print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)


def arguments(warehouse: Warehouse, directory: Path, *more: str) -> list[str]:
    return [
        "run",
        str(AUCTION),
        f"--bootstrap={warehouse.broker.bootstrap}",
        f"--warehouse={directory / 'warehouse'}",
        f"--checkpoint={directory / 'checkpoint'}",
        f"--ops-url=sqlite:///{directory / 'ops.db'}",
        "--buckets=4",
        "--json",
        *more,
    ]


def moves_on(warehouse: Warehouse, job: ManagedProcess) -> None:
    """The job commits a batch that began after this call."""
    before = warehouse.batches()
    wait_for(lambda: warehouse.batches() >= before + 2, job, _SECONDS)


def records_read(warehouse: Warehouse) -> float:
    batch = warehouse.batch()
    assert batch is not None
    return sum(value for name, value in batch.totals.items() if name.startswith("records_total{"))


def test_every_part_killed(cluster: Cluster, warehouse: Warehouse) -> None:
    feed = threading.Thread(target=warehouse.feed, daemon=True)
    feed.start()
    first, second = cluster.start_worker(), cluster.start_worker()
    job = cluster.submit(*arguments(warehouse, warehouse.directory, _SMALL_BATCHES))
    with step("first batches"):
        wait_for(lambda: warehouse.batches() > 1, job, _SECONDS)
    held = first.segments(), second.segments()
    assert min(held) > 0, f"one worker has no state: {held}"
    print(f"segments of state that each worker has seen: {held}", flush=True)

    test_no_submission_by_rest(cluster)
    test_no_end_by_web_page(cluster)
    test_no_worker_without_the_secret(cluster)

    with step("kill a worker and its executor"):
        first.kill()
        moves_on(warehouse, job)
    with step("another worker joins"):
        third = cluster.start_worker()
        wait_for(third.has_environment, job, _SECONDS)
    # Spark leaves state where it is for as long as that executor lives and is not too busy.
    with step("kill the executor that has the state"):
        second.kill_executor()
        moves_on(warehouse, job)
        wait_for(lambda: third.segments() > 0, job, _SECONDS)
        wait_for(lambda: second.executors() > 1, job, _SECONDS)
    job.kill()
    read = records_read(warehouse)
    feed.join()
    with step("kill the driver, start another, read the rest"):
        job = cluster.submit(*arguments(warehouse, warehouse.directory, "--available-now"))
        job.wait_done(_SECONDS)
    assert records_read(warehouse) > read, "nothing was left to read when the driver was killed"

    report = warehouse.verify()
    assert report.ok, report.to_json()
    rows = sum(table.actual for table in report.tables)
    assert rows > 10_000
    print(f"{rows} rows as recomputed; {read:.0f} records were read when the driver was killed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="what infra/package.sh has made")
    package: Path = parser.parse_args().package
    feed = FeedOptions(seed=3, minutes=2.0, rate=1_000, sellers=5_000, bad_rate=0.002)
    with tempfile.TemporaryDirectory(prefix="endmark-cluster-") as scratch, ExitStack() as stack:
        directory = Path(scratch)
        broker = stack.enter_context(Broker(directory / "broker"))
        warehouse = Warehouse(directory, broker, f"sqlite:///{directory / 'relation.db'}", feed)
        os.environ["ENDMARK_RELATION_URL"] = warehouse.relation_url
        cluster = stack.enter_context(Cluster(directory, package.resolve()))
        test_every_part_killed(cluster, warehouse)
    print("the cluster is as it should be")


if __name__ == "__main__":
    main()

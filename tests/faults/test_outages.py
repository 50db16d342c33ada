"""Broken infrastructure: retried within a deadline, then the query stops with the cause."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from deltalake import DeltaTable
from kafka import KafkaAdminClient, KafkaProducer

from endmark.driver.topics import partition_counts
from endmark.embedded.broker import Broker
from endmark.embedded.mariadb import MariaDb
from endmark.errors import MissingPartError
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from support.warehouse import Warehouse, errors, wait_for

OPTIONS = FeedOptions(seed=5, minutes=1.5, rate=500, sellers=2_000)
SMALL = "--set=batch.records=500"  # so that batches follow when a busy machine is late and the feed is over


@pytest.fixture
def database(tmp_path: Path) -> Iterator[MariaDb]:
    with MariaDb(tmp_path / "mariadb") as running:
        yield running


@pytest.fixture
def warehouse(tmp_path: Path, database: MariaDb) -> Iterator[Warehouse]:
    pipeline = tmp_path / "impatient.yaml"
    pipeline.write_text(AUCTION.read_text().replace("table: sellers", "table: sellers\n    retry: 30s"))
    with Broker(tmp_path / "broker") as broker:
        yield Warehouse(tmp_path, broker, database.url, OPTIONS, pipeline)


@pytest.fixture
def feed(warehouse: Warehouse) -> threading.Thread:
    def publish() -> None:
        with suppress(MissingPartError):  # one test takes its broker away
            warehouse.feed()

    running = threading.Thread(target=publish, daemon=True)
    running.start()
    return running


def test_database_away(warehouse: Warehouse, database: MariaDb, feed: threading.Thread) -> None:
    """A database killed for five seconds costs time only; one that stays away stops the query with its cause,
    and what was written until then is right once the job has run again."""
    job = warehouse.start_job(SMALL)
    wait_for(lambda: warehouse.batches() >= 2, job)
    database.kill()
    time.sleep(5)
    database.start()
    before = warehouse.batches()
    wait_for(lambda: warehouse.batches() > before + 1, job)

    database.kill()
    with pytest.raises(Exception, match="failed with code 1"):
        job.wait_done(120)
    [error] = errors(job)
    assert "relation 'sellers': the database did not answer for" in error
    assert "relation 'sellers': waiting 30 s for the database" in job.log.read_text()

    database.start()
    feed.join()
    warehouse.run_to_the_end()
    report = warehouse.verify()
    assert report.ok, report.to_json()


@pytest.mark.usefixtures("feed")
def test_broker_away(warehouse: Warehouse) -> None:
    """A broker that stays away stops the query within two minutes, naming it."""
    job = warehouse.start_job(SMALL)
    wait_for(lambda: warehouse.batches() >= 2, job)
    warehouse.broker.kill()
    with pytest.raises(Exception, match="failed with code 1"):
        job.wait_done(120)
    assert warehouse.broker.bootstrap in errors(job)[0]


@pytest.mark.usefixtures("feed")
def test_ops_database_away(warehouse: Warehouse, tmp_path: Path) -> None:
    """A restart of the ops database costs time only. One that stays away stops the job with its cause."""
    with MariaDb(tmp_path / "ops") as ops:
        warehouse.ops_url = ops.url
        job = warehouse.start_job(SMALL)
        wait_for(lambda: warehouse.batches() >= 2, job)
        ops.kill()
        ops.start()
        before = warehouse.batches()
        wait_for(lambda: warehouse.batches() > before + 1, job)
        ops.kill()
    with pytest.raises(Exception, match="failed with code 1"):
        job.wait_done(180)
    [error] = errors(job)
    assert "pipeline auction, batch" in error
    assert "the ops database mysql+pymysql://endmark:***@" in error
    assert "when it is back, start the job again" in error


@pytest.mark.usefixtures("feed")
def test_partition_added(warehouse: Warehouse) -> None:
    """A partition that a topic gets stops the query, naming it, before anything of its batch is written; the
    job that is started again reads it."""
    job = warehouse.start_job(SMALL)
    wait_for(lambda: warehouse.batches() >= 2, job)
    bootstrap = warehouse.broker.bootstrap
    partitions = partition_counts(bootstrap, ["bids"])["bids"]
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_partitions({"bids": partitions + 1})
    admin.close()
    wait_for(lambda: partition_counts(bootstrap, ["bids"])["bids"] > partitions, job)
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    producer.send("bids", b"not JSON", partition=partitions).get(90)
    producer.close()

    with pytest.raises(Exception, match="failed with code 1"):
        job.wait_done(300)
    assert f"topic bids has got partition {partitions} since the query started" in errors(job)[0]
    assert bad_partitions(warehouse) == set()
    job = warehouse.start_job()
    wait_for(lambda: bad_partitions(warehouse) == {partitions}, job)
    job.stop()


def bad_partitions(warehouse: Warehouse) -> set[int]:
    """Return the partitions of dead letters that are not JSON."""
    table = DeltaTable(warehouse.directory / "warehouse" / "dead_letters").to_pyarrow_table()
    return {row["partition"] for row in table.to_pylist() if row["value"] == b"not JSON"}

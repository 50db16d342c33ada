"""Tables that are partitioned and upserted, by a job that is killed, beside upkeep and readers."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.maintenance import maintain
from endmark.pipeline.file import load
from endmark.pipeline.text import PipelineText
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from support.warehouse import Warehouse, wait_for

KILLS = 1
TABLES = {
    "results": {"from": "matched", "partition_by": "items_category", "cluster_by": "bids_price"},
    "groups": {"from": "by_item", "partition_by": "country"},
    "running": {"from": "by_item", "mode": "upsert", "partition_by": "country"},
}


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    pipeline = tmp_path / "auction.yaml"
    document = PipelineText(AUCTION).document
    document["steps"]["by_item"]["aggregate"]["measures"]["country"] = {"last": "sellers.country"}
    pipeline.write_text(yaml.safe_dump(document | {"tables": TABLES}, sort_keys=False))
    options = FeedOptions(seed=13, minutes=0.75, rate=1_500, sellers=2_000, bad_rate=0.002)
    with Broker(tmp_path / "broker") as broker:
        yield Warehouse(tmp_path, broker, f"sqlite:///{tmp_path / 'relation.db'}", options, pipeline)


class Reader:
    """Reads running groups again and again: no group may be there twice or vanish, nor go back."""

    def __init__(self, table: Path) -> None:
        self.reads = 0
        self.wrong: list[str] = []
        self._table = table
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _read(self) -> None:
        before: dict[int, int] = {}
        while not self._ended.wait(0.2):
            if not DeltaTable.is_deltatable(str(self._table)):
                continue
            rows = DeltaTable(str(self._table)).to_pyarrow_table(columns=["item_id", "bids"])
            now = dict(zip(rows["item_id"].to_pylist(), rows["bids"].to_pylist(), strict=True))
            if len(now) != rows.num_rows:
                self.wrong.append(f"{rows.num_rows - len(now)} groups were there twice")
            self.wrong += [
                f"group {key} of {count} bids has {now.get(key)}"
                for key, count in before.items()
                if now.get(key, 0) < count
            ]
            before = now
            self.reads += 1


def lose_version(warehouse: Warehouse) -> bool:
    """Take back what the job, which has stopped, has done since it wrote the last batch's files of running
    groups: their commit, and Spark's own note of the batch. The other tables keep the batch.

    Return `False`, and change nothing, if the last batch changed no group, or a table has a later one.
    """
    tables = warehouse.directory / "warehouse"
    last = max((tables / "running" / "_delta_log").glob("*.json"))
    spark = warehouse.directory / "checkpoint" / "spark"
    commits, offsets = (
        {int(entry.name): entry for entry in (spark / log).iterdir() if entry.name.isdecimal()}
        for log in ("commits", "offsets")
    )
    batch = max(commits)
    if batches_of(last) != {batch} or any(
        max(batches_of(entry), default=0) > batch for entry in tables.glob("*/_delta_log/*.json")
    ):
        return False
    planned = [entry for number, entry in offsets.items() if number > batch]
    for entry in (last, commits[batch], *planned):
        entry.unlink()
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)
    return True


def batches_of(version: Path) -> set[int]:
    """The batches that a version of a table has committed: one, or none."""
    actions = [json.loads(line) for line in version.read_text().splitlines()]
    return {action["txn"]["version"] for action in actions if "txn" in action}


def run_some_batches(warehouse: Warehouse) -> ManagedProcess:
    before = warehouse.batches()
    job = warehouse.start_job("--set=batch.records=500")
    wait_for(lambda: warehouse.batches() > before + 3, job)
    return job


def test_killed_beside_upkeep_and_readers(warehouse: Warehouse, spark: SparkSession) -> None:
    """Every table is right in the end, and every reader sees the same."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    directory = warehouse.directory / "warehouse"
    spec = load(warehouse.pipeline, {"ENDMARK_RELATION_URL": warehouse.relation_url})
    feed = threading.Thread(target=warehouse.feed)
    feed.start()
    for _ in range(5):
        run_some_batches(warehouse).stop()
        if lose_version(warehouse):
            break
    else:
        pytest.fail("no last batch has changed a group")
    merged = 0
    with Reader(directory / "running") as reader:
        for _ in range(KILLS):
            job = run_some_batches(warehouse)
            did = maintain(spec, directory, timedelta(days=1), dry_run=False)
            merged += sum(done.put_together for done in did if done.table == "running")
            time.sleep(chance.uniform(0, 3))
            assert job.running
            job.kill()
        feed.join()
        warehouse.run_to_the_end()
    assert reader.wrong == []
    assert reader.reads > 10
    assert merged > 0
    report = warehouse.verify()
    assert report.ok, report.to_json()
    assert min(table.actual for table in report.tables if table.table in TABLES) > 100

    before = {name: rows_of(directory / name) for name in TABLES}
    for _ in range(2):
        for name in TABLES:
            require_same_rows(spark, directory / name, before[name])
        maintain(spec, directory, timedelta(days=1), dry_run=False)


def rows_of(table: Path) -> list[dict[str, Any]]:
    rows = DeltaTable(str(table)).to_pyarrow_table()
    return sorted(rows.to_pylist(), key=repr)


def require_same_rows(spark: SparkSession, table: Path, expected: list[dict[str, Any]]) -> None:
    """Assert that delta-rs, Spark and DuckDB read these rows."""
    assert rows_of(table) == expected
    schema = DeltaTable(str(table)).to_pyarrow_dataset().schema
    by_spark = spark.read.format("delta").load(str(table)).toArrow()
    assert sorted(by_spark.cast(schema).to_pylist(), key=repr) == expected
    dataset = DeltaTable(str(table)).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("rows", dataset)
        by_duckdb: pa.Table = connection.execute("FROM rows").to_arrow_table()
    assert sorted(by_duckdb.cast(schema).to_pylist(), key=repr) == expected

"""Delta maintenance beside a running job, and of old tables: no row is lost, none comes twice."""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from endmark.embedded.broker import Broker
from endmark.maintenance import Maintained, maintain
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark_feed.auction_feed import FeedOptions
from support.commands import endmark
from support.warehouse import Warehouse, wait_for

OLD = 2 * 86_400.0  # seconds; older than what is kept


@pytest.fixture
def warehouse(tmp_path: Path) -> Iterator[Warehouse]:
    options = FeedOptions(seed=11, minutes=0.5, rate=1_500, sellers=2_000, bad_rate=0.002)
    with Broker(tmp_path / "broker") as broker:  # of its own, since the feed names its topics
        yield Warehouse(tmp_path, broker, f"sqlite:///{tmp_path / 'relation.db'}", options)


def maintained(warehouse: Warehouse) -> dict[str, dict[str, Any]]:
    """Run `endmark maintain`, which keeps a day, and return its report by table."""
    command = ["maintain", str(AUCTION), f"--warehouse={warehouse.directory / 'warehouse'}", "--keep-days=1"]
    ended = endmark(*command, "--json", ENDMARK_RELATION_URL=warehouse.relation_url)
    assert ended.returncode == 0, ended.stderr
    return {table["table"]: table for table in map(json.loads, ended.stdout.splitlines())}


def grow_old(table: Path) -> None:
    """Make a table look as if all of it had been written and compacted two days ago."""
    then = time.time() - OLD
    for entry in (table / "_delta_log").glob("*.json"):
        aged = re.sub(
            r'"deletionTimestamp":\d+', f'"deletionTimestamp":{int(then * 1000)}', entry.read_text()
        )
        entry.write_text(aged)
        entry.with_name(f".{entry.name}.crc").unlink(missing_ok=True)  # of the bytes before
    DeltaTable(str(table)).create_checkpoint()
    for file in [path for path in table.rglob("*") if path.is_file()]:
        os.utime(file, (then, then))


def lose_commit(checkpoint: Path) -> None:
    """Remove Spark's note of the last batch, as a kill between the batch's writes and that note would.

    The job must have ended by itself. A killed one leaves a further batch, perhaps written to one table of
    two. When this function removed that batch's plan, the next run gave its number to other records, and the
    table that knew the number refused 16,146 rows.
    """
    commits, offsets = (numbered(checkpoint / "spark" / log) for log in ("commits", "offsets"))
    last = max(commits)
    assert last == max(offsets)
    commits[last].unlink()
    commits[last].with_name(f".{last}.crc").unlink(missing_ok=True)


def numbered(log: Path) -> dict[int, Path]:
    return {int(entry.name): entry for entry in log.iterdir() if entry.name.isdecimal()}


def test_beside_the_job_and_after_it(warehouse: Warehouse) -> None:
    """Small files are put together while the job appends, and it survives a kill after that. Once what is old
    is removed, a batch that the job repeats is known to have been written."""
    results = warehouse.directory / "warehouse" / "results"
    feed = threading.Thread(target=warehouse.feed)
    feed.start()
    job = warehouse.start_job("--set=batch.records=1000")
    wait_for(lambda: warehouse.batches() > 2, job, 300)
    left_behind = results / "part-of-a-killed-attempt.parquet"
    left_behind.touch()
    os.utime(left_behind, (0, 0))
    files = len(DeltaTable(str(results)).file_uris())
    spec = load(AUCTION, {"ENDMARK_RELATION_URL": warehouse.relation_url})
    beside: list[Maintained] = []

    def files_put_together_twice() -> bool:
        did = maintain(spec, results.parent, timedelta(days=1), dry_run=False)
        beside.extend(done for done in did if done.table == "results")
        return sum(done.put_together > 0 for done in beside) > 1

    wait_for(files_put_together_twice, job)
    assert beside[0].put_together >= files
    assert [done.removed_files for done in beside if done.removed_files] == [1]
    assert not left_behind.exists()
    feed.join()
    assert job.running
    job.kill()
    warehouse.run_to_the_end()

    for table in ("results", "groups"):
        grow_old(results.with_name(table))
    lose_commit(warehouse.directory / "checkpoint")
    did = maintained(warehouse)
    assert did["results"]["removed_files"] >= files
    for table in ("results", "groups"):
        assert did[table]["removed_log_entries"] > 0

    warehouse.run_to_the_end()
    report = warehouse.verify()
    assert report.ok, report.to_json()
    assert min(table.actual for table in report.tables if table.table in ("results", "groups")) > 100

"""A pipeline of one stream and a lookup, killed while rows wait: HYBRIDJOIN's own use."""

from __future__ import annotations

import os
import sys
from contextlib import closing
from pathlib import Path

import pytest

from endmark.control.ops_database.database import OpsDatabase
from endmark.embedded.broker import Broker
from endmark.embedded.process import ManagedProcess
from endmark.metrics import sample
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark.verify.verification import verify
from endmark_feed.papers.names import parse_workload
from endmark_feed.papers.products import fill_products
from endmark_feed.papers.topic_feed import run_workload
from support.warehouse import wait_for

SALES = AUCTION.with_name("sales.yaml")
GROUPS = [
    "steps.by_key={from: priced, aggregate: {by: key, measures: {sales: count, dearest: {max: price}}}}",
    "tables.groups={from: by_key}",
    "tables.running={from: by_key, mode: changes}",
]
# One read in each batch that is no pause, of small pages, so that rows wait.
SLOW = ["steps.priced.lookup.time_per_batch=0ms", "steps.priced.lookup.page_rows=20", "batch.records=2000"]
WAITING = sample("lookup_pending_rows", relation="products")


@pytest.mark.parametrize(
    ("workload", "products", "fields"),
    [
        ("zipf-2000-1-500", 2_000, []),
        (
            "punct-random-30-40",
            300,
            ["streams.sales.punctuated_on=key", "steps.priced.lookup.miss=nulls", *GROUPS],
        ),
    ],
)
def test_killed_while_rows_wait(
    workload: str, products: int, fields: list[str], broker: Broker, jars: list[Path], tmp_path: Path
) -> None:
    """Every table is equal to its recomputation, and no row has passed twice."""
    assert jars
    topic, url = f"sales-{workload}", f"sqlite:///{tmp_path / 'relation.db'}"
    values = 20_000 if workload.startswith("zipf") else 500
    published = run_workload(
        parse_workload(workload, values), broker.bootstrap, topic, partitions=2, pace="fast"
    )
    fill_products(url, products)
    assignments = [f"streams.sales.topic={topic}", f"control.topic={topic}-control", *fields, *SLOW]
    ops_url = f"sqlite:///{tmp_path / 'ops.db'}"

    def job(*extra: str) -> ManagedProcess:
        os.environ["ENDMARK_RELATION_URL"] = url
        command = [sys.executable, "-m", "endmark.cli", "run", str(SALES), "--json", f"--ops-url={ops_url}"]
        command += [f"--bootstrap={broker.bootstrap}", f"--warehouse={tmp_path / 'warehouse'}"]
        command += [f"--checkpoint={tmp_path / 'checkpoint'}", *extra]
        command += [f"--set={assignment}" for assignment in assignments]
        return ManagedProcess("job", command, tmp_path / f"job-{len(extra)}.log", stop_seconds=90)

    def waited() -> bool:
        with closing(OpsDatabase(ops_url)) as ops:
            batches = ops.batches.after("sales", -1, 100)
        return len(batches) > 2 and any(batch.samples.get(WAITING, 0) > 0 for batch in batches)

    killed = job()
    wait_for(waited, killed)
    killed.kill()
    job("--available-now").wait_done(300)
    report = verify(
        load(SALES, {"ENDMARK_RELATION_URL": url}, assignments), broker.bootstrap, tmp_path / "warehouse"
    )

    assert report.ok, report.to_json()
    rows = {table.table: table.actual for table in report.tables}
    assert rows["results"] == published.rows
    assert rows["violations"] == rows["dead_letters"] == 0
    if fields:
        assert rows["groups"] > 400
        assert rows["punctuations"] == published.punctuations

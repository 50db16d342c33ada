"""The whole pipeline with its tables in an object store, killed while it works."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import httpx
import pytest

from endmark.embedded.broker import Broker
from endmark.pipelines import AUCTION
from endmark.storage import location
from endmark_feed.auction_feed import FeedOptions
from support.commands import endmark
from support.ops_sidecar import Sidecar
from support.s3_server import S3Server
from support.warehouse import Warehouse, wait_for


def test_killed_and_still_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is equal to its recomputation; upkeep and the readers of dead letters take the same URL. No
    secret is in what a job leaves behind."""
    options = FeedOptions(seed=5, minutes=0.4, rate=1_500, sellers=2_000, bad_rate=0.01)
    with S3Server(tmp_path / "s3") as server, Broker(tmp_path / "broker") as broker:
        server.make_bucket("shop")
        given = server.environment()
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        relation = f"sqlite:///{tmp_path / 'relation.db'}"
        (tmp_path / "job").mkdir()
        tables = location("s3://shop/auction/tables")
        warehouse = Warehouse(tmp_path / "job", broker, relation, options, tables=tables)
        feed = threading.Thread(target=warehouse.feed)
        feed.start()
        job = warehouse.start_job("--set=batch.records=4000")
        wait_for(lambda: warehouse.batches() > 1, job)
        job.kill()
        feed.join()
        warehouse.run_to_the_end("--set=batch.records=4000")
        before = warehouse.verify()
        done = endmark("maintain", str(AUCTION), **warehouse.environment(), ENDMARK_RELATION_URL=relation)
        after = warehouse.verify()
        listed = endmark(
            "dead-letters",
            "list",
            str(AUCTION),
            "--json",
            **warehouse.environment(),
            ENDMARK_RELATION_URL=relation,
        )
        sidecar = Sidecar(warehouse.ops_url, reach={"warehouse": str(tables)})
        sidecar.start()
        shown = httpx.get(f"{sidecar.url}api/pipelines/auction/dead-letters?limit=20", timeout=60).json()
        sidecar.stop()

    assert before.ok, before.to_json()
    assert after.ok, after.to_json()
    assert sum(table.actual for table in after.tables) > 10_000
    assert done.returncode == 0, done.stderr
    letters = [json.loads(line)["at"] for line in listed.stdout.splitlines()]
    assert letters
    assert [letter["at"] for letter in shown["letters"]] == letters
    for file in (tmp_path / "job").rglob("*"):
        assert not file.is_file() or given["AWS_SECRET_ACCESS_KEY"].encode() not in file.read_bytes(), file

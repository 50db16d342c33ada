"""The whole pipeline with tables and checkpoint in an object store, both killed while they work."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import httpx
import pytest

from endmark.embedded.broker import Broker
from endmark.errors import MissingPartError
from endmark.pipelines import AUCTION
from endmark.storage import location
from endmark_feed.auction_feed import FeedOptions
from support.ops_sidecar import Sidecar
from support.processes import signal_all
from support.s3_server import S3Server
from support.warehouse import Warehouse, errors, wait_for

PAGE = Path(__file__).parents[2] / "docs" / "object-store.md"


def run_page(server: S3Server, given: dict[str, str], directory: Path) -> subprocess.CompletedProcess[str]:
    """Run the commands of the page: the job to its end, `verify`, `maintain`, and a list of dead letters."""
    (directory / "secret").write_text(server.environment()["AWS_SECRET_ACCESS_KEY"])
    found = re.search(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    return subprocess.run(
        ["sh", "-ec", found[1]],
        cwd=directory,
        env=os.environ | given,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


def test_a_driver_wakes_behind_its_successor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job stands still until another one has taken its checkpoint and done its work. When it goes on, it
    ends with an error that names the other one, and no table has a row twice."""
    options = FeedOptions(seed=6, minutes=0.3, rate=500, sellers=500, bad_rate=0.01)
    with S3Server(tmp_path / "s3") as server, Broker(tmp_path / "broker") as broker:
        server.make_bucket("shop")
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        relation = f"sqlite:///{tmp_path / 'relation.db'}"
        tables, checkpoint = (location(f"s3://shop/auction/{name}") for name in ("tables", "checkpoint"))
        warehouse = Warehouse(tmp_path, broker, relation, options, tables=tables, checkpoint=checkpoint)
        feed = threading.Thread(target=warehouse.feed)
        feed.start()
        first = warehouse.start_job("--set=batch.records=500")
        wait_for(lambda: warehouse.batches() > 1, first)
        signal_all(first.pid, signal.SIGSTOP)
        feed.join()
        read = warehouse.batches()
        warehouse.run_to_the_end()
        signal_all(first.pid, signal.SIGCONT)
        with pytest.raises(MissingPartError, match="failed with code"):
            first.wait_done(120)
        after = warehouse.verify()

    assert warehouse.batches() > read, "the second job had nothing to do"
    # It is told by the ops database, or by a file that the other job has written.
    assert "has gone on from this checkpoint" in str(errors(first)[-1])
    assert after.ok, after.to_json()


def test_store_and_job_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is equal to its recomputation, though tables and checkpoint are moved meanwhile. Upkeep and
    the readers of dead letters take the same URL. No secret is in what a job leaves behind."""
    options = FeedOptions(seed=5, minutes=0.4, rate=1_000, sellers=2_000, bad_rate=0.01)
    with S3Server(tmp_path / "s3") as server, Broker(tmp_path / "broker") as broker:
        server.make_bucket("shop")
        given = server.environment()
        for name, value in given.items():
            monkeypatch.setenv(name, value)
        relation = f"sqlite:///{tmp_path / 'relation.db'}"
        (tmp_path / "job").mkdir()
        tables, checkpoint = (location(f"s3://shop/before/{name}") for name in ("tables", "checkpoint"))
        warehouse = Warehouse(
            tmp_path / "job", broker, relation, options, tables=tables, checkpoint=checkpoint
        )
        feed = threading.Thread(target=warehouse.feed)
        feed.start()
        job = warehouse.start_job("--set=batch.records=4000")
        wait_for(lambda: warehouse.batches() > 0, job)
        server.kill()
        server.start()
        after_restart = warehouse.batches() + 1
        wait_for(lambda: warehouse.batches() > after_restart, job)
        job.kill()
        feed.join()
        # A copy that is restored may lie elsewhere, here where the page has it.
        (server.objects / "shop/before").rename(server.objects / "shop/auction")
        tables, checkpoint = (location(f"s3://shop/auction/{name}") for name in ("tables", "checkpoint"))
        warehouse.tables, warehouse.checkpoint = tables, checkpoint
        ran = run_page(server, warehouse.environment() | {"PIPELINE": str(AUCTION)}, tmp_path)
        assert ran.returncode == 0, ran.stderr
        after = warehouse.verify()
        sidecar = Sidecar(warehouse.ops_url, reach={"warehouse": str(tables)})
        sidecar.start()
        shown = httpx.get(f"{sidecar.url}api/pipelines/auction/dead-letters?limit=3", timeout=60).json()
        sidecar.stop()

    assert after.ok, after.to_json()
    assert sum(table.actual for table in after.tables) > 5_000
    assert "small files put together" in ran.stdout
    letters = [letter["at"] for letter in shown["letters"]]
    assert len(letters) == 3
    assert [line.split()[0] for line in ran.stdout.splitlines() if line.startswith(tuple(letters))] == letters
    for file in (tmp_path / "job").rglob("*"):
        assert not file.is_file() or given["AWS_SECRET_ACCESS_KEY"].encode() not in file.read_bytes(), file

"""Large answers are made one at a time, and those from one source do not wait for another source."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from endmark.control.dead_letters.search import DeadLetter
from endmark_ops.app import create_app
from endmark_ops.reach import Reach
from endmark_ops.routes import dead_letters
from support.ops_client import OpsClient
from support.ops_job import API, Job

pytestmark = pytest.mark.timeout(120)


def test_charts_do_not_wait_for_a_search_in_a_store_that_is_away(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store was given up after 30 s. Until then, no dashboard had its batches."""
    asked, back = threading.Event(), threading.Event()

    def away(*_: object) -> list[DeadLetter]:
        asked.set()
        back.wait()
        return []

    monkeypatch.setattr(dead_letters, "dead_letters", away)
    app = create_app(str(job.database.engine.url), reach=Reach(warehouse=str(tmp_path)))
    with OpsClient(app) as client, ThreadPoolExecutor(2) as clients:
        searching = clients.submit(client.get, f"{API}/dead-letters")
        assert asked.wait(60)
        charts = clients.submit(client.get, f"{API}/batches")
        try:
            assert len(charts.result(timeout=20).json()["batches"]) == 1
            assert not searching.done()
        finally:
            back.set()
        assert searching.result().json() == {"letters": [], "after": None}

"""The latency of records as the sidecar shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import parser

from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.tables import batches
from endmark.latency import LABELS
from endmark.metrics import Samples
from endmark_ops.app import create_app
from support.ops_client import OpsClient
from support.ops_job import API, PIPELINE, Job, described_job, latencies


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as database:
        yield described_job(database)


@pytest.fixture
def client(job: Job) -> OpsClient:
    return OpsClient(create_app(str(job.database.engine.url), shared_seconds=0))


def commit(job: Job, number: int, told: Samples, age: float = 0.0) -> None:
    """Record a batch that was committed `age` seconds ago."""
    job.database.batches.record(PIPELINE, number, job.run_id, told, {})
    with job.database.engine.begin() as connection:
        this = batches.update().where(batches.c.batch_id == number)
        connection.execute(this.values(committed_at=time.time() - age))


def test_latencies_are_histograms_from_the_start(job: Job, client: OpsClient) -> None:
    """Each stream has all series at zero before the first batch. A repeated batch counts once."""

    def shown() -> dict[tuple[str, str], float]:
        families = parser.text_string_to_metric_families(client.get("/metrics").text)
        family = next(each for each in families if each.name == "endmark_latency_seconds")
        assert family.type == "histogram"
        return {
            (each.name.rpartition("_")[2], each.labels.get("le", "")): each.value
            for each in family.samples
            if each.labels["stream"] == "bids"
        }

    assert len(shown()) == len(LABELS) + 2
    assert set(shown().values()) == {0}
    for number in (0, 0, 1):
        commit(job, number, latencies("bids", {0.1: 3, 5: 1}, half=0.05, most=4.0))
    found = shown()

    assert [found["bucket", bound] for bound in ("0.1", "3", "5", "+Inf")] == [6, 6, 8, 8]
    assert found["count", ""] == 8
    assert found["sum", ""] == pytest.approx(0.4)
    assert "endmark_latency_records" not in client.get("/metrics").text


def test_a_gauge_has_no_label_of_summaries(job: Job, client: OpsClient) -> None:
    """Prometheus keeps `quantile` for summaries, and `promtool check metrics` refuses it elsewhere."""
    commit(job, 0, latencies("bids", {0.1: 3}, half=0.05, most=4.0))
    families = parser.text_string_to_metric_families(client.get("/metrics").text)
    found = [each.labels for family in families for each in family.samples if family.type == "gauge"]

    assert {"pipeline": "auction", "stream": "bids", "percentile": "p99"} in found
    assert [labels for labels in found if "quantile" in labels] == []


def test_the_status_has_the_latency_of_the_last_five_minutes(job: Job, client: OpsClient) -> None:
    """Earlier batches do not count. A stream without a record since then is left out."""
    commit(job, 0, latencies("bids", {3600: 900}, 1.0, 1.0) | latencies("items", {1: 9}, 1.0, 1.0), age=400)
    assert client.get(f"{API}/status").json()["latency"] == []
    commit(job, 1, latencies("bids", {1: 98}, 1.0, 1.0), age=200)
    commit(job, 2, latencies("bids", {2: 2}, 1.0, 1.0), age=10)

    [found] = client.get(f"{API}/status").json()["latency"]

    assert found["stream"] == "bids"
    assert 0.75 < found["p50_seconds"] < 1
    assert 1.5 < found["p99_seconds"] <= 2

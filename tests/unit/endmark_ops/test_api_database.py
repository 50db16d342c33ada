"""The HTTP interface without its database, or with one that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.errors import ConfigError
from endmark_ops.app import create_app
from support.ops_client import OpsClient
from support.ops_job import API, PIPELINE, Job, job_in
from support.verify_world import make_pipeline

# Connections to port 1 of this host are refused at once.
FOR_CLIENTS = "cannot read the ops database; the sidecar's log has the cause"
UNREACHABLE = "mysql+pymysql://ops:up%40hunter2@127.0.0.1:1/endmark"


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    with job_in(tmp_path) as job:
        yield job


@pytest.fixture
def client(job: Job) -> Iterator[OpsClient]:
    with OpsClient(create_app(str(job.database.engine.url), shared_seconds=0)) as client:
        yield client


@pytest.mark.parametrize("path", [f"{API}/status", f"{API}/batches", "/metrics"])
def test_unreadable_database_is_a_clear_503(path: str, caplog: pytest.LogCaptureFixture) -> None:
    """Without its database the sidecar answers so; its log alone says which one, without the password."""
    with OpsClient(create_app(UNREACHABLE)) as client:
        answer = client.get(path)
        assert answer.status_code == 503
        assert answer.json() == {"detail": FOR_CLIENTS}
        assert "cannot read the ops database mysql+pymysql://ops:***@127.0.0.1:1/endmark" in caplog.text
        assert "hunter2" not in caplog.text
        ready = client.get("/readyz")
        assert ready.status_code == 503
        assert ready.json()["reasons"] == [FOR_CLIENTS]
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/").status_code == 200


def test_sidecar_recovers_when_the_database_appears(tmp_path: Path) -> None:
    """A database that is not there yet is opened as soon as it is."""
    url = f"sqlite:///{tmp_path / 'later' / 'ops.db'}"
    with OpsClient(create_app(url, shared_seconds=0)) as client:
        assert client.get(f"{API}/status").status_code == 503
        (tmp_path / "later").mkdir()
        database = OpsDatabase(url)
        Job(database).start()
        database.close()
        assert client.get(f"{API}/status").json()["state"] == "running"


def test_sidecar_opens_a_database_again_after_an_error(
    client: OpsClient, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    """Tables that vanished make one request fail; after that the sidecar starts over with what is there."""
    job.database.pipelines.describe(PIPELINE, describe(make_pipeline()).model_dump())
    assert client.get(f"{API}/status").status_code == 200
    with job.database.engine.begin() as connection:
        connection.execute(sa.text("DROP TABLE runs"))
    assert client.get(f"{API}/status").json()["detail"] == FOR_CLIENTS
    assert "no such table: runs" in caplog.text
    assert client.get(f"{API}/status").json()["state"] == "waiting"


def test_damaged_database_is_unreadable(
    tmp_path: Path, job: Job, client: OpsClient, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that is no database, and a row that is no JSON, are told as reasons."""
    job.start()
    job.commit()
    with job.database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE batches SET totals = '{broken'"))
    assert client.get(f"{API}/batches").status_code == 503
    (tmp_path / "text.db").write_text("no database at all, but long enough to have a header" * 9)
    with OpsClient(create_app(f"sqlite:///{tmp_path / 'text.db'}")) as other:
        assert other.get(f"{API}/status").json()["detail"] == FOR_CLIENTS
    assert "not a database" in caplog.text


@pytest.mark.parametrize(
    "url", ["not a url hunter2", "nosuchdb://ops:hunter2@host/x", "oracle+hunter2://host/x"]
)
def test_url_without_a_driver_is_refused_at_once(url: str) -> None:
    """A URL that can never work is a configuration error and not a 503 for ever."""
    with pytest.raises(ConfigError, match="the ops URL") as caught:
        create_app(url)
    assert ":hunter2@" not in str(caught.value)

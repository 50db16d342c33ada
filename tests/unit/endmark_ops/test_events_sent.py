"""Events as the sidecar sends them: over HTTP, to an end in order, and to no more than may listen."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

import pytest

from endmark_ops.answers import feed as feeds
from endmark_ops.app import create_app
from support.ops_client import OpsClient
from support.ops_job import API, Job
from support.ops_sidecar import Sidecar

pytestmark = pytest.mark.timeout(400)


def test_streams_end_in_time_and_leave_their_places(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LISTENERS", 1)
    url = str(job.database.engine.url)
    with OpsClient(create_app(url, shared_seconds=0.01, stream_seconds=3)) as client:
        for _ in range(2):
            answer = client.get(f"{API}/events")
            assert answer.status_code == 200
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            assert answer.headers.get_list("Cache-Control") == ["no-cache"]
            lines = answer.text.split("\n")
            assert lines[0] == "event: news"
            assert lines[1].startswith('data: {"after":-1,"batches":[{"batch_id":0,')
            assert lines[2:] == ["id: 0", "retry: 2000", "", ""]
    with OpsClient(create_app(url)) as client:
        client.app.state.feeds.close()  # type: ignore[attr-defined]
        assert client.get(f"{API}/events").status_code == 503


def test_the_document_has_the_events(job: Job) -> None:
    with OpsClient(create_app(str(job.database.engine.url))) as client:
        operation = client.get("/openapi.json").json()["paths"]["/api/pipelines/{pipeline}/events"]["get"]
    event = operation["responses"]["200"]["content"]["text/event-stream"]["itemSchema"]["properties"]
    assert event["data"]["contentSchema"] == {"$ref": "#/components/schemas/News"}
    assert {"401", "503"} <= operation["responses"].keys()


def listener(sidecar: Sidecar) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(sidecar.url).netloc, timeout=60)
    connection.request("GET", f"{API}/events")
    return connection, connection.getresponse()


def test_the_sidecar_ends_at_once_while_many_listen(job: Job) -> None:
    """Streams end in order: what was sent is whole, and followed by the end of the answer."""
    # Where it waits for open requests, each of its ends takes 5 s. A busy machine makes one take long.
    assert any(seconds_to_end(job) < 4.5 for _ in range(3))


def seconds_to_end(job: Job) -> float:
    """Stop a sidecar to which 20 clients listen, and return how long that takes."""
    sidecar = Sidecar(str(job.database.engine.url))
    sidecar.start()
    opened = [listener(sidecar) for _ in range(20)]
    assert [answer.readline() for _, answer in opened] == [b"event: news\n"] * 20
    started = time.monotonic()
    sidecar.stop()
    passed = time.monotonic() - started
    assert all(answer.read().endswith(b"retry: 2000\n\n") for _, answer in opened)
    for connection, _ in opened:
        connection.close()
    return passed


def test_who_goes_away_leaves_a_place(job: Job) -> None:
    sidecar = Sidecar(str(job.database.engine.url))
    sidecar.start()
    opened = [listener(sidecar) for _ in range(feeds.LISTENERS)]
    assert {answer.status for _, answer in opened} == {200}
    connection, refused = listener(sidecar)
    assert (refused.status, b"listen already" in refused.read()) == (503, True)
    connection.close()
    for each in opened.pop():
        each.close()
    until = time.monotonic() + 60  # soon, not at once
    status = 0
    while status != 200 and time.monotonic() < until:
        connection, answer = listener(sidecar)
        status = answer.status
        connection.close()
    assert status == 200
    sidecar.stop()
    for pair in opened:
        for each in pair:
            each.close()

"""Who may ask the sidecar for what, over every route that it says it has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error, response_schema_conformance, status_code_conformance
from schemathesis.core.result import Ok

from endmark.errors import ConfigError
from endmark.ops.database import OpsDatabase
from endmark.ops.description import describe
from endmark.parts.broker import Broker
from endmark.spark.kafka import make_topic
from endmark_ops.access import READS, parse_tokens, read_tokens
from endmark_ops.app import create_app
from endmark_ops.reach import Reach
from support.broken_records import write_letters
from support.commands import endmark
from support.ops_job import PIPELINE, Job
from support.ops_tokens import BOTH, READER, WRITE_ONLY, WRITER, bearer
from support.verify_world import make_pipeline

BASIC = {"Authorization": f"Basic {WRITER}"}


def app(tmp_path: Path, reach: Reach) -> FastAPI:
    return create_app(f"sqlite:///{tmp_path / 'ops.db'}", PIPELINE, reach=reach, stream_seconds=0.05)


def routes(client: TestClient, *, writing: bool) -> Iterator[tuple[str, str]]:
    """Methods and paths of the OpenAPI document."""
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            if (method.upper() not in READS) == writing:
                yield method, path.replace("{", "").replace("}", "")


def answers(client: TestClient, found: list[tuple[str, str]], headers: dict[str, str]) -> set[int]:
    assert found
    # Nothing of a request is read before its token, a malformed body neither.
    return {client.request(method, path, headers=headers, content=b"{").status_code for method, path in found}


def test_every_route_that_writes_refuses_all_but_a_token_that_may(tmp_path: Path) -> None:
    client = TestClient(app(tmp_path, Reach(BOTH)))
    found = list(routes(client, writing=True))

    assert answers(client, found, {}) == {401}
    for headers in (bearer(WRITER[:-1]), bearer(f"{WRITER}x"), bearer(""), bearer("ann"), BASIC):
        assert answers(client, found, headers) == {401}
    assert answers(client, found, bearer(READER)) == {403}
    assert answers(client, found, bearer(WRITER)) == {409}  # since no job has told of itself
    assert client.delete("/api/nothing").status_code == 401
    missing = client.put("/api/knobs/x")
    assert missing.headers["WWW-Authenticate"] == "Bearer"
    assert WRITER not in missing.text


@pytest.mark.parametrize("tokens", [(), parse_tokens(f"grafana:read:{READER}", "here")])
def test_nothing_is_written_unless_there_is_a_token_for_it(tmp_path: Path, tokens: Any) -> None:
    client = TestClient(app(tmp_path, Reach(tokens)))
    for headers in ({}, bearer(READER), bearer(WRITER)):
        assert answers(client, list(routes(client, writing=True)), headers) == {403}


def test_reads_need_a_token_once_there_is_one_for_reading(tmp_path: Path) -> None:
    """A token that may write is as good; the view's files and the probe of the process hold no figures."""
    open_to_all, guarded = (
        TestClient(app(tmp_path, Reach(WRITE_ONLY))),
        TestClient(app(tmp_path, Reach(BOTH))),
    )
    found = [route for route in routes(guarded, writing=False) if route != ("get", "/healthz")]

    assert 401 not in answers(open_to_all, found, {})
    assert answers(guarded, found, {}) == {401}
    assert (
        answers(guarded, found, bearer(READER)) == answers(guarded, found, bearer(WRITER)) == {200, 409, 503}
    )
    for path in ("/", "/static/main.js", "/healthz", "/openapi.json"):
        assert guarded.get(path).status_code == 200


def test_the_document_says_what_a_request_needs(tmp_path: Path) -> None:
    paths = TestClient(app(tmp_path, Reach())).get("/openapi.json").json()["paths"]

    assert paths["/api/knobs/{name}"]["put"]["security"] == [{"token": []}]
    assert paths["/api/knobs"]["get"]["security"] == [{}, {"token": []}]
    assert "security" not in paths["/healthz"]["get"]
    assert {"202", "400", "401", "403", "404", "409", "503"} <= set(
        paths["/api/knobs/{name}/revert"]["post"]["responses"]
    )


def test_tokens_come_from_text_and_files(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# who\nann:write:{WRITER}\n\n grafana:read:{READER}\n")

    assert read_tokens(file) == parse_tokens(f"ann:write:{WRITER},grafana:read:{READER}", "here")
    assert WRITER not in repr(read_tokens(file))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"ann:{WRITER}", "token 1 is malformed; write NAME:read:TOKEN or NAME:write:TOKEN"),
        (f"ann:write:{WRITER}\nbo:write:short", "token 2 is malformed"),
        (f"ann:write:{WRITER}\nann:read:{READER}", "ann has two tokens"),
        ("", "has no token"),
        (None, "tokens cannot be read from"),
    ],
)
def test_tokens_that_are_none_are_refused_without_being_told(
    tmp_path: Path, text: str | None, says: str
) -> None:
    if text is not None:
        (tmp_path / "tokens").write_text(text)

    with pytest.raises(ConfigError, match=says) as refused:
        read_tokens(tmp_path / "tokens")
    assert "0123" not in str(refused.value)


def test_no_request_makes_the_sidecar_fail(tmp_path: Path, broker: Broker) -> None:
    """Random requests of every shape that the document allows, and some that it does not."""
    with_job = app(tmp_path, Reach(WRITE_ONLY, broker.bootstrap, tmp_path))
    database = OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")
    database.describe(PIPELINE, describe(make_pipeline()).model_dump())
    job = Job(database)
    job.start()
    job.commit()
    make_topic(broker.bootstrap, "small-control")
    write_letters(tmp_path / "dead_letters", [("bids", 0, 0, "not_json", "no JSON", b"{")])
    seen: set[tuple[str, int]] = set()
    document = schemathesis.openapi.from_asgi("/openapi.json", with_job)

    for found in document.get_all_operations():
        assert isinstance(found, Ok)

        @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(found.ok().as_strategy())
        def check(case: Case[Any]) -> None:
            answer = case.call(headers=bearer(WRITER), app=with_job)
            seen.add((case.path, answer.status_code))
            case.validate_response(
                answer, checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
            )

        check()

    assert {("/api/knobs/{name}", 404), ("/api/dead-letters", 200), ("/api/dead-letters/replay", 400)} <= seen
    database.close()


def test_the_command_line_takes_tokens_from_a_file_or_the_environment(tmp_path: Path) -> None:
    url = f"--ops-url=sqlite:///{tmp_path / 'ops.db'}"
    (tmp_path / "tokens").write_text("ann:write:0123\n")
    by_file = endmark("ops", url, ENDMARK_OPS_TOKENS_FILE=str(tmp_path / "tokens"))
    by_environment = endmark("ops", url, ENDMARK_OPS_TOKENS="ann:0123")

    for refused, where in ((by_file, str(tmp_path)), (by_environment, "ENDMARK_OPS_TOKENS")):
        assert (refused.returncode, f"{where}" in refused.stderr) == (2, True)
        assert "token 1 is malformed" in refused.stderr
        assert "0123" not in refused.stderr

"""Who may ask the sidecar for what, over every route that it says it has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error, response_schema_conformance, status_code_conformance
from schemathesis.core.result import Ok

from endmark.control.description import describe
from endmark.control.ops_database.database import OpsDatabase
from endmark.driver.topics import make_topic
from endmark.embedded.broker import Broker
from endmark.errors import ConfigError
from endmark_ops.app import create_app
from endmark_ops.http import access
from endmark_ops.http.access import READS, FailedLogins, parse_tokens, read_tokens
from endmark_ops.reach import Reach
from support.broken_records import write_letters
from support.commands import endmark
from support.ops_client import OpsClient
from support.ops_job import API, PIPELINE, Job
from support.ops_tokens import BOTH, READER, WRITE_ONLY, WRITER, bearer
from support.verify_world import make_pipeline

OF_ONE = "/api/pipelines/{pipeline}"
BASIC = {"Authorization": f"Basic {WRITER}"}


@pytest.fixture
def _undelayed() -> Iterator[None]:
    """Refusals are sent at once; `test_whoever_fails_again_waits_longer_and_alone` holds the delays."""
    with patch.object(access, "_LONGEST_WAIT", 0.0):
        yield


def app(tmp_path: Path, reach: Reach, known_as: Sequence[str] = ()) -> FastAPI:
    url = f"sqlite:///{tmp_path / 'ops.db'}"
    with closing(OpsDatabase(url)) as database:
        if PIPELINE not in database.pipelines.names():
            Job(database).start()
    return create_app(url, known_as=known_as, reach=reach, stream_seconds=0.05)


def routes(client: OpsClient, *, writing: bool) -> Iterator[tuple[str, str]]:
    """Methods and paths of the OpenAPI document."""
    for path, operations in client.get("/openapi.json").json()["paths"].items():
        for method in operations:
            if (method.upper() not in READS) == writing:
                yield method, path.replace("{pipeline}", PIPELINE).replace("{", "").replace("}", "")


def answers(client: OpsClient, found: list[tuple[str, str]], headers: dict[str, str]) -> set[int]:
    assert found
    # Nothing of a request is read before its token, a malformed body neither.
    return {client.request(method, path, headers=headers, content=b"{").status_code for method, path in found}


@pytest.mark.usefixtures("_undelayed")
def test_every_route_that_writes_refuses_all_but_a_token_that_may(tmp_path: Path) -> None:
    client = OpsClient(app(tmp_path, Reach(BOTH)))
    found = list(routes(client, writing=True))

    assert answers(client, found, {}) == {401}
    for headers in (bearer(WRITER[:-1]), bearer(f"{WRITER}x"), bearer(""), bearer("ann"), BASIC):
        assert answers(client, found, headers) == {401}
    assert answers(client, found, bearer(READER)) == {403}
    assert answers(client, found, bearer(WRITER)) == {409}  # since no job has told of itself
    assert client.delete("/api/nothing").status_code == 401
    missing = client.put(f"{API}/knobs/x")
    assert missing.headers["WWW-Authenticate"] == "Bearer"
    assert WRITER not in missing.text


@pytest.mark.usefixtures("_undelayed")
@pytest.mark.parametrize("tokens", [(), parse_tokens(f"grafana:read:{READER}", "here")])
def test_nothing_is_written_unless_there_is_a_token_for_it(tmp_path: Path, tokens: Any) -> None:
    client = OpsClient(app(tmp_path, Reach(tokens)))
    for headers in ({}, bearer(READER), bearer(WRITER)):
        assert answers(client, list(routes(client, writing=True)), headers) == {403}


@pytest.mark.usefixtures("_undelayed")
def test_reads_need_a_token_once_there_is_one_for_reading(tmp_path: Path) -> None:
    """A token that may write is as good; the view's files and the probe of the process hold no figures."""
    open_to_all, guarded = (
        OpsClient(app(tmp_path, Reach(WRITE_ONLY))),
        OpsClient(app(tmp_path, Reach(BOTH))),
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
    paths = OpsClient(app(tmp_path, Reach())).get("/openapi.json").json()["paths"]

    assert paths["/api/pipelines/{pipeline}/knobs/{name}"]["put"]["security"] == [{"token": []}]
    assert paths["/api/pipelines/{pipeline}/knobs"]["get"]["security"] == [{}, {"token": []}]
    assert "security" not in paths["/healthz"]["get"]
    assert {"202", "400", "401", "403", "404", "409", "503"} <= set(
        paths["/api/pipelines/{pipeline}/knobs/{name}/revert"]["post"]["responses"]
    )


def test_the_document_says_that_a_token_may_be_for_other_pipelines(tmp_path: Path) -> None:
    """Reads of a pipeline answered 403, too, of which the document knew nothing."""
    tokens = parse_tokens(f"bob:read@orders:{READER}", "here")
    client = OpsClient(app(tmp_path, Reach(tokens)))
    document = client.get("/openapi.json").json()["paths"]
    given = {"pipeline": "other", "topic": "t", "partition": "0", "offset": "1"}
    reads = [path for path, methods in document.items() if "get" in methods]

    assert [
        (path, status)
        for path in reads
        if str(status := client.get(path.format(**given), headers=bearer(READER)).status_code)
        not in document[path]["get"]["responses"]
    ] == []


def test_tokens_come_from_text_and_files(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# who\nann:write:{WRITER}\n\n grafana:read:{READER}\n")

    assert read_tokens(file) == parse_tokens(f"ann:write:{WRITER},grafana:read:{READER}", "here")
    assert WRITER not in repr(read_tokens(file))


@pytest.mark.usefixtures("_undelayed")
def test_an_expired_token_is_worth_nothing_and_opens_nothing(tmp_path: Path) -> None:
    """It is good to the end of its last day, in UTC. Reads stay closed though no token can read any more."""
    yesterday, today = (datetime.now(UTC).date() - timedelta(days=days) for days in (1, 0))
    ended = parse_tokens(f"grafana:read:{yesterday}:{READER}\nann:write:{yesterday}:{WRITER}", "here")
    last_day = parse_tokens(f"grafana:read:{today}:{READER}\nann:write:{today}:{WRITER}", "here")
    old, good = OpsClient(app(tmp_path, Reach(ended))), OpsClient(app(tmp_path, Reach(last_day)))
    reads, writes = [("get", f"{API}/status")], list(routes(good, writing=True))

    assert answers(good, writes, bearer(WRITER)) == {409}
    assert answers(good, reads, bearer(READER)) == {200}
    assert answers(old, writes[:1], bearer(WRITER)) == answers(old, reads, bearer(READER)) == {401}
    assert answers(old, reads, {}) == {401}
    told = old.get(f"{API}/status", headers=bearer(WRITER)).json()["detail"]
    assert told == f"token ann was good until {yesterday}; ask for a new one"


@pytest.mark.usefixtures("_undelayed")
def test_failed_logins_are_counted_and_logged_without_their_tokens(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that names no token is no failed login: a browser has none before it is given one."""
    tokens = parse_tokens(f"grafana:read:{READER}\nann:write:2020-02-29:{WRITER}", "here")
    client = OpsClient(app(tmp_path, Reach(tokens)))
    assert client.get(f"{API}/status").status_code == 401
    assert client.get(f"{API}/status", headers=bearer("x" * 20)).status_code == 401
    assert client.get(f"{API}/status", headers=bearer(WRITER)).status_code == 401

    shown = client.get("/metrics", headers=bearer(READER)).text
    for reason in ("unknown", "expired"):
        line = f'endmark_failed_logins_total{{reason="{reason}"}} 1.0'
        assert line in shown
    assert "failed login from testclient: its token is unknown" in caplog.text
    assert "failed login from testclient: its token is expired (ann)" in caplog.text
    assert not [secret for secret in ("x" * 20, WRITER, READER) if secret in caplog.text]


def test_whoever_fails_again_waits_longer_and_alone() -> None:
    """The sidecar bounds the addresses that it remembers, and the number of refusals that wait."""
    failed = FailedLogins()
    waits = [failed.count("192.0.2.1", "unknown") for _ in range(8)]
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0]
    assert failed.count("192.0.2.2", "unknown") == 0.25
    others = [f"198.51.{number // 250}.{number % 250}" for number in range(3_000)]
    for address in others:
        failed.count(address, "unknown")
    assert failed.count(others[-1_000], "unknown") == 0.5
    assert failed.count(others[-1_001], "unknown") == 0.25
    assert failed.count("192.0.2.1", "unknown") == 0.25


def test_a_token_may_be_for_some_pipelines_only(tmp_path: Path) -> None:
    """It sees and changes nothing of others, on any path, and answers that clients share keep to it."""
    known = parse_tokens(f"ann:write@{PIPELINE}:{WRITER},bob:read@sales+my-shop:{READER}", "here")
    assert [token.pipelines for token in known] == [frozenset({PIPELINE}), frozenset({"sales", "my-shop"})]
    client = OpsClient(app(tmp_path, Reach(known)))
    with closing(OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")) as database:
        database.runs.start("run-2", "sales", "app", "/checkpoint")
    found = list(routes(client, writing=False))
    own = [(method, path) for method, path in found if PIPELINE in path]
    assert {path for _, path in found} - {path for _, path in own} == {
        "/healthz",
        "/readyz",
        "/metrics",
        "/api/pipelines",
    }
    writes = list(routes(client, writing=True))

    assert answers(client, writes, bearer(WRITER)) == {409}
    assert answers(client, own, bearer(WRITER)) == {200, 409, 503}
    assert answers(client, own, bearer(READER)) == answers(client, writes, bearer(READER)) == {403}
    for token, name, other in ((WRITER, PIPELINE, "sales"), (READER, "sales", PIPELINE)):
        listed = client.get("/api/pipelines", headers=bearer(token)).json()["pipelines"]
        assert [each["pipeline"] for each in listed] == [name]
        shown = client.get("/metrics", headers=bearer(token)).text
        assert f'pipeline="{name}"' in shown
        assert other not in shown + client.get("/readyz", headers=bearer(token)).text
        # Neither is it told whether there is one of that name.
        told = client.get(f"/api/pipelines/{other}/status", headers=bearer(token))
        never = client.get("/api/pipelines/nothing/status", headers=bearer(token))
        assert (told.status_code, told.json()) == (never.status_code, never.json())
        assert client.get(
            f"/api/pipelines/{name}%2F..%2F{other}/status", headers=bearer(token)
        ).status_code in (
            403,
            404,
        )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f"ann:write:2027-02-30:{WRITER}", "token 1 is malformed"),
        ("ann:write:2027-02-28:short", "token 1 is malformed"),
        ("ann:write:tomorrow:0123456789abcdef", "token 1 is malformed"),
        (f"ann:write@:{WRITER}", "token 1 is malformed"),
        (f"ann:write@orders,sales:{WRITER}", "token 1 is malformed"),
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
    # Schemathesis asks by this name.
    with_job = app(tmp_path, Reach(WRITE_ONLY, broker.bootstrap, str(tmp_path)), ["testserver"])
    database = OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")
    database.pipelines.describe(PIPELINE, describe(make_pipeline()).model_dump())
    Job(database).commit()
    make_topic(broker.bootstrap, "small-control")
    write_letters(tmp_path / "dead_letters", [("bids", 0, 0, "not_json", "no JSON", b"{")])
    seen: set[tuple[str, int]] = set()
    document = schemathesis.openapi.from_asgi("/openapi.json", with_job)

    for found in document.get_all_operations():
        assert isinstance(found, Ok)

        @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(found.ok().as_strategy())
        def check(case: Case[Any]) -> None:
            if "pipeline" in case.path_parameters and case.path_parameters["pipeline"][0].isupper():
                case.path_parameters["pipeline"] = PIPELINE  # chance would not find its name
            answer = case.call(headers=bearer(WRITER), app=with_job)
            seen.add((case.path, answer.status_code))
            case.validate_response(
                answer, checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
            )

        check()

    assert {
        (f"{OF_ONE}/knobs/{{name}}", 404),
        (f"{OF_ONE}/dead-letters", 200),
        (f"{OF_ONE}/dead-letters/replay", 400),
    } <= seen
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

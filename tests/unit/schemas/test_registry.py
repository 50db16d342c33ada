"""Schemas from a registry: each answer that it may give, and each way in which it may fail to answer."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from endmark.embedded.ports import free_port
from endmark.errors import ConfigError, EndmarkError
from endmark.schemas import registry as schema_registry
from endmark.schemas.registry import (
    RegistryUnreachableError,
    Schema,
    SchemaFile,
    SchemaRegistry,
    UnknownSchemaError,
)
from support.secured_broker import Certificates

SCHEMA = '{"type": "record", "name": "Row", "fields": []}'
UNKNOWN = {"error_code": 40403, "message": "Schema not found"}
Answer = tuple[int, Any]


@contextmanager
def server(
    answers: Callable[[int], Answer], tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[Any]]]:
    """Serve answers by the number of requests before; yield the URL, and the requests as they come."""
    seen: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.append((self.path, self.headers.get("Authorization")))
            status, body = answers(len(seen) - 1)
            if status == 0:  # send one byte now and then
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                for _ in range(100):
                    time.sleep(0.1)
                    self.wfile.write(b" ")
                return
            text = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            pass

    with Quiet(("127.0.0.1", 0), Handler) as http:
        if tls is not None:
            http.socket = tls.wrap_socket(http.socket, server_side=True)
        threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
        try:
            yield f"http{'' if tls is None else 's'}://localhost:{http.server_address[1]}/v7", seen
        finally:
            http.shutdown()


def found(_: int) -> Answer:
    return 200, {"schema": SCHEMA}


def test_a_schema_is_asked_for_once() -> None:
    with server(found) as (url, seen):
        registry = SchemaRegistry(url, "job", "pässword")
        assert [registry.schema(7).text for _ in range(3)] == [SCHEMA] * 3
        again = SchemaRegistry(url, "job", "pässword")  # as the next task has it
        assert again.schema(7).text == SCHEMA
        assert registry.schema(-1).text == SCHEMA

    assert [path for path, _ in seen] == ["/v7/schemas/ids/7", "/v7/schemas/ids/-1"]
    assert seen[0][1] == "Basic am9iOnDDpHNzd29yZA=="


def test_an_unknown_id_is_asked_for_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may register it meanwhile."""
    with server(lambda request: (404, UNKNOWN) if request == 0 else found(request)) as (url, seen):
        registry = SchemaRegistry(url)
        for _ in range(3):
            with pytest.raises(UnknownSchemaError, match=f"the registry at {url} has no schema \\d+"):
                registry.schema(7)
        assert len(seen) == 1
        now = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: now + 61)
        assert registry.schema(7).text == SCHEMA


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, {"error_code": 401}), "refuses us by 401 when asked for schema 7; correct registry.user"),
        ((403, b""), "refuses us by 403"),
        ((404, {"error_code": 404, "message": "no such page"}), "answered 404 without a schema"),
        ((404, b"<html>"), "answered 404 without a schema"),
        ((301, b""), "answered 301 without a schema"),
        ((200, b"<html>"), "answered 200 without a schema"),
        ((200, b"[" * 100_000), "answered 200 without a schema"),
        ((200, {"schema": 7}), "answered 200 without a schema"),
    ],
)
def test_a_refusal_is_named(answer: Answer, words: str) -> None:
    """It is not asked again, and the error has the URL and no password."""
    with server(lambda _: answer) as (url, seen), pytest.raises(ConfigError) as raised:
        SchemaRegistry(url, "job", "secret-4711").schema(7)
    assert words in str(raised.value)
    assert url in str(raised.value)
    assert "4711" not in str(raised.value)
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"schema": "{}", "schemaType": "PROTOBUF"}, "the registry has it as PROTOBUF, not as AVRO"),
        (
            {"schema": "{}", "references": [{"name": "a"}]},
            "refers to a schema without name, subject and version",
        ),
        (
            {"schema": "{", "references": [{"name": "a", "subject": "b", "version": 1}]},
            "refers to other schemas, which are not valid",
        ),
        (
            {"schema": "x" * 9_000_000},
            r"the answer of the registry at \S+ for schema 7 has more than 8,388,608 bytes",
        ),
    ],
    ids=["protobuf", "reference", "invalid", "long"],
)
def test_schemas_that_are_not_read_are_as_unknown(schema: Any, words: str) -> None:
    with server(lambda _: (200, schema)) as (url, _), pytest.raises(UnknownSchemaError, match=words):
        SchemaRegistry(url).schema(7)


def test_the_schemas_that_a_schema_refers_to_are_asked_for() -> None:
    """Two of them refer to a third one, which is asked for once."""

    def refer(*subjects: str) -> list[dict[str, Any]]:
        return [{"name": f"shop.{each.title()}", "subject": each, "version": 2} for each in subjects]

    def declared(name: str, **fields: str) -> str:
        listed = [{"name": field, "type": kind} for field, kind in fields.items()]
        return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": listed})

    documents = {
        "/v7/schemas/ids/7": (declared("Order", a="A/b", c="C"), refer("a/b", "c")),
        "/v7/subjects/a%2Fb/versions/2": (declared("A", d="shop.D"), refer("d")),
        "/v7/subjects/c/versions/2": (declared("C", d="shop.D"), refer("d")),
        "/v7/subjects/d/versions/2": (declared("D", e="int"), []),
    }

    def answer(request: int) -> Answer:
        text, references = documents[seen[request][0].partition("?")[0]]
        return 200, {"schema": text.replace("A/b", "A"), "references": references}

    with server(answer) as (url, seen):
        text = SchemaRegistry(url).schema(7).text

    assert len(seen) == 4
    d = {"type": "record", "name": "D", "namespace": "shop", "fields": [{"name": "e", "type": "int"}]}
    [a, c] = json.loads(text)["fields"]
    assert [[field["type"] for field in each["type"]["fields"]] for each in (a, c)] == [[d], ["shop.D"]]


def test_schemas_of_protobuf_keep_what_they_import() -> None:
    """A worker that starts while the registry is away has them, too."""
    reference = {"name": "shop/money.proto", "subject": "money", "version": 1}
    documents = {
        "/v7/schemas/ids/7": {"schemaType": "PROTOBUF", "schema": "order", "references": [reference]},
        "/v7/subjects/money/versions/1": {"schemaType": "PROTOBUF", "schema": "money"},
    }
    with server(lambda at: (200, documents[seen[at][0].partition("?")[0]])) as (url, seen):
        registry = SchemaRegistry(url, kind="PROTOBUF")
        found = registry.schema(7)

    assert found == Schema("order", (("shop/money.proto", "money"),))
    schema_registry._caches.clear()
    assert registry.schema(7) == found


def test_a_reference_that_is_not_there_is_named() -> None:
    reference = {"name": "A", "subject": "money", "version": 3}
    missing = 404, {"error_code": 40402, "message": "Version not found"}
    answers = [(200, {"schema": "{}", "references": [reference]}), missing]
    with (
        server(lambda request: answers[request]) as (url, _),
        pytest.raises(UnknownSchemaError, match=f"the registry at {url} has no version 3 of subject money"),
    ):
        SchemaRegistry(url).schema(7)


def test_references_without_end_are_refused() -> None:
    def answer(request: int) -> Answer:
        reference = {"name": "A", "subject": "a", "version": request}
        return 200, {"schema": "{}", "references": [reference]}

    with server(answer) as (url, seen), pytest.raises(UnknownSchemaError, match="more than 100 other"):
        SchemaRegistry(url).schema(7)
    assert len(seen) == 101


@pytest.mark.parametrize("status", [500, 503, 429])
def test_an_error_of_the_server_passes(status: int, capfd: pytest.CaptureFixture[str]) -> None:
    with server(lambda request: (status, b"") if request < 2 else found(request)) as (url, _):
        assert SchemaRegistry(url).schema(7).text == SCHEMA
    assert f"waiting 60 s for schema 7 of {url}: it answered {status}" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        ((500, b""), "it answered 500"),
        ((0, b""), "its answer took more than 1 s"),
    ],
)
def test_the_wait_ends(answer: Answer, cause: str) -> None:
    """A registry that never answers well is given up in time, even if it sends a byte now and then."""
    started = time.monotonic()
    with server(lambda _: answer) as (url, _), pytest.raises(RegistryUnreachableError) as raised:
        SchemaRegistry(url, "job", "secret-4711", patience=1).schema(7)
    assert 0.5 < time.monotonic() - started < 5
    assert f"schema registry at {url} did not answer for 1 s when asked for schema 7: {cause}" in str(
        raised.value
    )
    assert "4711" not in str(raised.value)


def test_a_registry_that_is_away() -> None:
    """It is asked again until it is back. Schemas that are known go on."""
    port = free_port()
    registry = SchemaRegistry(f"http://127.0.0.1:{port}", patience=0.5)
    with pytest.raises(RegistryUnreachableError, match=r"asked for schema 7: .*refused"):
        registry.schema(7)
    with server(found) as (url, _):
        registry = SchemaRegistry(url, patience=0.5)
        registry.schema(7)
    assert registry.schema(7).text == SCHEMA
    schema_registry._caches.clear()  # as in another worker
    assert registry.schema(7).text == SCHEMA
    with pytest.raises(RegistryUnreachableError):
        registry.schema(8)


def test_a_certificate_must_be_of_the_authority_and_the_host(tmp_path: Path) -> None:
    ours, theirs = (Certificates(tmp_path / name).make() for name in ("ours", "theirs"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.path("localhost.pem"), ours.path("localhost.key"))
    with server(found, context) as (url, _):
        assert SchemaRegistry(url, ca=ours.path("ca.pem").read_text()).schema(7).text == SCHEMA
        for ca, where in (
            (theirs.path("ca.pem").read_text(), url),
            (None, url),
            (ours.path("ca.pem").read_text(), url.replace("localhost", "127.0.0.1")),
        ):
            with pytest.raises(ConfigError, match="certificate that we do not trust") as raised:
                SchemaRegistry(where, ca=ca).schema(8)
            assert where in str(raised.value)


@pytest.mark.parametrize("latest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_registry_that_asks_for_a_certificate(tmp_path: Path, latest: ssl.TLSVersion) -> None:
    """Without one that it trusts, it seemed to be away."""
    ours, theirs = (Certificates(tmp_path / name).make() for name in ("ours", "theirs"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(ours.path("localhost.pem"), ours.path("localhost.key"))
    context.load_verify_locations(ours.path("ca.pem"))
    context.verify_mode, context.maximum_version = ssl.CERT_REQUIRED, latest
    ca = ours.path("ca.pem").read_text()
    trusted, strange = (
        "".join(each.path(f"job.{kind}").read_text() for kind in ("key", "pem")) for each in (ours, theirs)
    )
    with server(found, context) as (url, _):
        assert SchemaRegistry(url, ca=ca, identity=trusted).schema(7).text == SCHEMA
        for identity in (None, strange):
            with pytest.raises(
                ConfigError, match=r"certificate of ours, or .*; correct registry\.certificate"
            ):
                SchemaRegistry(url, ca=ca, identity=identity).schema(8)
    assert not list(schema_registry.shared_directory().glob("identity-*"))


def test_the_authorities_are_read_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading those of the operating system takes 47 ms, and each of 10,000 records may name another id."""
    certificates = Certificates(tmp_path).make()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.path("localhost.pem"), certificates.path("localhost.key"))
    read: list[str] = []

    def counted(*, cadata: str) -> ssl.SSLContext:
        read.append(cadata)
        return made(cadata=cadata)

    made = ssl.create_default_context
    monkeypatch.setattr(ssl, "create_default_context", counted)
    now = time.monotonic()
    with server(lambda _: (404, UNKNOWN), context) as (url, seen):
        registry = SchemaRegistry(url, ca=certificates.path("ca.pem").read_text())
        for minute in range(2):
            monkeypatch.setattr(time, "monotonic", lambda at=now + 60 * minute: at)
            for number in range(5):
                with pytest.raises(UnknownSchemaError):
                    registry.schema(10 * minute + number)
    assert (len(seen), len(read)) == (10, 2)


def test_secrets_are_not_shown() -> None:
    registry = SchemaRegistry("https://registry.example", "job", "secret-4711", "-----BEGIN", identity="KEY")
    assert "KEY" not in repr(registry)
    assert "4711" not in repr(registry)
    assert "BEGIN" not in repr(registry)
    assert str(registry) == "https://registry.example"


def test_a_file_of_a_schema(tmp_path: Path) -> None:
    file = tmp_path / "rows.avsc"
    with pytest.raises(EndmarkError, match=r"schema_file: .*rows\.avsc cannot be read"):
        SchemaFile.read(file)
    file.write_text(SCHEMA)
    assert SchemaFile.read(file).schema(0).text == SCHEMA
    assert SchemaFile.read(file).name(0) == f"schema {file}"

"""The section `registry`, and the fields of a stream of Avro."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from endmark.engine.streams import check_schemas, stream_plans
from endmark.errors import ConfigError
from endmark.pipeline.file import load
from endmark.pipeline.registry import schemas_of
from endmark.schemas.registry import SchemaFile, SchemaRegistry
from support.secured_broker import Certificates

STREAM = {
    "topic": "orders",
    "format": "avro",
    "columns": {"order_id": "long", "at": "timestamp"},
    "event_time": {"column": "at"},
    "unique": "order_id",
}
URL = "https://registry.example/apis/ccompat/v7"


def written(directory: Path, registry: Any, **stream: Any) -> Path:
    file = directory / "shop.yaml"
    declared = {"name": "shop", "streams": {"orders": STREAM | stream}, "tables": {"orders": {}}}
    file.write_text(json.dumps(declared | ({"registry": registry} if registry else {})))
    return file


def test_a_registry_with_a_login(tmp_path: Path) -> None:
    """The password is in the variable or the file that the pipeline names, and is not shown."""
    ca = Certificates(tmp_path / "certificates").make().path("ca.pem")
    (tmp_path / "secret").write_text("secret-4711\n")
    section = {
        "url": URL + "/",
        "user": "shop",
        "password": "${REGISTRY_PASSWORD}",
        "ca": str(ca),
        "retry": "5s",
    }
    pipeline = load(written(tmp_path, section), {"REGISTRY_PASSWORD_FILE": str(tmp_path / "secret")})

    found = schemas_of(pipeline, "orders")

    assert found == SchemaRegistry(URL, "shop", "secret-4711", ca.read_text(), 5.0)
    plans = stream_plans(pipeline, {"orders": 1})
    for shown in (repr(pipeline), pipeline.model_dump_json(), repr(found), repr(plans)):
        assert "4711" not in shown


def test_a_schema_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.avsc"
    pipeline = load(written(tmp_path, None, schema_file=str(file)))
    with pytest.raises(ConfigError, match=r"schema_file: .*orders\.avsc cannot be read"):
        schemas_of(pipeline, "orders")
    file.write_text("{}")
    assert schemas_of(pipeline, "orders") == SchemaFile(str(file), "{}")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ([], "the schema has no field 'order_id'"),
        ([("order_id", "string")], "field 'order_id' must be readable as long, but is string"),
        ([("order_id", "long"), ("at", "long"), ("more", "long")], "field 'more' is not declared"),
        (None, "a row is a record, this is int"),
    ],
)
def test_a_file_that_does_not_give_the_columns(tmp_path: Path, fields: Any, words: str) -> None:
    """The job does not start with it."""
    file = tmp_path / "orders.avsc"
    declared = [{"name": name, "type": kind} for name, kind in fields or []]
    file.write_text(
        json.dumps(["int"] if fields is None else {"type": "record", "name": "A", "fields": declared})
    )
    with pytest.raises(ConfigError) as raised:
        check_schemas(load(written(tmp_path, None, schema_file=str(file))))
    assert f"streams.orders.schema_file: {file}: {words}" in str(raised.value)


def test_a_file_that_gives_the_columns(tmp_path: Path) -> None:
    fields = [
        {"name": "order_id", "type": "int"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ]
    file = tmp_path / "orders.avsc"
    file.write_text(json.dumps({"type": "record", "name": "A", "fields": fields}))
    check_schemas(load(written(tmp_path, None, schema_file=str(file))))


def test_a_certificate_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("")
    (tmp_path / "cut.pem").write_text("-----BEGIN CERTIFICATE-----\nabc")
    for name in ("nowhere.pem", "empty.pem", "cut.pem"):
        pipeline = load(written(tmp_path, {"url": URL, "ca": str(tmp_path / name)}))
        with pytest.raises(ConfigError, match=rf"registry\.ca: .*{name} cannot be read"):
            schemas_of(pipeline, "orders")


def test_a_certificate_of_ours(tmp_path: Path) -> None:
    ours = Certificates(tmp_path).make()
    subprocess.run(
        ["openssl", "pkey", "-in", "job.key", "-aes256", "-passout", "pass:secret", "-out", "locked.key"],
        cwd=tmp_path,
        check=True,
    )
    given = {"url": URL, "certificate": str(ours.path("job.pem")), "key": str(ours.path("job.key"))}
    found = schemas_of(load(written(tmp_path, given)), "orders")
    assert isinstance(found, SchemaRegistry)
    assert found.identity == ours.path("job.key").read_text() + ours.path("job.pem").read_text()
    for key in ("localhost.key", "locked.key", "nowhere.key"):
        pipeline = load(written(tmp_path, given | {"key": str(ours.path(key))}))
        with pytest.raises(
            ConfigError, match=rf"registry\.key: .*{key} do not serve: .*; name a certificate"
        ):
            schemas_of(pipeline, "orders")


def test_other_formats_have_no_schemas(tmp_path: Path) -> None:
    assert schemas_of(load(written(tmp_path, {"url": URL}, format="json")), "orders") is None


@pytest.mark.parametrize(
    ("registry", "stream", "words"),
    [
        (None, {}, "streams.orders.format: its records need schemas; add the section registry"),
        (
            None,
            {"format": "json", "schema_file": "a.avsc"},
            "only records of Avro and Protobuf have a schema",
        ),
        (
            {"url": "registry.example"},
            {},
            "line 1: registry.url: this is no address; write one such as https://",
        ),
        (
            {"url": "https://shop:secret@registry.example"},
            {},
            "https://registry.example/apis/ccompat/v7, and a login under user and password",
        ),
        ({"url": "https://registry.example?a=b"}, {}, "registry.url"),
        ({"url": "https://registry.example:port"}, {}, "registry.url"),
        ({"url": "https://registry.example\n"}, {}, "registry.url"),
        ({"url": URL, "user": "shop"}, {}, "a user needs a password"),
        ({"url": URL, "password": "secret"}, {}, "a user needs a password"),
        ({"url": URL, "user": "a:b", "password": "secret"}, {}, "registry.user"),
        ({"url": "http://registry.example", "user": "shop", "password": "secret"}, {}, "write https://"),
        ({"url": "http://registry.example", "ca": "ca.pem"}, {}, "write https://"),
        ({"url": "http://registry.example", "certificate": "a", "key": "b"}, {}, "write https://"),
        ({"url": URL, "certificate": "a"}, {}, "a certificate needs its key"),
        ({"url": URL, "key": "a"}, {}, "a certificate needs its key"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, registry: Any, stream: Any, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(written(tmp_path, registry, **stream))
    assert words in str(raised.value)
    assert "secret" not in str(raised.value)

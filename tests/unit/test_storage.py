"""Directories of tables: what an option may name, and files in a directory of a file system."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from endmark.cli.options import checkpoint_of
from endmark.errors import ConfigError, MissingPartError
from endmark.storage import (
    CAUSES,
    StoreUrl,
    delta_table,
    entries,
    location,
    move,
    reaching,
    read_parquet,
    read_text,
    remove,
    write_parquet,
)

ROWS = pa.table({"a": [1, 2], "b": ["x", None]})
S3 = StoreUrl("s3://bucket/tables")


def test_an_option_names_a_path_or_a_url() -> None:
    assert location("var/tables") == Path("var/tables")
    assert location("s3://bucket/tables/") == S3
    assert location("gs://bucket") == StoreUrl("gs://bucket")
    assert location("abfss://container@account.dfs.core.windows.net/x").name == "x"
    assert (str(S3 / "results"), (S3 / "results").name) == ("s3://bucket/tables/results", "results")
    assert S3.resolve() == S3


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("s3a://bucket/x", "warehouse s3a://…: it lies in a path or behind one of s3://, gs://, abfss://"),
        ("s3:///x", "the URL has no bucket; write s3://BUCKET/PATH"),
        ("s3://key:canary@bucket/x", "give credentials by the environment or a profile"),
        ("s3://canary@bucket/x", "give credentials by the environment or a profile"),
        ("s3://bucket/x?secret=canary", "give credentials by the environment or a profile"),
    ],
)
def test_other_urls_are_refused_without_their_secrets(text: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        location(text)
    assert why in str(refused.value)
    assert "canary" not in str(refused.value)


def test_a_checkpoint_is_a_path_or_in_s3() -> None:
    """Hadoop has another name for the scheme. Google's and Azure's stores have tables alone."""
    found = checkpoint_of("shop", "s3://bucket/shop/checkpoint")

    assert isinstance(found, StoreUrl)
    assert (found / "spark").for_hadoop == "s3a://bucket/shop/checkpoint/spark"
    assert checkpoint_of("shop", "there") == Path("there")
    with pytest.raises(ConfigError, match=r"checkpoint gs://…: it lies in a path or behind one of s3://"):
        checkpoint_of("shop", "gs://bucket/x")


@pytest.mark.parametrize("bucket", ["b", "2026", "my-logs", "logs.of.shop", "logs.v2"])
def test_a_checkpoint_is_in_a_bucket_with_the_name_of_a_host(bucket: str) -> None:
    assert checkpoint_of("shop", f"s3://{bucket}/x") == StoreUrl(f"s3://{bucket}/x")


@pytest.mark.parametrize("bucket", ["my_logs", "logs.2026", "-logs", "logs-", "logs..shop", "logs.-shop"])
def test_a_checkpoint_is_in_no_other_bucket(bucket: str) -> None:
    """Hadoop's client fails at them with `Illegal character in hostname`. Tables may lie there."""
    assert location(f"s3://{bucket}/x") == StoreUrl(f"s3://{bucket}/x")
    with pytest.raises(ConfigError, match="Spark cannot open this bucket"):
        checkpoint_of("shop", f"s3://{bucket}/x")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("404 Not Found\n <Error><Code>NoSuchBucket</Code>", "its bucket is not there"),
        ("403 Forbidden\n <Code>InvalidAccessKeyId</Code>", "refuses the credentials (InvalidAccessKeyId)"),
        ("Generic S3 error\n \x1b[31m↳\x1b[0m Missing AccessKeyId", "there are no credentials"),
        ("an error occurred while loading credentials\n request forbidden", "there are no credentials"),
        ("403 Forbidden\n <Code>AccessDenied</Code>", "the credentials lack a right"),
        ("builder error\n URL scheme is not allowed", "set AWS_ALLOW_HTTP=true"),
        ("HTTP error\n error sending request", "the store does not answer"),
        ("something\n \x1b[31m↳\x1b[0m else", "something else"),
    ],
)
def test_an_error_of_the_store_says_what_to_do(text: str, why: str) -> None:
    with pytest.raises(MissingPartError) as told, reaching(S3):
        raise OSError(text)
    assert str(told.value).startswith("s3://bucket/tables: ")
    assert why in str(told.value)
    with pytest.raises(OSError, match=re.escape(text)), reaching(Path("tables")):
        raise OSError(text)


def test_an_error_of_delta_that_is_not_the_stores_stays_as_it_is() -> None:
    with pytest.raises(DeltaError, match="protocol"), reaching(S3):
        raise DeltaError("protocol")
    with pytest.raises(MissingPartError, match="lack a right"), reaching(S3):
        raise DeltaError("403 Forbidden")


def test_files_of_a_directory(tmp_path: Path) -> None:
    assert entries(tmp_path / "nothing") == {}
    assert delta_table(tmp_path / "nothing") is None
    table = tmp_path / "a"
    (table / "_delta_log").mkdir(parents=True)
    size = write_parquet(table, "part-1.parquet", ROWS)
    (table / "_delta_log" / "0.json").write_text("å")

    assert size == (table / "part-1.parquet").stat().st_size
    assert read_parquet(table, "part-1.parquet", pa.schema([("b", pa.string())])) == ROWS.select(["b"])
    assert read_text(table / "_delta_log", "0.json") == "å"
    assert entries(table).keys() == {"part-1.parquet"}
    assert entries(table, below=True).keys() == {"part-1.parquet", "_delta_log/0.json"}
    (tmp_path / "aside").mkdir()
    move(tmp_path, "a", "aside/a")
    assert entries(tmp_path, below=True).keys() == {"aside/a/part-1.parquet", "aside/a/_delta_log/0.json"}
    remove(tmp_path / "aside" / "a", ["part-1.parquet", "part-2.parquet"])
    assert entries(tmp_path / "aside" / "a") == {}


def test_the_page_names_each_cause() -> None:
    page = (Path(__file__).parents[2] / "docs" / "object-store.md").read_text()
    shown = re.findall(r"^\| (.+) \| .+ \|$", page[page.index("| the error says |") :], re.MULTILINE)[1:]
    causes = {cause.replace("({})", "").split(";")[0].strip() for _, cause in CAUSES}
    assert set(shown) == causes

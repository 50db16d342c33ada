"""The command line, as a child process: one clear line and exit code 2 for what a user can mend."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from endmark.cli import AUCTION


def endmark(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "endmark.cli", *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def run_arguments(tmp_path: Path) -> list[str]:
    impatient = tmp_path / "pipeline.yaml"
    impatient.write_text(AUCTION.read_text().replace("table: sellers", "table: sellers\n    retry: 1s"))
    return [
        "run",
        str(impatient),
        "--bootstrap=127.0.0.1:1",
        f"--warehouse={tmp_path}",
        f"--checkpoint={tmp_path / 'checkpoint'}",
        f"--ops-url=sqlite:///{tmp_path / 'ops.db'}",
    ]


def assert_one_line(ended: subprocess.CompletedProcess[str], *parts: str) -> None:
    assert ended.returncode == 2, ended.stderr
    [line] = [line for line in ended.stderr.splitlines() if line.startswith("endmark: ")]
    for part in parts:
        assert part in line
    assert "Traceback" not in ended.stderr


def test_valid_pipeline() -> None:
    """`validate` says that the example is valid."""
    ended = endmark("validate", ENDMARK_RELATION_URL="sqlite:///r.db")

    assert ended.returncode == 0
    assert "pipeline auction is valid" in ended.stdout


def test_wrong_pipeline_names_the_field(tmp_path: Path) -> None:
    """A misspelt field is named, for people and as JSON."""
    file = tmp_path / "p.yaml"
    file.write_text(AUCTION.read_text().replace("left: items", "lefft: items"))

    assert_one_line(endmark("validate", str(file), ENDMARK_RELATION_URL="x"), "join.lefft: unknown field")
    ended = endmark("validate", str(file), "--json", ENDMARK_RELATION_URL="x")
    assert ended.returncode == 2
    assert "join.lefft: unknown field" in json.loads(ended.stdout)["error"]


def test_port_in_use() -> None:
    """A taken port is named."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_one_line(endmark("ops", "--ops-url=sqlite://", f"--port={port}"), str(port), "in use")


def test_missing_java(tmp_path: Path) -> None:
    """Without Java the demo says what to install."""
    ended = endmark("demo", f"--directory={tmp_path}", PATH="", JAVA_HOME="")
    assert_one_line(ended, "Java 17 or newer is needed", "install")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql+pymysql://u:secret@127.0.0.1:1/w", "the database did not answer for"),
        ("sqlite:///{}/empty.db", "the database has no such table, only: none"),
        ("sqlite:///{}/narrow.db", "no column rating; there are seller_id, name, country"),
        ("sqlite:////nowhere/r.db", "the database did not answer"),
    ],
)
def test_missing_database(tmp_path: Path, url: str, says: str) -> None:
    """A relation that cannot be read is one line, without its password."""
    columns: list[sa.Column[Any]] = [
        sa.Column("seller_id", sa.BigInteger),
        sa.Column("name", sa.Text),
        sa.Column("country", sa.Text),
    ]
    narrow = sa.create_engine(f"sqlite:///{tmp_path}/narrow.db")
    sa.Table("sellers", sa.MetaData(), *columns).create(narrow)

    ended = endmark(*run_arguments(tmp_path), ENDMARK_RELATION_URL=url.format(tmp_path))

    assert_one_line(ended, "relation 'sellers'", says)
    assert "secret" not in ended.stderr + ended.stdout


def test_missing_broker(tmp_path: Path) -> None:
    """A broker that does not answer is named."""
    columns = [sa.Column(name, sa.Text) for name in ("name", "country")]
    engine = sa.create_engine(f"sqlite:///{tmp_path}/r.db")
    key, rating = sa.Column("seller_id", sa.Integer, primary_key=True), sa.Column("rating", sa.Double)
    sa.Table("sellers", sa.MetaData(), key, *columns, rating).create(engine)

    ended = endmark(*run_arguments(tmp_path), ENDMARK_RELATION_URL=f"sqlite:///{tmp_path}/r.db")

    assert_one_line(ended, "no Kafka broker answers at 127.0.0.1:1", "start it, or correct --bootstrap")

"""`endmark init` and `endmark broker` as child processes: files, passwords and errors."""

from __future__ import annotations

import io
import json
import socket
from pathlib import Path

import pytest

from endmark.cli.init import _checked, _unread, init
from endmark.draft import draft as drafting
from endmark.draft import samples
from endmark.draft.draft import draft
from endmark.draft.relations import DraftRelation
from endmark.draft.samples import Record, Sample
from endmark.types import ColumnType
from support.commands import endmark

ROW = '{"order_id": 1, "customer_id": 7, "ordered_at": "2026-01-01T10:00:00Z"}\n'


@pytest.fixture
def sample(tmp_path: Path) -> str:
    (tmp_path / "orders.jsonl").write_text(ROW + "no JSON\n")
    return f"--sample=orders={tmp_path / 'orders.jsonl'}"


def test_a_file_is_written_once(tmp_path: Path, sample: str) -> None:
    """It says what it has found, and what would be a dead letter; another time it is not overwritten."""
    file = tmp_path / "shop.yaml"
    first = endmark("init", str(file), sample)
    assert first.returncode == 0, first.stderr
    assert "stream orders: json, 3 columns by 1 rows, event time ordered_at" in first.stdout
    assert "records of the sample that would be dead letters: 1, first: malformed" in first.stdout
    assert f"next: endmark run {file} --available-now" in first.stdout

    file.write_text("mine")
    again = endmark("init", str(file), sample)
    assert (again.returncode, file.read_text()) == (2, "mine")
    assert "exists; name another file, or overwrite it with --force" in again.stderr

    forced = endmark("init", str(file), sample, "--force", "--json")
    assert json.loads(forced.stdout)["streams"]["orders"]["event_time"] == "ordered_at"
    assert "valid" in endmark("validate", str(file)).stdout


def test_tombstones_of_a_topic_are_no_dead_letters() -> None:
    sample = Sample("orders", [Record(ROW.encode()), Record(None)])
    drafted = draft("shop", [sample])

    assert _unread(_checked(drafted), drafted.streams[0].name, sample) is None


@pytest.mark.parametrize(
    ("options", "says", "code"),
    [
        ([], "give --topics orders,payments, or --sample orders=orders.jsonl", 2),
        (["--sample=orders"], "write TOPIC=FILE", 2),
        (["--sample=orders=/no/such/file"], "No such file or directory", 2),
        (
            ["--topics=orders", "--broker=127.0.0.1:1"],
            "start one with `endmark broker`, or correct --bootstrap",
            75,
        ),
        (["--topics=orders", "--tables=customers"], "give the URL of their --database", 2),
    ],
)
def test_nobody_is_asked_without_a_terminal(tmp_path: Path, options: list[str], says: str, code: int) -> None:
    ended = endmark("init", str(tmp_path / "shop.yaml"), *options)
    assert ended.returncode == code, ended.stderr
    assert says in ended.stderr
    assert not list(tmp_path.iterdir())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_is_asked_for_topics(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It shows those of the broker, and reads the ones that are named."""
    asked: list[str] = []

    def sample_topics(_: str, topics: list[str]) -> list[Sample]:
        asked.extend(topics)
        return [Sample("orders", [Record(ROW.encode())])]

    monkeypatch.setattr(samples, "topics_at", lambda _: ["orders", "others"])
    monkeypatch.setattr(samples, "sample_topics", sample_topics)
    monkeypatch.setattr("sys.stdin", Terminal(" orders,,\n"))
    init(tmp_path / "shop.yaml")
    assert asked == ["orders"]
    assert "topics at localhost:9092: orders, others" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("url", "in_file"),
    [
        ("mysql://ann:hunter2@host/shop", "url: ${ENDMARK_RELATION_URL}"),
        ("postgres://host/shop?password=hunter2", "url: ${ENDMARK_RELATION_URL}"),
        ("mariadb://ann@host/shop", 'url: "mariadb://ann@host/shop"'),
    ],
)
def test_no_password_is_in_a_file(monkeypatch: pytest.MonkeyPatch, url: str, in_file: str) -> None:
    long = ColumnType.LONG
    customers = DraftRelation("customers", "customers", ("customer_id",), {"customer_id": long}, {})
    monkeypatch.setattr(drafting, "relations_at", lambda *_: [customers])
    text = draft("shop", [Sample("orders", [Record(ROW.encode())])], url).text
    assert in_file in text
    assert "hunter2" not in text


def test_a_broker_whose_port_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = endmark("broker", f"--port={port}", f"--dir={tmp_path / 'broker'}")
    assert ended.returncode == 2
    assert f"port {port} of 127.0.0.1 is in use; stop what listens there or give another port" in ended.stderr


def test_a_broker_without_java(tmp_path: Path) -> None:
    ended = endmark("broker", f"--dir={tmp_path / 'broker'}", JAVA_HOME=str(tmp_path))
    assert ended.returncode == 2
    assert "where there is no bin/java" in ended.stderr

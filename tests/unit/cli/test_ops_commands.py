"""The commands of an operator: who calls, what a terminal shows, and an ops database that fails."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from endmark.cli.callers import caller
from endmark.control.ops_database.database import OpsDatabase
from endmark.pipelines import AUCTION
from support.broken_records import write_letters
from support.commands import assert_one_line, endmark


def url_in(directory: Path) -> str:
    return f"sqlite:///{directory / 'ops.db'}"


@pytest.mark.parametrize(
    ("command", "spoilt_by", "says"),
    [
        (("forget", "auction"), "BEGIN IMMEDIATE", "database is locked"),
        (
            ("knobs", "list", str(AUCTION)),
            "ALTER TABLE turns RENAME COLUMN refused TO gone",
            "no such column: turns.",
        ),
    ],
)
def test_an_ops_database_that_refuses_a_statement_is_named(
    tmp_path: Path, command: tuple[str, ...], spoilt_by: str, says: str
) -> None:
    """A job holds the lock of a SQLite file while it writes. A damaged file refuses reads, too."""
    url = url_in(tmp_path)
    with closing(OpsDatabase(url)) as database:
        database.pipelines.describe("auction", {})
    with closing(sqlite3.connect(tmp_path / "ops.db", isolation_level=None)) as other:
        other.execute(spoilt_by)
        ended = endmark(*command, f"--ops-url={url}", ENDMARK_RELATION_URL="sqlite:///r.db")

    assert_one_line(ended, f"the ops database {url} refuses a statement: {says}", code=75)


def test_a_user_without_a_name_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes gives a container any user, of which its /etc/passwd knows nothing."""

    def unknown(number: int) -> None:
        raise KeyError(f"getpwuid(): uid not found: {number}")

    for variable in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)

    assert caller("") == f"user {os.getuid()}"
    assert caller("Ann") == "Ann"


@pytest.mark.parametrize("by", ["a\tb", "x" * 201])
@pytest.mark.parametrize(
    "command",
    [
        ("knobs", "set", str(AUCTION), "batch.records", "5"),
        ("why", str(AUCTION), "item_id=1"),
        ("dead-letters", "replay", str(AUCTION), "bids/0/1"),
    ],
)
def test_a_name_that_the_job_would_refuse_is_refused_at_once(
    tmp_path: Path, command: tuple[str, ...], by: str
) -> None:
    """The command said that the knob was turned, but the job made a dead letter of the record."""
    options = (f"--by={by}", "--bootstrap=127.0.0.1:1")
    ended = endmark(
        *command, *options, ENDMARK_RELATION_URL="sqlite:///r.db", ENDMARK_OPS_URL=url_in(tmp_path)
    )

    assert_one_line(ended, "--by", "up to 200 letters that can be printed", code=2)


def test_what_the_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    """The command ended in a traceback at the first letter that is not in Latin-1."""
    write_letters(tmp_path / "dead_letters", [("bids", 0, 7, "not_json", "\u20ac?", "\u20ac".encode())])
    options = (str(AUCTION), f"--warehouse={tmp_path}")
    ended = endmark(
        "dead-letters", "list", *options, ENDMARK_RELATION_URL="sqlite:///r.db", PYTHONIOENCODING="latin-1"
    )

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.split() == ["bids/0/7", "not_json:", "\\u20ac?", "\\u20ac"]

"""The database itself: first use, files and servers that fail, and texts that every server can store."""

from __future__ import annotations

import os
import secrets
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError

from endmark.control.ops_database import access, part, tables
from endmark.control.ops_database.database import OpsDatabase
from endmark.control.ops_database.tables import META
from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError, MissingPartError, UnreachableError
from endmark.stored_text import storable
from support.postgresql import PostgreSql

HARD = "half a pair: \ud800, NUL: \0, beyond 16 bits: \U0001f600, and long: " + 100_000 * "x"


@pytest.mark.parametrize("server", ["sqlite", "mariadb", "mysql", "postgresql"])
def test_what_records_and_people_wrote_is_stored_on_each_server(
    server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Whatever it is; where the database has a small character set of its own, too."""
    url = f"sqlite:///{tmp_path / 'ops.db'}" if server == "sqlite" else request.getfixturevalue(server).url
    with closing(sa.create_engine(url).connect()) as connection:
        if server in ("mariadb", "mysql"):
            connection.execute(sa.text("ALTER DATABASE CHARACTER SET latin1"))
    nested: Any = 1
    for _ in range(40):
        nested = [nested]
    values = [HARD, nested, {HARD: 1}, 1e400, -(10**400), 2**63, 7, 1.5, True, None, "scan"]
    at = datetime.now(UTC).timestamp()
    with closing(OpsDatabase(url)) as ops:
        rows = [
            {"partition": 0, "offset": offset, "set_at": at, "by": HARD, "name": HARD, "value": value}
            | {"refused": HARD, "why": HARD}
            for offset, value in enumerate(values)
        ]
        ops.turns.record("auction", 3, rows, {})
        ops.turns.record("auction", 3, rows, {})
        ops.runs.start("run", "auction", "app", "/checkpoint")
        ops.runs.set_state("run", "failed", HARD)

        kept, run = ops.turns.of("auction"), ops.runs.latest("auction")
        META.drop_all(ops.engine)
        if server in ("mariadb", "mysql"):
            with ops.engine.begin() as connection:
                connection.execute(sa.text("ALTER DATABASE CHARACTER SET utf8mb4"))

    begins = r"half a pair: \ud800, NUL: \x00, beyond 16 bits: " + "\U0001f600, and long: xxx"
    assert [turn["value"] for turn in kept][3:] == [
        "inf",
        storable(hex(-(10**400))),
        "0x8000000000000000",
        7,
        1.5,
        True,
        None,
        "scan",
    ]
    assert run is not None
    for text in [run["error"], *(turn[name] for turn in kept for name in ("by", "name", "refused", "why"))]:
        assert text.startswith(begins)
        assert text.endswith("x…")


def test_a_job_waits_while_the_server_restarts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart of MySQL stopped each job of its ops database. If it stays away, the error names it."""
    with MariaDb(tmp_path / "mariadb") as server, closing(OpsDatabase(server.url)) as ops:
        ops.runs.start("run", "auction", "app", "/checkpoint")
        server.kill()
        with ThreadPoolExecutor(1) as threads:
            stored = threads.submit(ops.batches.record, "auction", 0, "run", {"records_total": 10.0}, {})
            server.start()
            stored.result()
        [batch] = ops.batches.after("auction", -1, 10)
        assert batch.totals == {"records_total": 10}

        server.kill()
        monkeypatch.setattr(part, "AWAY_SECONDS", 0.2)
        away = r"the ops database mysql\S+ did not answer for 0 s: .*2003"
        with pytest.raises(UnreachableError, match=away):
            ops.batches.record("auction", 1, "run", {"records_total": 10.0}, {})
        with pytest.raises(UnreachableError, match=away):
            ops.runs.start("next", "auction", "app", "/checkpoint")


def _open_by_many(url: str) -> None:
    together = Barrier(8)

    def opened() -> None:
        together.wait()
        with closing(OpsDatabase(url)) as database:
            assert database.turns.of("auction") == []

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(opened) for _ in range(8)]:
            done.result()


def test_a_database_may_be_opened_for_the_first_time_by_many_at_once(tmp_path: Path) -> None:
    """The job, the sidecar and whoever looks on start together."""
    for attempt in range(5):
        _open_by_many(f"sqlite:///{tmp_path / f'ops-{attempt}.db'}")


def test_a_server_may_be_used_for_the_first_time_by_many_at_once(server_ops: OpsDatabase) -> None:
    """PostgreSQL refuses a table that another transaction creates, even with IF NOT EXISTS."""
    for _ in range(5):
        META.drop_all(server_ops.engine)
        _open_by_many(server_ops.engine.url.render_as_string(hide_password=False))


def test_a_user_may_lack_the_right_to_make_tables_that_are_there(postgresql: PostgreSql) -> None:
    """PostgreSQL lets nobody but a schema's owner make tables, not even those that are there."""
    made, password = sa.create_engine(postgresql.url, isolation_level="AUTOCOMMIT"), secrets.token_hex()
    with closing(OpsDatabase(postgresql.url)), made.connect() as connection:
        for statement in (
            f"CREATE ROLE clerk LOGIN PASSWORD '{password}'",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO clerk",
        ):
            connection.execute(sa.text(statement))
        url = sa.make_url(postgresql.url).set(username="clerk", password=password)
        with closing(OpsDatabase(url.render_as_string(hide_password=False))) as ops:
            ops.runs.start("run", "auction", "app", "/checkpoint")
            found = ops.runs.latest("auction")
        connection.execute(sa.text("DROP OWNED BY clerk"))
        connection.execute(sa.text("DROP ROLE clerk"))
        META.drop_all(connection)
    made.dispose()

    assert found is not None
    assert found["run_id"] == "run"


def test_the_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """Whichever command opens it first, and whatever the mask. A file that exists keeps its rights."""
    (tmp_path / "shared.db").touch()
    (tmp_path / "shared.db").chmod(0o644)
    before = os.umask(0o022)
    try:
        for name in ("own.db", "shared.db"):
            with closing(OpsDatabase(f"sqlite:///{tmp_path / name}")) as opened:
                opened.runs.start("run-1", "auction", "app", "/checkpoint")
                rights = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.glob(f"{name}*")}
                assert set(rights.values()) == {0o600 if name == "own.db" else 0o644}, rights
    finally:
        os.umask(before)


def test_a_file_that_is_no_database_is_told_from_one_that_is_locked(
    tmp_path: Path,
) -> None:
    """A later try succeeds once the lock is gone, so only the first is an error of the command."""
    (tmp_path / "text.db").write_text(100 * "no database ")
    with pytest.raises(ConfigError, match="not a database; name a file"):
        OpsDatabase(f"sqlite:///{tmp_path / 'text.db'}")
    with pytest.raises(ConfigError, match="unable to open"):
        OpsDatabase(f"sqlite:///{tmp_path / 'nowhere' / 'ops.db'}")
    OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}").close()
    with closing(sqlite3.connect(tmp_path / "ops.db")) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnreachableError, match="locked"):
            OpsDatabase(f"sqlite:///{tmp_path / 'ops.db'}")


@pytest.mark.parametrize("driver", ["mysql+pymysql", "postgresql+pg8000"])
def test_a_server_that_does_not_answer_is_given_up(monkeypatch: pytest.MonkeyPatch, driver: str) -> None:
    monkeypatch.setattr(access, "_ANSWER_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        with pytest.raises(MissingPartError, match="cannot use the ops database"):
            OpsDatabase(f"{driver}://ann@127.0.0.1:{silent.getsockname()[1]}/ops")
        assert time.monotonic() - began < 30


def test_a_full_disk_is_named_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice was to wait until the database is back, and to start it."""
    file = tmp_path / "ops.db"
    advice = f"{file} and {file}-wal cannot grow, since their disk is full; make room on that disk, and start"
    with closing(OpsDatabase(f"sqlite:///{file}")) as ops:

        def is_full(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA max_page_count=1")

        monkeypatch.setattr(part, "AWAY_SECONDS", 0.2)
        ops.engine.dispose()
        event.listen(ops.engine, "connect", is_full)
        with pytest.raises(UnreachableError) as raised:
            ops.batches.record("p", 0, "run", {}, {"t": {str(number): number for number in range(50_000)}})
    assert advice in str(raised.value)

    def cannot_begin(_engine: Any) -> None:
        with closing(sqlite3.connect(":memory:")) as small:
            small.execute("PRAGMA max_page_count=1")
            try:
                small.execute("CREATE TABLE t (x)")
            except sqlite3.Error as error:
                raise DBAPIError("CREATE", {}, error) from error

    monkeypatch.setattr(tables, "make", cannot_begin)
    with pytest.raises(UnreachableError) as raised:
        OpsDatabase(f"sqlite:///{file}")
    assert advice in str(raised.value)

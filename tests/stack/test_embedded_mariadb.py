from __future__ import annotations

import socket
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from endmark.embedded.mariadb import MariaDb
from endmark.embedded.ports import listens
from endmark.errors import MissingPartError
from support.orphans import orphaned


def run(url: str, *statements: str) -> list[tuple[object, ...]]:
    """Run statements in one transaction; rows of the last."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            for statement in statements[:-1]:
                connection.execute(text(statement))
            result = connection.execute(text(statements[-1]))
            return [tuple(row) for row in result] if result.returns_rows else []
    finally:
        engine.dispose()


def test_the_user_owns_the_database_and_nothing_else(mariadb: MariaDb) -> None:
    create, insert = "CREATE TABLE owned (n INT, s TEXT)", "INSERT INTO owned VALUES (1, 'schön 🔨')"
    assert run(mariadb.url, create, insert, "SELECT * FROM owned") == [(1, "schön 🔨")]
    assert make_url(mariadb.url).database == "warehouse"
    with pytest.raises(OperationalError, match="denied"):
        run(mariadb.url, "CREATE DATABASE another")


def test_a_wrong_password_is_refused(mariadb: MariaDb) -> None:
    wrong = mariadb.url.replace(str(make_url(mariadb.url).password), "wrong")
    with pytest.raises(OperationalError, match="denied"):
        run(wrong, "SELECT 1")


def test_rows_outlast_a_stop_and_a_crash(tmp_path: Path, free_port: int) -> None:
    database = MariaDb(tmp_path, free_port)
    with database:
        url = database.url
        run(url, "CREATE TABLE kept (n INT)", "INSERT INTO kept VALUES (1)")
    assert not listens(free_port)
    with database:
        assert database.url == url
        run(url, "INSERT INTO kept VALUES (2)")
        database.kill()
        assert not listens(free_port)
        database.start()
        assert run(url, "SELECT n FROM kept ORDER BY n") == [(1,), (2,)]
    with MariaDb(tmp_path) as another:
        assert run(another.url, "SELECT n FROM kept ORDER BY n") == [(1,), (2,)]


def test_the_password_is_nowhere_on_disk(tmp_path: Path) -> None:
    with MariaDb(tmp_path) as database:
        password = make_url(database.url).password
        assert password is not None
        for path in tmp_path.rglob("*"):
            if path.is_file():
                assert password.encode() not in path.read_bytes(), path
        assert password not in Path(f"/proc/{database.pid}/cmdline").read_text()


def test_an_unfinished_installation_is_done_again(tmp_path: Path) -> None:
    (tmp_path / "installing" / "mysql").mkdir(parents=True)
    with MariaDb(tmp_path) as database:
        assert run(database.url, "SELECT 1") == [(1,)]


def test_a_port_in_use_is_one_clear_line(tmp_path: Path, free_port: int) -> None:
    with (
        socket.create_server(("127.0.0.1", free_port)),
        pytest.raises(MissingPartError, match=f"MariaDB: port {free_port} of 127.0.0.1 is in use"),
    ):
        MariaDb(tmp_path, free_port).start()


def test_a_second_server_leaves_the_first_ones_data_alone(tmp_path: Path) -> None:
    with MariaDb(tmp_path) as first:
        with pytest.raises(MissingPartError, match=r"MariaDB: another one runs in .*; stop it"):
            MariaDb(tmp_path).start()
        assert run(first.url, "SELECT 1") == [(1,)]


def test_no_mariadb_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("endmark.embedded.mariadb._SBIN", "")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingPartError, match="install mariadb-server or give --relation-url"):
        MariaDb(tmp_path).start()


def test_the_server_does_not_outlive_its_parent(tmp_path: Path, free_port: int) -> None:
    orphaned("endmark.embedded.mariadb", "MariaDb", tmp_path, free_port)
    # A restart in the same place can follow at once.
    with MariaDb(tmp_path, free_port) as again:
        assert run(again.url, "SELECT 1") == [(1,)]

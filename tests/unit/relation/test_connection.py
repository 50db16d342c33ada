"""Connections to a relation's server: whom they trust, and that none waits for another."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any
from unittest.mock import patch

import pytest
import sqlalchemy as sa

from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError, MissingPartError
from endmark.relation import connection
from endmark.relation.outage import RelationUnreachableError
from support.mysql import MySql
from support.relations import Database, batch_of, rows_of


def test_a_login_that_takes_tls(mysql: MySql) -> None:
    """A server that offers it gets it; without, the first login after a new password says what is missing."""
    database = Database(mysql.url)
    database.create("greeted", "k BIGINT PRIMARY KEY", [(1,)])
    assert rows_of(database.reader("greeted", "k", k="long").pages([(None, None)])) == [(1,)]
    password = sa.make_url(mysql.url).password
    database.run(f"ALTER USER CURRENT_USER() IDENTIFIED BY '{password}'")  # the server forgets who was there
    bare = Database(mysql.url + "?ssl_disabled=1").reader("greeted", "k", k="long")
    with pytest.raises(MissingPartError, match=r"cryptography.*; let it offer TLS"):
        bare.pages([(None, None)])


def test_a_server_that_must_prove_itself(mysql: MySql, tmp_path: Path) -> None:
    """By a certificate of the authority that the URL names."""
    database = Database(mysql.url)
    database.create("proven", "k BIGINT PRIMARY KEY", [(1,)])

    def read(authority: Path, retry: str) -> list[tuple[Any, ...]]:
        url = f"{mysql.url}?ssl_ca={authority}&ssl_check_hostname=false"
        return rows_of(Database(url).reader("proven", "k", retry=retry, k="long").pages([(None, None)]))

    assert read(mysql.authority, "60s") == [(1,)]
    with (
        MySql(tmp_path / "other") as other,
        pytest.raises(RelationUnreachableError, match="CERTIFICATE_VERIFY"),
    ):
        read(other.authority, "1s")


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_the_longest_deadline(server: str, request: pytest.FixtureRequest) -> None:
    """A driver refuses a connection that may take more than a year to begin."""
    database = Database(request.getfixturevalue(server).url)
    database.create("patient", "k BIGINT PRIMARY KEY", [(1,)])
    reader = database.reader("patient", "k", retry="36500d", k="long")
    assert rows_of(reader.pages([(None, None)])) == [(1,)]


class _Unusual(MariaDb):
    """A server whose settings change the rows of sessions that do not choose their own."""

    def _write_welcome(self) -> Path:
        welcome = super()._write_welcome()
        modes = "PAD_CHAR_TO_FULL_LENGTH,EMPTY_STRING_IS_NULL"
        settings = f"SET GLOBAL sql_mode = '{modes}', GLOBAL sql_select_limit = 1;\n"
        welcome.write_text(welcome.read_text() + settings)
        return welcome


def test_settings_of_the_server_change_no_row(tmp_path: Path) -> None:
    """Padded texts, an empty text that is null, or a row too few would all make keys that are not found."""
    with _Unusual(tmp_path) as server:
        database = Database(server.url)
        text = "CHAR(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin"
        database.create("unusual", f"k {text} PRIMARY KEY, v {text}")
        database.run("INSERT INTO unusual VALUES ('a', 'x')", "INSERT INTO unusual VALUES (' ', 'y')")
        reader = database.reader("unusual", "k", k="string", v="string")
        wanted = [("", "y"), ("a", "x")]

        assert rows_of(reader.pages([(None, None)])) == wanted
        assert rows_of(reader.read_keys(batch_of(reader, [("a",), ("",), ("b",)]))) == wanted


def test_no_read_waits_for_a_connection(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Several lookups, each of which reads ahead, may ask one database at once."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('busy') / 'r.db'}")
    database.create("busy", "k INTEGER PRIMARY KEY", [(1,), (2,)])
    readers = [database.reader("busy", "k", k="long") for _ in range(6)]
    together, fetch = Barrier(len(readers)), connection.fetch

    def slowly(*arguments: Any) -> Any:
        together.wait(timeout=60)
        return fetch(*arguments)

    with patch.object(connection, "fetch", slowly), ThreadPoolExecutor(len(readers)) as pool:
        found = list(pool.map(lambda reader: reader.pages([(None, None)]).num_rows, readers))

    assert found == [2] * len(readers)


@pytest.mark.parametrize("url", ["sqlite:///{}/shop.db", "sqlite:///{}/no/shop.db"])
def test_a_file_that_is_missing_is_not_made(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"the relation's file \S+shop.db does not exist; correct its URL"):
        connection.engine(url.format(tmp_path), 5)
    assert list(tmp_path.iterdir()) == []

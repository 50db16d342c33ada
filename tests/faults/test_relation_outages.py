"""Reads survive, or stop for, a database that breaks, stalls, is full, locks or alters the table."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa

from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError
from endmark.relation.outage import RelationUnreachableError, passes
from endmark.relation.sql import SqlRelation
from support.mysql import WITH_TEXT_KEYS, MySql
from support.relation_outages import (
    ROWS,
    later,
    read,
    reader_of,
    resume,
    seconds_to_give_up,
    stall,
    survive_a_restart,
    wait_out_a_lock,
)
from support.relations import Database, batch_of, rows_of


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    kind = {"mariadb": MariaDb, "mysql": MySql}[request.param]
    with kind(tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def database(server: MariaDb) -> Database:
    made = Database(server.url)
    made.run("DROP TABLE IF EXISTS moved")
    made.create("r", f"k BIGINT PRIMARY KEY, v {made.exact or 'VARCHAR(60)'} NOT NULL, KEY(v)", ROWS)
    return made


def taken(started: float) -> float:
    return time.monotonic() - started


def test_a_database_that_comes_back_costs_time_only(server: MariaDb, database: Database) -> None:
    survive_a_restart(server, database)


def test_a_database_that_comes_up_after_the_job(server: MariaDb, database: Database) -> None:
    """Started together, the job waits for it, and says so."""
    said: list[str] = []
    reader = database.reader("r", "k", retry="90s", say=said.append, k="long", v="string")
    server.kill()
    with ThreadPoolExecutor(1) as aside:
        checking = aside.submit(reader.check)
        try:
            time.sleep(2)
            assert not checking.done()
        finally:
            server.start()
        checking.result()
    assert read(reader) == ROWS
    [waiting] = said
    assert waiting.startswith("relation 'r': waiting 90 s for the database: (20")


def test_a_database_that_stays_away(server: MariaDb, database: Database) -> None:
    """All reads of a batch share one deadline, which they have to its end; the next batch has its own."""
    readers = [reader_of(database, retry="4s") for _ in range(3)]
    directory = readers[0].directory(100)

    def seconds_of_two_reads(reader: SqlRelation) -> tuple[float, float]:
        started = time.monotonic()
        with pytest.raises(
            RelationUnreachableError, match=r"relation 'r': the database did not answer for \d"
        ):
            reader.pages([directory.range_of(0)])
        between = time.monotonic()
        with pytest.raises(RelationUnreachableError):
            reader.read_keys(batch_of(reader, [(1,)]))
        return between - started, taken(between)

    server.kill()
    try:
        found = []
        for reader in readers:
            found.append(seconds_of_two_reads(reader))
            if found[-1][0] < 5 and found[-1][1] < 1:  # a busy machine makes one take long
                break
    finally:
        server.start()
    assert all(first >= 4 for first, _ in found)
    assert found[-1][0] < 5, found
    assert found[-1][1] < 1, found
    with reader.batch():
        assert read(reader) == ROWS


def test_a_database_that_stalls(server: MariaDb, database: Database) -> None:
    """A stopped process holds its connections open; it is waited for as one that is away."""
    patient, impatient = reader_of(database), reader_of(database, retry="4s")
    assert server.pid is not None
    pid = server.pid
    stall(pid)
    try:
        found = seconds_to_give_up(impatient, 5.5)
    finally:
        resumed = later(2, lambda: resume(pid))
        with resumed:
            assert read(patient) == ROWS
    assert min(found) >= 4
    assert found[-1] < 5.5, found


def connected(database: Database) -> pymysql.Connection[Any] | None:
    """A connection, or none if the server has no more."""
    url = sa.make_url(database.url)
    try:
        return pymysql.connect(
            host=url.host, port=url.port or 0, user=url.username, password=url.password or ""
        )
    except pymysql.err.OperationalError as error:
        if error.args[0] != 1040:
            raise
        return None


def test_too_many_connections(database: Database) -> None:
    """A server that is full is waited for."""
    reader = reader_of(database)
    with ExitStack() as held:
        while connection := connected(database):
            held.enter_context(connection)
        started = time.monotonic()
        with later(2, held.pop_all().close):
            assert read(reader) == ROWS
    assert taken(started) > 1


def test_a_locked_table(database: Database) -> None:
    wait_out_a_lock(
        database, "LOCK TABLES r WRITE", lambda other: other.connection.cursor().execute("UNLOCK TABLES")
    )


PASS, STAY = (1205, 1213, 1040, 2013, 1969, 3024), (1045, 1054, 1064, 1142, 1146)


@pytest.mark.parametrize("code", [*PASS, *STAY])
def test_errors_that_pass_by_themselves(code: int) -> None:
    """A lock, a deadlock or a lost connection may be gone next time; a refusal is not."""
    error = sa.exc.OperationalError("SELECT", (), pymysql.err.OperationalError(code, "words"))
    assert passes(error) is (code in PASS)


ALTERED = [
    ("RENAME TABLE r TO moved", "no such table", "doesn't exist"),
    ("ALTER TABLE r DROP COLUMN v", "no column v; there are k", "Unknown column"),
    (
        "ALTER TABLE r MODIFY k VARCHAR(20)",
        "column 'k' is varchar\\(20\\), which long could not hold",
        "column k was altered while a batch read it",
    ),
    ("ALTER TABLE r MODIFY v VARCHAR(30)", None, "column v was altered while a batch read it"),
]


@pytest.mark.parametrize(("statement", "between", "within"), ALTERED)
def test_an_altered_table(database: Database, statement: str, between: str | None, within: str) -> None:
    """A table that no longer fits stops the next batch, and the batch in whose middle it is altered. A table
    that still fits stops only the latter, so no batch joins two tables in one."""
    reader = reader_of(database)
    directory = reader.directory(100)

    def batch() -> None:
        with reader.batch():
            reader.pages([directory.range_of(0)])
            database.run(statement)
            reader.pages([directory.range_of(1)])

    with pytest.raises(ConfigError, match=f"relation 'r'.*{within}"):
        batch()
    started = time.monotonic()
    if between is None:
        with reader.batch():
            assert read(reader) == ROWS
    else:
        with pytest.raises(ConfigError, match=f"relation 'r'.*{between}"), reader.batch():
            raise AssertionError("the batch began")
    assert taken(started) < 60  # of 90 s for what passes


def test_additions_to_a_table(database: Database) -> None:
    """A column or an index that nothing is said of changes nothing, even while a batch reads."""
    reader = reader_of(database)
    directory = reader.directory(100)
    with reader.batch():
        database.run("ALTER TABLE r ADD COLUMN w INT NOT NULL DEFAULT 7", "CREATE INDEX r_w ON r (w, k)")
        assert rows_of(reader.pages([directory.range_of(page) for page in range(3)])) == ROWS


@pytest.mark.parametrize("server", WITH_TEXT_KEYS, indirect=True)
def test_a_key_that_is_compared_otherwise(database: Database) -> None:
    """A collation that folds keys comes between two batches. Keys are found as before; no page is read."""
    reader = database.reader("r", "v", k="long", v="string")
    with reader.batch():
        assert reader.read_keys(batch_of(reader, [("v1",)])).num_rows == 1
        assert reader.pages([(None, ("v1",))]).num_rows > 0
    database.run("ALTER TABLE r MODIFY v VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL")
    with reader.batch():
        assert reader.read_keys(batch_of(reader, [("v1",), ("V1",)])).num_rows == 1
        with pytest.raises(ConfigError, match=r"'v' by utf8mb4_general_ci.*; ALTER TABLE r .*brings pages"):
            reader.pages([(None, ("v1",))])


def test_no_page_is_read_by_halves(database: Database) -> None:
    """While one transaction after another changes every row, adds one to each page and takes it away, a page
    is as it was before or after one of them."""
    rows = [(n, "0") for n in range(0, 3000, 10)]
    database.create("r", "k BIGINT PRIMARY KEY, v VARCHAR(20) NOT NULL", rows)
    reader = reader_of(database)
    directory = reader.directory(100)
    stop = threading.Event()

    def change() -> None:
        engine = sa.create_engine(database.url)
        version = 0
        while not stop.is_set():
            version += 1
            change = (
                "DELETE FROM r WHERE k % 10"
                if version % 2
                else "INSERT INTO r SELECT k + 1, v FROM r WHERE k % 1000 = 0"
            )
            with engine.begin() as connection:
                connection.execute(sa.text(change))
                connection.execute(sa.text(f"UPDATE r SET v = '{version}'"))  # noqa: S608
        engine.dispose()

    changing = threading.Thread(target=change)
    changing.start()
    try:
        seen: set[str] = set()
        rounds, started = 0, time.monotonic()
        while rounds < 60 or (len(seen) <= 5 and taken(started) < 120):
            rounds += 1
            for page in range(len(directory)):
                found = rows_of(reader.pages([directory.range_of(page)]))
                [version] = {v for _, v in found}
                assert len(found) == (100 if int(version) % 2 else 101) or version == "0"
                seen.add(version)
    finally:
        stop.set()
        changing.join()
    assert len(seen) > 5

"""Reads survive, or stop for, a PostgreSQL that breaks, stalls, is full, locks or alters the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import sqlalchemy as sa

from endmark.errors import ConfigError
from support.postgresql import PostgreSql
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
from support.relations import Database


@pytest.fixture(scope="module")
def server() -> Iterator[PostgreSql]:
    with PostgreSql() as running:
        yield running


@pytest.fixture
def database(server: PostgreSql) -> Database:
    made = Database(server.url)
    made.run("DROP TABLE IF EXISTS moved")
    made.create("r", "k BIGINT PRIMARY KEY, v VARCHAR(20) NOT NULL", ROWS)
    return made


def test_one_that_comes_back_costs_time_only(server: PostgreSql, database: Database) -> None:
    survive_a_restart(server, database)


def test_one_that_stalls(server: PostgreSql, database: Database) -> None:
    """Its processes hold their connections open; they are waited for as one that is away, and no longer."""
    patient, impatient = reader_of(database), reader_of(database, retry="4s")
    assert read(patient) == ROWS
    assert server.pid is not None
    pid = server.pid
    stall(pid)
    try:
        found = seconds_to_give_up(impatient, 6)
    finally:
        resumed = later(4, lambda: resume(pid))
        with resumed:
            assert read(patient) == ROWS
    assert min(found) >= 4
    assert found[-1] < 6, found


def connected(engine: sa.Engine) -> sa.Connection | None:
    """A connection, or none if the server has no more."""
    try:
        return engine.connect()
    except sa.exc.DBAPIError as error:
        if "too many clients" not in str(error):
            raise
        return None


def test_too_many_connections(database: Database) -> None:
    reader = reader_of(database)
    engine = sa.create_engine(database.url, poolclass=sa.NullPool)
    with ExitStack() as held:
        while connection := connected(engine):
            held.enter_context(connection)
        with later(2, held.pop_all().close):
            assert read(reader) == ROWS


def test_a_locked_table(database: Database) -> None:
    wait_out_a_lock(database, "LOCK TABLE r IN ACCESS EXCLUSIVE MODE", lambda other: other.rollback())


ALTERED = [
    ("ALTER TABLE r RENAME TO moved", "no such table", "does not exist"),
    ("ALTER TABLE r DROP COLUMN v", "no column v; there are k", "does not exist"),
    ("ALTER TABLE r ALTER v TYPE VARCHAR(30)", None, "column v was altered while a batch read it"),
]


@pytest.mark.parametrize(("statement", "between", "within"), ALTERED)
def test_an_altered_table(database: Database, statement: str, between: str | None, within: str) -> None:
    """A table that no longer fits stops the next batch. One that is altered in the middle of a batch stops
    that batch."""
    reader = reader_of(database)
    directory = reader.directory(100)

    def batch() -> None:
        with reader.batch():
            reader.pages([directory.range_of(0)])
            database.run(statement)
            reader.pages([directory.range_of(1)])

    with pytest.raises(ConfigError, match=f"relation 'r'.*{within}"):
        batch()
    if between is None:
        with reader.batch():
            assert read(reader) == ROWS
    else:
        with pytest.raises(ConfigError, match=f"relation 'r'.*{between}"), reader.batch():
            raise AssertionError("the batch began")

"""A page is read although the way to the database is slow, or breaks in the middle of it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from endmark.embedded.mariadb import MariaDb
from endmark.relation.sql import SqlRelation
from support.relations import Database, rows_of
from support.wire import Wire

ROWS = [(n, f"v{n} " + "x" * 990) for n in range(300)]  # 300 kB
MIDDLE = 150_000


@pytest.fixture
def wire(mariadb: MariaDb) -> Iterator[Wire]:
    made = Database(mariadb.url)
    made.create("far", "k BIGINT PRIMARY KEY, v VARCHAR(1000) NOT NULL", ROWS)
    with Wire(sa.make_url(mariadb.url).port or 0) as running:
        yield running
    made.run("DROP TABLE far")


@pytest.fixture
def reader(wire: Wire, mariadb: MariaDb) -> SqlRelation:
    url = sa.make_url(mariadb.url).set(port=wire.port)
    there = Database(url.render_as_string(hide_password=False))
    return there.reader("far", "k", retry="10s", k="long", v="string")


def test_a_page_that_breaks_in_the_middle_is_read_again(reader: SqlRelation, wire: Wire) -> None:
    """From its beginning, by another connection; what came of it before is not used."""
    directory = reader.directory(300)
    before = wire.connections
    wire.breaks_after = MIDDLE
    assert rows_of(reader.pages([directory.range_of(0)])) == ROWS
    assert wire.breaks_after is None
    assert wire.connections == before + 1


def test_a_slow_page_is_waited_for(reader: SqlRelation, wire: Wire) -> None:
    """Longer than a statement may take, as long as something of it comes."""
    directory = reader.directory(300)
    before = wire.connections
    wire.pause = 0.05
    started = time.monotonic()
    assert rows_of(reader.pages([directory.range_of(0)])) == ROWS
    assert time.monotonic() - started > 3
    assert wire.connections == before

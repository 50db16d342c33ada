"""What a server sends, read as columns of text: the same as PyMySQL reads, of any length."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from pymysql import converters

from endmark.embedded.mariadb import MariaDb
from endmark.relation import connection, text_rows
from endmark.relation.text_rows import TextRows
from support.cases import cases

# Around each change of how a length is written, and beyond what is received at once.
LENGTHS = [0, 1, 249, 250, 251, 252, 255, 256, 65_535, 65_536, 300_000]
FIELDS = st.one_of(st.none(), st.tuples(st.sampled_from("aé\U0001f600\\'"), st.sampled_from(LENGTHS)))


# The numbers from 0, in the SQL of both servers.
NUMBERS = "WITH RECURSIVE n AS (SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM n WHERE seq < 50000) SELECT"


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> MariaDb:
    running: MariaDb = request.getfixturevalue(request.param)
    return running


@pytest.fixture(scope="module")
def connected(server: MariaDb) -> Iterator[sa.Connection]:
    with connection.engine(server.url, 60).connect() as connected:
        maria = getattr(connected.dialect, "is_mariadb")  # noqa: B009
        deepest = "max_recursive_iterations" if maria else "cte_max_recursion_depth"
        connected.execute(sa.text(f"SET {deepest} = 50001"))
        yield connected


def texts(connected: sa.Connection, statement: str, *values: object) -> list[tuple[str | None, ...]]:
    rows = connection.fetch_rows(connected, statement, values)
    assert isinstance(rows, TextRows)
    columns = [column.to_pylist() for column in rows.columns()]
    assert all(len(column) == len(rows) for column in columns)
    return list(zip(*columns, strict=True))


@cases(13)
@given(rows=st.lists(st.tuples(FIELDS, FIELDS, FIELDS), max_size=4))
def test_fields_of_any_length(
    connected: sa.Connection, rows: list[tuple[tuple[str, int] | None, ...]]
) -> None:
    expected = [tuple(field and field[0] * field[1] for field in row) for row in rows]
    selects = " UNION ALL ".join(["SELECT %s AS a, %s AS b, %s AS c"] * len(rows)) or "SELECT 1, 2, 3 LIMIT 0"
    values = [value for row in expected for value in row]
    assert texts(connected, selects, *values) == expected
    assert connection.fetch(connected, selects, values) == expected


def test_many_rows(connected: sa.Connection) -> None:
    """More than are received at once, with parts of rows at the ends of what is."""
    found = texts(connected, f"{NUMBERS} seq, repeat('x', seq %% 300), NULL FROM n")
    assert found == [(str(n), "x" * (n % 300), None) for n in range(50_001)]


def test_numbers_are_spelt_without_pymysqls_search(
    connected: sa.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search looks each number up by its type, and has changed the name of the way there before."""
    asked: list[object] = []

    def search(value: object, *_: object, **__: object) -> str:
        asked.append(value)
        return "NULL"

    monkeypatch.setattr(converters, "escape_item", search)
    assert texts(connected, "SELECT %s, %s, %s", -3, 1 << 62, None) == [("-3", str(1 << 62), None)]
    assert asked == [None]


def test_an_error_behind_rows(connected: sa.Connection) -> None:
    """It is raised as the server says it, and the connection goes on."""
    broken = f"{NUMBERS} seq, IF(seq = 40000, (SELECT 1 UNION SELECT 2), 1) FROM n"  # noqa: S608
    with pytest.raises(sa.exc.DBAPIError, match="more than 1 row"):
        connection.fetch_rows(connected, broken, ())
    assert texts(connected, "SELECT 'on'") == [("on",)]


def test_a_row_too_large_for_a_packet(server: MariaDb) -> None:
    """Where PyMySQL joins packets, this gives up and says why; what is still on its way is not read as if it
    were the answer to the next statement."""
    engine = connection.engine(server.url, 60)
    with engine.connect() as connected, pytest.raises(sa.exc.DBAPIError, match="a row has more than 16 MB"):
        connection.fetch_rows(connected, "SELECT repeat('x', 16777210), repeat('y', 100)", ())
    with engine.connect() as connected, pytest.raises(sa.exc.DBAPIError) as closed:
        connection.fetch(connected, "SELECT 'on'", ())
    assert closed.value.connection_invalidated
    with engine.connect() as connected:
        assert texts(connected, "SELECT 'on'") == [("on",)]


def test_other_statements_are_as_ever(connected: sa.Connection) -> None:
    """Only statements that ask for text get it, even on the same connection."""
    assert texts(connected, "SELECT 1") == [("1",)]
    assert connection.fetch(connected, "SELECT 1", ()) == [(1,)]
    assert connected.execute(sa.text("SELECT 2")).scalar() == 2
    assert text_rows.TextConnection.as_text is False

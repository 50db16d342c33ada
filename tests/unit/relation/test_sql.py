"""R read by page, by key and whole, from real databases: each row once, whatever its key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError
from endmark.relation import connection, sql
from endmark.relation.sql import SqlRelation
from support.cases import cases
from support.mysql import WITH_TEXT_KEYS
from support.postgresql import PostgreSql
from support.relations import Database, batch_of, rows_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ENDS = [datetime(1, 1, 1, 0, 0, 0, 1, UTC), datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC)]
LAST = datetime.max.replace(tzinfo=UTC)
# Keys that a database could take for one another, for a number, or for SQL.
HOSTILE = [
    *(
        "a",
        "A",
        "ä",
        "a ",
        "a  ",
        " a",
        "",
        " ",
        "a\t",
        "a\0",
        "\0",
        "\x01",
        "a\x01",
        "ß",
        "ss",
        "é",
        "e\u0301",
    ),
    *("\\", "\\'", "'", '"', "''", "%s", "%(k)s", "?", ":k", "`", "--", "/*", "%", "_", "\r\n", "\x1a"),
    *("; DROP TABLE hostile", "' OR '1'='1", "0", "00", "0abc", "-0", "1e0", "NULL"),
    *("\u0301", "\u200b", "\ud7ff", "\ufffe", "\U0001f600", "\U0010ffff"),
]


IN_POSTGRESQL = {
    "BIGINT UNSIGNED": "NUMERIC(20,0)",
    "INT UNSIGNED": "BIGINT",
    "DATETIME(6)": "TIMESTAMP(6)",
    "TIMESTAMP(6) NOT NULL": "TIMESTAMP(6) WITH TIME ZONE",
}


@pytest.fixture(scope="module", params=["sqlite", "mariadb", "mysql", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return made(request, tmp_path_factory)


@pytest.fixture(scope="module", params=["sqlite", *WITH_TEXT_KEYS, "postgresql"])
def with_text_keys(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    return made(request, tmp_path_factory)


def made(request: pytest.FixtureRequest, directories: pytest.TempPathFactory) -> Database:
    if request.param == "sqlite":
        return Database(f"sqlite:///{directories.mktemp('relation') / 'r.db'}")
    server: MariaDb | PostgreSql = request.getfixturevalue(request.param)
    return Database(server.url)


def decimals(texts: str) -> list[Decimal]:
    return [Decimal(text) for text in texts.split()]


@contextmanager
def at_once(count: int, in_columns: bool) -> Iterator[None]:
    """So few ranges and keys in one statement, and rows of keys in columns or as the driver's own."""
    few = patch.object(sql, "FEW_KEYS", 0 if in_columns else sql.FEW_KEYS)
    with few, patch.multiple(sql, RANGES_AT_ONCE=count, KEYS_AT_ONCE=count, FEWER_KEYS_AT_ONCE=count):
        yield


def pages(reader: SqlRelation, page_rows: int) -> list[list[tuple[Any, ...]]]:
    directory = reader.directory(page_rows)
    return [rows_of(reader.pages([directory.range_of(page)])) for page in range(len(directory))]


def test_hostile_keys(with_text_keys: Database) -> None:
    """Each key finds its own row and no other; the directory sends it to the page that has it."""
    there = HOSTILE[::2]
    if with_text_keys.backend == "postgresql":  # which holds no NUL, but may be asked for one
        there = [key for key in there if "\0" not in key]
    with_text_keys.create(
        "hostile",
        f"k {with_text_keys.exact} PRIMARY KEY, n INTEGER",
        [(key, n) for n, key in enumerate(there)],
    )
    reader = with_text_keys.reader("hostile", "k", k="string", n="long")
    reader.check()

    for key in HOSTILE:
        found = rows_of(reader.read_keys(batch_of(reader, [(key,)])))
        assert found == ([(key, there.index(key))] if key in there else [])
    together = rows_of(reader.read_keys(batch_of(reader, [(key,) for key in HOSTILE])))
    assert Counter(key for key, _ in together) == Counter(there)
    read, directory = pages(reader, 4), reader.directory(4)
    assert [key for page in read for key, _ in page] == sorted(there, key=str.encode)
    numbers = directory.page_of(batch_of(reader, [(key,) for key in there]))
    assert all(key in dict(read[number]) for key, number in zip(there, numbers, strict=True))


@pytest.mark.parametrize(("kind", "beyond"), [("SMALLINT", 1 << 15), ("INTEGER", 1 << 31)])
def test_numbers_beyond_the_column(database: Database, kind: str, beyond: int) -> None:
    """A stream may have any number as a key; PostgreSQL refuses to compare it with a narrower column."""
    database.create("narrow", f"k {kind} PRIMARY KEY", [(-beyond,), (1,), (beyond - 1,)])
    reader = database.reader("narrow", "k", k="long")
    keys = [-(1 << 63), -beyond - 1, -beyond, 1, beyond - 1, beyond, (1 << 63) - 1]

    found = rows_of(reader.read_keys(batch_of(reader, [(key,) for key in keys])))

    assert sorted(found) == [(-beyond,), (1,), (beyond - 1,)]


def test_texts_longer_than_the_column(with_text_keys: Database) -> None:
    """MySQL and MariaDB end the connection if a statement has 16 MB."""
    with_text_keys.create("short", f"k {with_text_keys.exact} PRIMARY KEY", [("a",), ("ä" * 60,)])
    reader = with_text_keys.reader("short", "k", k="string")
    keys = ["a", "ä" * 60, *(chr(ord("b") + number) * 1_000_000 for number in range(20))]

    found = rows_of(reader.read_keys(batch_of(reader, [(key,) for key in keys])))

    assert sorted(found) == [("a",), ("ä" * 60,)]


@pytest.mark.parametrize("where", WITH_TEXT_KEYS)
def test_texts_whose_backslashes_do_not_escape(request: pytest.FixtureRequest, where: str) -> None:
    """A session that knows no backslash is asked in its own spelling."""
    database = Database(request.getfixturevalue(where).url)
    database.create("plain", f"k {database.exact} PRIMARY KEY", [(key,) for key in HOSTILE])
    reader = Database(database.url + "?sql_mode=NO_BACKSLASH_ESCAPES").reader("plain", "k", k="string")

    found = rows_of(reader.read_keys(batch_of(reader, [(key,) for key in HOSTILE])))

    assert Counter(found) == Counter((key,) for key in HOSTILE)


@pytest.mark.parametrize(
    ("kind", "in_mysql", "in_sqlite", "keys"),
    [
        ("long", "BIGINT", "INTEGER", [-(2**63), -1, 0, 2**63 - 1]),
        ("long", "INT UNSIGNED", "INT", [0, 2**32 - 1]),
        ("boolean", "BOOLEAN", "BOOLEAN", [False, True]),
        ("date", "DATE", "DATE", [date(1, 1, 1), date(1969, 12, 31), date(2026, 1, 31), date(9999, 12, 31)]),
        ("timestamp", "DATETIME(6)", "DATETIME", [*ENDS, NOON, NOON + timedelta(microseconds=1), LAST]),
        ("timestamp", "TIMESTAMP(6) NOT NULL", "TEXT", [NOON, NOON + timedelta(microseconds=1)]),
        ("decimal(9,2)", "DECIMAL(9,2)", "DECIMAL(9,2)", decimals("-7.10 0.10 3.00")),
        ("decimal(20,0)", "BIGINT UNSIGNED", None, decimals(f"0 7 {2**63} {2**64 - 1}")),
        ("decimal(20,3)", "DECIMAL(19,3)", None, decimals("1234567890123456.001 1234567890123456.002")),
    ],
)
def test_keys_of_every_type(
    database: Database, kind: str, in_mysql: str, in_sqlite: str | None, keys: list[Any]
) -> None:
    """A key of any type but double is found by its value, on its page, and nothing else is."""
    in_postgresql = IN_POSTGRESQL.get(in_mysql, in_mysql)
    spelt = {"sqlite": in_sqlite, "mysql": in_mysql, "postgresql": in_postgresql}[database.backend]
    if spelt is None:
        return
    stored: list[Any] = list(keys)
    if kind == "timestamp":
        zone = "+00" if database.backend == "postgresql" else ""
        stored = [f"{key.replace(tzinfo=None).isoformat(' ', 'microseconds')}{zone}" for key in keys]
    elif database.is_sqlite:
        stored = [
            float(key) if isinstance(key, Decimal) else str(key) if isinstance(key, date) else key
            for key in keys
        ]
    database.create("typed", f"k {spelt} PRIMARY KEY, n INTEGER", [(key, n) for n, key in enumerate(stored)])
    reader = database.reader("typed", "k", k=kind, n="long")
    reader.check()

    assert pages(reader, 1) == [[(key, n)] for n, key in enumerate(keys)]
    for in_columns in (False, True):
        with at_once(1, in_columns):
            found = [rows_of(reader.read_keys(batch_of(reader, [(key,)]))) for key in keys]
        assert found == [[(key, n)] for n, key in enumerate(keys)]
    assert list(reader.directory(1).page_of(batch_of(reader, [(key,) for key in keys]))) == list(
        range(len(keys))
    )


KEYS = st.tuples(st.integers(-1, 2), st.sampled_from(["", "a", "A", "a ", "b"]))


@cases(18)
@given(
    rows=st.lists(KEYS, max_size=14),
    asked=st.sets(KEYS, max_size=6),
    page_rows=st.integers(1, 4),
    several=st.integers(1, 3),
    in_columns=st.booleans(),
)
def test_composite_keys(
    with_text_keys: Database,
    rows: list[tuple[int, str]],
    asked: set[tuple[int, str]],
    page_rows: int,
    several: int,
    in_columns: bool,
) -> None:
    """Pages share out all rows and part no key, and keys find all their rows; whatever the number of keys and
    ranges that go into one statement."""
    with_text_keys.create(
        "composite",
        f"a BIGINT, b {with_text_keys.exact}, n INTEGER",
        [(*key, n) for n, key in enumerate(rows)],
    )
    with_text_keys.run("CREATE INDEX composite_key ON composite (a, b)")
    reader = with_text_keys.reader("composite", ["a", "b"], a="long", b="string", n="long")
    there = sorted((*key, n) for n, key in enumerate(rows))

    with at_once(several, in_columns):
        directory = reader.directory(page_rows)
        read = pages(reader, page_rows)
        together = rows_of(reader.pages([directory.range_of(page) for page in range(len(directory))]))
        assert sorted(row for page in read for row in page) == there
        assert sorted(together) == there
        assert [row[:2] for row in together] == [row[:2] for row in there]
        assert all(len(page) <= page_rows or len({row[:2] for row in page}) == 1 for page in read)
        numbers = directory.page_of(batch_of(reader, sorted({row[:2] for row in there})))
        for number, key in zip(numbers, sorted({row[:2] for row in there}), strict=True):
            assert {row for row in there if row[:2] == key} <= set(read[number])
        found = rows_of(reader.read_keys(batch_of(reader, sorted(asked)))) if asked else []
        assert sorted(found) == [row for row in there if row[:2] in asked]


def test_rows_without_a_key_are_not_read(database: Database) -> None:
    """Null equals nothing, so such a row can have no match and is not on a page."""
    database.create(
        "nulls", "a BIGINT, b BIGINT, n BIGINT", [(None, None, 1), (1, None, 2), (None, 1, 3), (1, 1, 4)]
    )
    database.run("CREATE INDEX nulls_key ON nulls (a, b)")
    reader = database.reader("nulls", ["a", "b"], a="long", b="long", n="long")
    reader.check()

    assert pages(reader, 1) == [[(1, 1, 4)]]
    assert rows_of(reader.pages([(None, (1, 1)), ((1, 1), None)])) == [(1, 1, 4)]


def test_empty_relation(database: Database) -> None:
    """One page that proves every key absent."""
    database.create("empty", "k BIGINT PRIMARY KEY")
    reader = database.reader("empty", "k", k="long")

    assert pages(reader, 3) == [[]]
    assert reader.read_keys(batch_of(reader, [(1,)])).schema == reader.schema


def test_reads_use_the_index(with_text_keys: Database) -> None:
    """No read of pages or keys looks through the whole table or sorts it."""
    rows = [(n % 50, f"k{n:04}", n) for n in range(2000)]
    with_text_keys.create(
        "indexed", f"a BIGINT NOT NULL, b {with_text_keys.exact} NOT NULL, n BIGINT, PRIMARY KEY (a, b)", rows
    )
    if with_text_keys.backend == "postgresql":
        with_text_keys.run("ANALYZE indexed")  # as it does itself, a little later
    reader = with_text_keys.reader("indexed", ["a", "b"], a="long", b="string", n="long")
    reader.check()
    asked: list[str] = []
    fetch = connection.fetch

    def explained(connected: Any, statement: str, values: Any) -> Any:
        prefix = "EXPLAIN QUERY PLAN " if with_text_keys.is_sqlite else "EXPLAIN "
        asked.append(str(fetch(connected, prefix + statement, values)))
        return fetch(connected, statement, values)

    directory = reader.directory(100)
    with patch.object(connection, "fetch", explained):
        assert reader.pages([directory.range_of(3)]).num_rows == 100
        apart = rows_of(reader.pages([directory.range_of(number) for number in (2, 5, 11, 19)]))
        assert len(apart) == 400
        assert apart == sorted(apart)
        assert reader.read_keys(batch_of(reader, [(1, "k0001"), (2, "k0002"), (3, "x")])).num_rows == 2
        assert next(iter(reader.directory(100).range_of(1))) == directory.range_of(1)[0]
    whole = {"sqlite": "SCAN", "mysql": "'ALL'", "postgresql": "Seq Scan"}[with_text_keys.backend]
    assert len(asked) > 20
    del asked[3]  # the first key, for which SQLite says SCAN and stops at once
    assert not [plan for plan in asked if whole in plan or "'filesort'" in plan]


def test_names_that_a_database_reserves(database: Database) -> None:
    """Names are quoted, those that MySQL reserves since 9.2 included."""
    key, *others = map(database.quoted, ("group", "library", "external"))
    columns = f"{key} BIGINT PRIMARY KEY, " + ", ".join(f"{name} BIGINT" for name in others)
    database.create("order", columns, [(1, 2, 3), (4, 5, 6)])
    reader = database.reader("order", "group", group="long", library="long", external="long")
    reader.check()

    assert pages(reader, 1) == [[(1, 2, 3)], [(4, 5, 6)]]
    assert rows_of(reader.read_keys(batch_of(reader, [(4,)]))) == [(4, 5, 6)]


def test_a_value_that_is_not_as_declared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """SQLite lets any value into any column; the reader names the column."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('odd') / 'r.db'}")
    database.create("odd", "k INTEGER PRIMARY KEY, n INTEGER", [(1, 2), (2, "many")])
    reader = database.reader("odd", "k", k="long", n="long")

    with pytest.raises(ConfigError, match=r"relation 'odd': column 'n': .*many.*mend the row"):
        reader.pages([(None, None)])


@pytest.mark.parametrize("in_columns", [True, False])
@pytest.mark.parametrize("where", ["mariadb", "mysql"])
def test_columns_of_chosen_texts_and_years(
    request: pytest.FixtureRequest, where: str, in_columns: bool
) -> None:
    """Columns beside the key may have types by which the database cannot look for keys."""
    server = Database(request.getfixturevalue(where).url)
    columns = "state ENUM('new', 'it''s (done)'), tags SET('a', 'b', 'c'), made YEAR, more JSON"
    server.create(
        "chosen",
        f"k BIGINT PRIMARY KEY, {columns}",
        [(1, "it's (done)", "c,a", 2026, '{"a": [1, "é"]}'), (2, "new", "", 0, "null"), (3, *[None] * 4)],
    )
    reader = server.reader("chosen", "k", k="long", state="string", tags="string", made="long", more="string")
    reader.check()

    with at_once(2, in_columns):
        read = rows_of(reader.read_keys(batch_of(reader, [(1,), (2,), (3,)])))
    there = [(1, "it's (done)", "a,c", 2026, '{"a": [1, "é"]}'), (2, "new", "", 0, "null"), (3, *[None] * 4)]
    assert read == there
    assert rows_of(reader.pages([(None, None)])) == there

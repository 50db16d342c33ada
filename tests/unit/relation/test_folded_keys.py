"""Text keys of MySQL and MariaDB under any collation: the database finds candidates, and bytes decide."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.errors import ConfigError
from endmark.relation import connection, sql
from support.cases import cases
from support.relations import Database, batch_of, rows_of

# Keys that differ only in case, accents, or blanks at the end, for most collations.
ALIKE = [
    "a",
    "A",
    "ä",
    "Ä",
    "á",
    "a ",
    "A  ",
    "",
    " ",
    "b",
    "ß",
    "ss",
    "\u00e9",
    "e\u0301",
    "a\0",
    "\U0001f600",
    "\U0001f601",
]
CODECS = {"utf8mb4": "utf-8", "latin1": "cp1252", "ascii": "ascii", "utf8": "utf-8"}
COLLATIONS = [
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_bin",
    "utf8_general_ci",
    "latin1_swedish_ci",
    "latin1_bin",
    "ascii_general_ci",
]


@pytest.fixture(scope="module", params=["mariadb", "mysql"])
def database(request: pytest.FixtureRequest) -> Database:
    return Database(request.getfixturevalue(request.param).url)


def charset(collation: str) -> str:
    return collation.partition("_")[0]


def can_have(collation: str, text: str) -> bool:
    try:
        text.encode(CODECS[charset(collation)])
    except UnicodeEncodeError:
        return False
    return charset(collation) != "utf8" or max(map(ord, text), default=0) < 0x10000


def create(database: Database, collation: str, key: str, *columns: str, rows: Any) -> None:
    spelt = f"b VARCHAR(60) CHARACTER SET {charset(collation)} COLLATE {collation}"
    database.create("folded", ", ".join([*columns, spelt, "n BIGINT"]), rows)
    database.run(f"CREATE INDEX folded_key ON folded ({key})")


@pytest.mark.parametrize("collation", COLLATIONS)
def test_keys_that_are_alike(database: Database, collation: str) -> None:
    """A key finds its own rows, which are two, and no row of a key that the database takes for equal."""
    there = [key for key in ALIKE if can_have(collation, key)]
    create(database, collation, "b", rows=[(key, n) for n, key in enumerate(there + there)])
    reader = database.reader("folded", "b", b="string", n="long")
    reader.check(unique=False)

    # MariaDB makes a table of a list of 1,000 values or more, and joins it.
    long = [*ALIKE, *(f"absent {n}" for n in range(1100))]
    for asked in [*([key] for key in ALIKE), ALIKE, long]:
        found = reader.read_keys(batch_of(reader, [(key,) for key in asked]))
        expected = [key for key in there if key in asked for _ in range(2)]
        assert Counter(found.column("b").to_pylist()) == Counter(expected)


KEYS = st.tuples(st.integers(0, 1), st.sampled_from(["", " ", "a", "A", "á", "a ", "b", "B"]))


@cases(6)
@given(
    rows=st.lists(KEYS, max_size=14), asked=st.sets(KEYS, min_size=1, max_size=8), several=st.integers(1, 3)
)
def test_composite_keys(
    database: Database, rows: list[tuple[int, str]], asked: set[tuple[int, str]], several: int
) -> None:
    """Keys that are alike get their own rows once, also if they are in different statements of one read."""
    there = [(*key, n) for n, key in enumerate(rows)]
    create(database, "utf8mb4_general_ci", "a, b", "a BIGINT", rows=there)
    reader = database.reader("folded", ["a", "b"], a="long", b="string", n="long")
    with patch.object(sql, "FEWER_KEYS_AT_ONCE", several):
        found = rows_of(reader.read_keys(batch_of(reader, sorted(asked))))
    assert sorted(found) == sorted(row for row in there if row[:2] in asked)


@pytest.mark.parametrize("collation", ["latin1_swedish_ci", "utf8_general_ci"])
def test_no_text_is_refused_by_the_server(database: Database, collation: str) -> None:
    """Each character of the set is found, and each other one is absent without being asked for."""
    every = [chr(code) for code in [*range(0xD800), *range(0xE000, 0x10100)]]
    # Windows leaves five places of its code page empty, and MySQL keeps them.
    also = "\x81\x8d\x8f\x90\x9d" if charset(collation) == "latin1" else ""
    there = [each for each in every if can_have(collation, each) or each in also]
    create(database, collation, "b", rows=[(each, ord(each)) for each in there])
    reader = database.reader("folded", "b", b="string", n="long")
    found = reader.read_keys(batch_of(reader, [(each,) for each in every]))
    assert sorted(rows_of(found)) == [(each, ord(each)) for each in there]


def test_keys_that_repeat_by_their_bytes(database: Database) -> None:
    """Keys that only the database takes for equal do not repeat; of those that do, the rows are counted."""
    rows = [("a", 1), ("A", 2), ("a ", 3), ("b", 4), ("á", 5)]
    create(database, "utf8mb4_general_ci", "b", rows=rows)
    reader = database.reader("folded", "b", b="string", n="long")
    reader.check()
    database.run("INSERT INTO folded VALUES ('b', 5), ('B', 6)")
    with pytest.raises(ConfigError, match="key b='b' occurs 2 times"):
        reader.check()


def test_lists_of_keys_use_the_index(database: Database) -> None:
    """Neither a short nor a long list walks through the table, whatever its character set."""
    for collation in ("utf8mb4_general_ci", "latin1_swedish_ci"):
        create(database, collation, "b", rows=[(f"k{n}", n) for n in range(9000)])
        database.run("ANALYZE TABLE folded")
        reader = database.reader("folded", "b", b="string", n="long")
        plans: list[Any] = []
        fetch, fetch_rows = connection.fetch, connection.fetch_rows

        def explained(connected: Any, statement: str, values: Any, through: Any = fetch_rows) -> Any:
            plans.append(fetch(connected, "EXPLAIN " + statement, values))  # noqa: B023
            return through(connected, statement, values)

        with patch.object(connection, "fetch_rows", explained):
            for count in (100, 1024):
                asked = [(f"K{n}",) for n in range(count // 2)] + [(f"k{n}",) for n in range(count // 2)]
                found = reader.read_keys(batch_of(reader, asked))
                assert found.num_rows == count // 2
        assert len(plans) == 2
        assert not [row for plan in plans for row in plan if "folded" in row and "ALL" in row]

"""A table that could change a value, or in which no index finds a key, is refused with what mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError
from support.mysql import WITH_TEXT_KEYS
from support.postgresql import PostgreSql
from support.relations import Database

KEY = "k BIGINT PRIMARY KEY"
CHANGES = r"relation 'unfit': column 'v' is .* could not hold .* make it [A-Z]"


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path / 'r.db'}")


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> Database:
    running: MariaDb = request.getfixturevalue(request.param)
    return Database(running.url)


@pytest.mark.parametrize(
    ("spelt", "kind"),
    [
        ("BIGINT UNSIGNED", "long"),
        ("VARCHAR(20)", "long"),
        ("DECIMAL(20,0)", "long"),
        ("DOUBLE", "long"),
        ("YEAR", "date"),
        ("ENUM('1')", "long"),
        ("FLOAT", "double"),
        ("DECIMAL(9,2)", "double"),
        ("BIGINT", "double"),
        ("BIGINT", "string"),
        ("VARBINARY(20)", "string"),
        ("BLOB", "string"),
        ("TINYINT", "boolean"),
        ("BIT(1)", "boolean"),
        ("DATETIME", "date"),
        ("VARCHAR(20)", "date"),
        ("DATE", "timestamp"),
        ("TIME", "timestamp"),
        ("DECIMAL(9,3)", "decimal(9,2)"),
        ("DECIMAL(10,2)", "decimal(9,2)"),
        ("DOUBLE", "decimal(9,2)"),
        ("BIGINT UNSIGNED", "decimal(20,1)"),
    ],
)
def test_types_of_a_server_that_could_change_a_value(server: Database, spelt: str, kind: str) -> None:
    """The message names the column, both types and the type that would do."""
    server.create("unfit", f"{KEY}, v {spelt}")
    with pytest.raises(ConfigError, match=CHANGES):
        server.reader("unfit", "k", k="long", v=kind).check()


@pytest.mark.parametrize(
    ("spelt", "advice"),
    [
        ("BIGINT UNSIGNED", r"declare it decimal\(20,0\), or make it BIGINT"),
        ("VARCHAR(20)", "declare it as it is, or make it BIGINT"),
        ("ENUM('a', 'b c (d)')", "declare it as it is, or make it BIGINT"),
        ("FLOAT", "unchanged; make it BIGINT"),
        ("DECIMAL(65,30)", "unchanged; make it BIGINT"),
    ],
)
def test_advice_can_be_followed(server: Database, spelt: str, advice: str) -> None:
    """A column is to be declared as it is only if some type can hold it."""
    server.create("unfit", f"{KEY}, v {spelt}")
    with pytest.raises(ConfigError, match=advice):
        server.reader("unfit", "k", k="long", v="long").check()


@pytest.mark.parametrize(
    ("spelt", "kind", "instead"),
    [
        ("ENUM('b', 'a')", "string", "VARCHAR"),
        ("SET('b', 'a')", "string", "VARCHAR"),
        ("YEAR", "long", "BIGINT"),
    ],
)
def test_columns_that_no_key_has(server: Database, spelt: str, kind: str, instead: str) -> None:
    """The database finds 2005 by the year 5, and b before a in an index of this ENUM."""
    server.create("unfit", f"k {spelt} PRIMARY KEY")
    with pytest.raises(
        ConfigError, match=rf"column 'k' of the key is .*; make it {instead}.*, or name another"
    ):
        server.reader("unfit", "k", k=kind).check()


@pytest.mark.parametrize(
    ("spelt", "kind"),
    [
        ("TEXT", "long"),
        ("", "string"),
        ("STRING", "string"),  # a number, by SQLite's rules
        ("CHARINT", "string"),  # and so is this
        ("INTEGER", "double"),
        ("INTEGER", "date"),
        ("REAL", "timestamp"),
        ("TEXT", "decimal(9,2)"),
        ("DECIMAL(16,2)", "decimal(16,2)"),
    ],
)
def test_types_of_sqlite_that_could_change_a_value(sqlite: Database, spelt: str, kind: str) -> None:
    """SQLite makes other values of what is put into a column, by the letters of its type."""
    sqlite.create("unfit", f"k INTEGER PRIMARY KEY, v {spelt}")
    with pytest.raises(ConfigError, match=CHANGES):
        sqlite.reader("unfit", "k", k="long", v=kind).check()


@pytest.mark.parametrize(
    ("where", "collation"),
    [
        *[(where, name) for where in ("mariadb", "mysql") for name in ("utf8mb4_general_ci", "utf8mb4_bin")],
        ("mariadb", "latin1_bin"),
        ("mariadb", "utf8mb4_general_nopad_ci"),
        ("mysql", "utf8mb4_0900_as_cs"),
    ],
)
def test_collations_whose_order_is_not_known(
    request: pytest.FixtureRequest, where: str, collation: str
) -> None:
    """Tables with such keys have no pages. The statement in the message brings them back where it can run."""
    server = Database(request.getfixturevalue(where).url)
    characters = collation.partition("_")[0]
    server.create(
        "folded", f"k VARCHAR(20) CHARACTER SET {characters} COLLATE {collation} PRIMARY KEY", [("a",)]
    )
    reader = server.reader("folded", "k", k="string")
    reader.check()
    unpaged = reader.directory(1).unpaged or ""
    assert f"column 'k' by {collation}" in unpaged
    with pytest.raises(ConfigError, match="lists of keys alone"):
        reader.pages([(None, None)])

    if server.exact:
        server.run(unpaged.split("; ")[1].removesuffix(" brings pages back"))
        reader.check()
        assert reader.directory(1).unpaged is None
        assert reader.pages([(None, None)]).num_rows == 1


def test_character_sets_that_are_not_known(server: Database) -> None:
    """The message names the sets that a key may have, and the statement that mends the column."""
    server.create("cyrillic", "k VARCHAR(20) CHARACTER SET cp1251 PRIMARY KEY")
    reader = server.reader("cyrillic", "k", k="string")
    with pytest.raises(ConfigError, match=r"'k' has the character set cp1251.*utf8mb4, .*; ALTER") as found:
        reader.check()

    if server.exact:
        server.run(str(found.value).split("; ")[-1].removesuffix(" mends it"))
        reader.check()


@pytest.mark.parametrize(
    "columns",
    [
        "k TEXT COLLATE NOCASE PRIMARY KEY",
        "k TEXT COLLATE RTRIM PRIMARY KEY",
        "k TEXT",
        "n BIGINT, k TEXT, UNIQUE(n, k)",
    ],
)
def test_sqlite_needs_an_index_by_bytes(sqlite: Database, columns: str) -> None:
    """A column that folds keys has an index that does, too; the statement in the message mends it."""
    sqlite.create("folded", columns)
    reader = sqlite.reader("folded", "k", k="string")
    with pytest.raises(ConfigError, match=r"no index begins with the key.*; CREATE INDEX") as found:
        reader.check()

    sqlite.run(str(found.value).split("; ")[1].removesuffix(" mends it"))
    reader.check()


@pytest.mark.parametrize(
    "columns", ["k BIGINT", "n BIGINT, k BIGINT, UNIQUE(n, k)", "k BIGINT, KEY(k) USING HASH, n BIGINT"]
)
def test_a_server_needs_an_index_that_begins_with_the_key(server: Database, columns: str) -> None:
    """Every page would be a walk through the whole table without; the statement in the message mends it."""
    engine = " ENGINE=MEMORY" if "HASH" in columns else ""
    server.run("DROP TABLE IF EXISTS walked", f"CREATE TABLE walked ({columns}){engine}")
    reader = server.reader("walked", "k", k="long")
    with pytest.raises(ConfigError, match=r"no index begins with the key.*; CREATE INDEX") as found:
        reader.check()

    if not engine:
        server.run(str(found.value).split("; ")[1].removesuffix(" mends it"))
        reader.check()


@pytest.mark.parametrize("where", WITH_TEXT_KEYS)
def test_the_beginning_of_a_text_is_no_key(request: pytest.FixtureRequest, where: str) -> None:
    """An index by the first letters finds more than a key."""
    server = Database(request.getfixturevalue(where).url)
    server.create("begun", f"k {server.exact}, UNIQUE (k(3))", [("abcd",)])
    with pytest.raises(ConfigError, match="no index begins with the key"):
        server.reader("begun", "k", k="string").check()


@pytest.mark.parametrize(
    ("spelt", "kind"),
    [
        ("NUMERIC", "long"),
        ("TEXT", "long"),
        ("REAL", "double"),
        ("CHAR(9)", "string"),  # blanks at its end come and go
        ("BYTEA", "string"),
        ("INTEGER", "boolean"),
        ("TIMESTAMP", "date"),
        ("TIME", "timestamp"),
        ("NUMERIC", "decimal(9,2)"),
        ("NUMERIC(9,3)", "decimal(9,2)"),
    ],
)
def test_types_of_postgresql_that_could_change_a_value(postgresql: PostgreSql, spelt: str, kind: str) -> None:
    database = Database(postgresql.url)
    database.create("unfit", f"{KEY}, v {spelt}")
    with pytest.raises(ConfigError, match=CHANGES):
        database.reader("unfit", "k", k="long", v=kind).check()


@pytest.mark.parametrize(
    ("columns", "also"),
    [
        ("k TEXT PRIMARY KEY", []),
        ("k TEXT, n BIGINT", ["CREATE INDEX i ON ordered (n, k)"]),
        ("k TEXT, n BIGINT", ['CREATE INDEX i ON ordered (k COLLATE "C") WHERE n > 0']),
        ("k TEXT, n BIGINT", ['CREATE INDEX i ON ordered (lower(k) COLLATE "C")']),
        ("k TEXT, n BIGINT", ["CREATE INDEX i ON ordered (n) INCLUDE (k)"]),
        ("k TEXT, n BIGINT", ["CREATE INDEX i ON ordered USING hash (k)"]),
    ],
)
def test_postgresql_needs_an_index_by_bytes(postgresql: PostgreSql, columns: str, also: list[str]) -> None:
    """Of all rows, in the order in which pages are cut; the statement in the message mends it."""
    database = Database(postgresql.url)
    database.create("ordered", columns)
    database.run(*also)
    reader = database.reader("ordered", "k", k="string")
    with pytest.raises(ConfigError, match=r"no index begins with the key.*; CREATE INDEX") as found:
        reader.check()

    database.run(str(found.value).split("; ")[1].removesuffix(" mends it"))
    reader.check()


@pytest.mark.parametrize("where", ["sqlite", "mariadb", "mysql", "postgresql"])
def test_keys_that_repeat(request: pytest.FixtureRequest, where: str) -> None:
    """Where a lookup has one answer, a key with two is named, unless an index sees to it that none has."""
    there = request.getfixturevalue(where)
    database = there if where == "sqlite" else Database(there.url)
    database.create("repeats", "k INTEGER, n INTEGER, UNIQUE (n, k)", [(1, 1), (1, 2), (2, 3)])
    database.run("CREATE INDEX repeats_key ON repeats (k)")
    reader = database.reader("repeats", "k", k="long")
    with pytest.raises(ConfigError, match=r"relation 'repeats': key k=1 occurs 2 times"):
        reader.check()
    reader.check(unique=False)


def test_rows_without_a_key_do_not_repeat(sqlite: Database) -> None:
    """Null equals nothing, itself included."""
    sqlite.create("nulls", "k INTEGER UNIQUE, n INTEGER", [(None, 1), (None, 2)])
    sqlite.run("CREATE INDEX nulls_both ON nulls (n, k)")
    sqlite.reader("nulls", "k", k="long").check()
    sqlite.reader("nulls", ["n", "k"], k="long", n="long").check()


@pytest.mark.parametrize(
    ("spelt", "kind", "odd"),
    [
        ("DATE", "date", "2026-1-31"),
        ("DATETIME", "timestamp", "2026-01-31 12:00:00"),
        ("DATETIME", "timestamp", "2026-01-31T12:00:00.000000"),
        ("TEXT", "string", b"a"),
        ("INTEGER UNIQUE, v INTEGER", "long", "a"),
        ("DECIMAL(9,2)", "decimal(9,2)", "a"),
    ],
)
def test_sqlite_keys_in_another_spelling(sqlite: Database, spelt: str, kind: str, odd: object) -> None:
    """SQLite compares what it holds, so a key it holds otherwise would never be found."""
    sqlite.create("odd", f"k {spelt}", [(odd, 1) if "v " in spelt else (odd,)])
    sqlite.run("CREATE INDEX odd_key ON odd (k)")
    with pytest.raises(ConfigError, match=r"relation 'odd': key k=.* is stored"):
        sqlite.reader("odd", "k", k=kind).check()


def test_names_are_those_of_the_table(sqlite: Database) -> None:
    """A table or column that is not there is refused before it comes into a statement."""
    sqlite.create("named", "k INTEGER PRIMARY KEY")
    with pytest.raises(ConfigError, match="no such table, only: named; name one of these in `table`"):
        sqlite.reader("other", "k", k="long").check()
    with pytest.raises(ConfigError, match="no column v; there are k; give the table"):
        sqlite.reader("named", "k", k="long", v="long").check()


@pytest.mark.parametrize(
    "url", ["oracle://h/d", "not a url", "mysql+nodriver://h/d", "postgresql+asyncpg://h/d"]
)
def test_urls_that_no_relation_has(url: str) -> None:
    """Another database, no URL at all, or a driver that is not installed."""
    with pytest.raises(Exception, match=r"no known database|no database URL|not known|Python driver asyncpg"):
        Database(url).reader("any", "k", k="long").check()

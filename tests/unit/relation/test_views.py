"""Views as relations: read by lists of keys, if the database finds a key without a walk through a table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from endmark.errors import ConfigError
from support.relations import Database, batch_of, rows_of

JOIN = "SELECT b.id, t.label AS name FROM base b JOIN {} t ON t.tier = b.tier"


@pytest.fixture(params=["sqlite", "mariadb", "mysql", "postgresql"], scope="module")
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Database:
    if request.param == "sqlite":
        return Database(f"sqlite:///{tmp_path_factory.mktemp('views') / 'r.db'}")
    return Database(request.getfixturevalue(request.param).url)


def with_view(database: Database, query: str, rows: int) -> None:
    database.run("DROP VIEW IF EXISTS seen")
    key = "BIGINT NOT NULL PRIMARY KEY"
    people = [(n, n % 3, f"n{n}", n) for n in range(rows)]
    database.create("base", f"id {key}, tier BIGINT, name VARCHAR(20), other BIGINT", people)
    tiers = [(n, f"t{n}") for n in range(3)]
    database.create("tiers", f"tier {key}, label VARCHAR(20)", tiers)
    database.create("loose", "tier BIGINT, label VARCHAR(20)", tiers)
    database.run(f"CREATE VIEW seen AS {query}")


@pytest.mark.parametrize(
    ("query", "prefix", "rows"), [("SELECT id, name FROM base", "n", 700), (JOIN.format("tiers"), "t", 3)]
)
def test_a_view_that_finds_its_keys(database: Database, query: str, prefix: str, rows: int) -> None:
    """It has no pages, whatever its size. Lists of keys find their rows, and prove other keys absent."""
    with_view(database, query, rows)
    reader = database.reader("seen", "id", id="long", name="string")
    reader.check()

    directory = reader.directory(2)
    assert (directory.unpaged or "").startswith("relation 'seen' is a view, which is read by lists of keys")
    assert directory.samples.num_rows == rows
    found = rows_of(reader.read_keys(batch_of(reader, [(n,) for n in range(1000)])))
    assert sorted(found) == [(n, f"n{n}" if prefix == "n" else f"t{n % 3}") for n in range(rows)]
    with pytest.raises(ConfigError, match="is a view"):
        reader.pages([(None, None)])


@pytest.mark.parametrize(
    ("query", "walked", "rows"),
    [("SELECT other AS id, name FROM base", "base", 3), (JOIN.format("loose"), "loose|t", 700)],
)
def test_a_view_that_walks(database: Database, query: str, walked: str, rows: int) -> None:
    """The message has the table as the plan names it, which is its alias in some databases."""
    with_view(database, query, rows)
    reader = database.reader("seen", "id", id="long", name="string")
    with pytest.raises(ConfigError, match=rf"relation 'seen' is a view.* through all of ({walked});"):
        reader.check()
    database.run("CREATE INDEX base_other ON base (other)", "CREATE INDEX loose_tier ON loose (tier)")
    reader.check()


def test_a_view_with_many_rows_of_a_key(database: Database) -> None:
    """A walk through a small table is faster than its index, and no reason to refuse the view."""
    with_view(
        database, "SELECT b.other AS id, t.label AS name FROM base b JOIN tiers t ON t.tier = b.tier", 100
    )
    database.run("UPDATE base SET other = 1", "CREATE INDEX base_other ON base (other)")
    reader = database.reader("seen", "id", id="long", name="string")
    reader.check(unique=False)
    assert reader.read_keys(batch_of(reader, [(1,), (2,)])).num_rows == 100


def test_a_view_that_is_computed_whole(database: Database) -> None:
    """No condition goes into a view with a limit, even if the view's own condition has an index."""
    limited = "SELECT id, name FROM base {} LIMIT 10000"
    with_view(database, limited.format(""), 700)
    reader = database.reader("seen", "id", id="long", name="string")
    with pytest.raises(ConfigError, match="through all of base"):
        reader.check()
    if database.backend == "mysql":
        database.run("CREATE INDEX base_other ON base (other)", "DROP VIEW seen")
        database.run("CREATE VIEW seen AS " + limited.format("WHERE other >= 0"))
        with pytest.raises(ConfigError, match="through all of base"):
            reader.check()


@pytest.mark.parametrize("where", ["sqlite", "mariadb", "postgresql"])
def test_a_union_that_finds_its_keys(request: pytest.FixtureRequest, tmp_path: Path, where: str) -> None:
    """Conditions on the key go into both parts. MySQL 8.0.15 computes them whole, so it is not tried."""
    url = f"sqlite:///{tmp_path / 'r.db'}" if where == "sqlite" else request.getfixturevalue(where).url
    database = Database(url)
    with_view(database, "SELECT id, name FROM base UNION ALL SELECT tier, label FROM tiers", 700)
    reader = database.reader("seen", "id", id="long", name="string")
    reader.check(unique=False)
    found = reader.read_keys(batch_of(reader, [(n,) for n in range(1000)]))
    assert found.num_rows == 700 + 3


def test_text_keys_of_a_view(database: Database) -> None:
    """Each key gets its own rows, under the usual collation, too. PostgreSQL needs an index by bytes."""
    database.run("DROP VIEW IF EXISTS seen")
    rows = [(1, key, n) for n, key in enumerate(["a", "A", "\u00e1", "b"])]
    database.create("texts", "a BIGINT, b VARCHAR(20), n BIGINT", rows)
    by_bytes = ' COLLATE "C"' if database.backend == "postgresql" else ""
    database.run(
        f"CREATE INDEX texts_key ON texts (a, b{by_bytes})", "CREATE VIEW seen AS SELECT a, b, n FROM texts"
    )
    reader = database.reader("seen", ["a", "b"], a="long", b="string", n="long")
    reader.check()
    asked = [(1, "a"), (1, "A "), (1, "\u00e1"), (2, "b")]
    assert sorted(rows_of(reader.read_keys(batch_of(reader, asked)))) == [rows[0], rows[2]]


def test_keys_of_a_view_may_repeat_until_they_are_read(tmp_path: Path) -> None:
    """The database would compute all of the view to count its keys, so no key is counted at the start."""
    database = Database(f"sqlite:///{tmp_path / 'r.db'}")
    database.create("twice", "id BIGINT, name TEXT", [(1, "a"), (1, "b")])
    database.run("CREATE INDEX twice_id ON twice (id)", "CREATE VIEW seen AS SELECT id, name FROM twice")
    database.reader("seen", "id", id="long", name="string").check()


def test_a_missing_table_is_told_with_views(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'r.db'}")
    database.create("base", "id INTEGER PRIMARY KEY")
    database.run("CREATE VIEW seen AS SELECT id FROM base")
    with pytest.raises(ConfigError, match="no such table, only: base, seen"):
        database.reader("sene", "id", id="long").check()


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_a_view_makes_nulls_of_times_that_no_calendar_has(
    server: str, request: pytest.FixtureRequest
) -> None:
    """MariaDB's definition of such a column has a comment behind the type."""
    database = Database(request.getfixturevalue(server).url)
    database.create("dated", "id BIGINT PRIMARY KEY, born DATE, at DATETIME")
    database.run(
        "SET sql_mode = ''",
        "INSERT INTO dated VALUES (1, '0000-00-00', '0000-00-00'), (2, '2026-01-31', '2026-01-31 12:00:00')",
        "CREATE OR REPLACE VIEW seen AS SELECT id, CASE WHEN born > '0000-00-00' THEN born END AS born, "
        "CASE WHEN at > '0000-00-00 00:00:00' THEN at END AS at FROM dated",
    )
    reader = database.reader("seen", "id", id="long", born="date", at="timestamp")

    reader.check()

    found = rows_of(reader.read_keys(batch_of(reader, [(n,) for n in range(100)])))
    assert found == [(1, None, None), (2, date(2026, 1, 31), datetime(2026, 1, 31, 12, tzinfo=UTC))]
    table = database.reader("dated", "id", id="long", born="date", at="timestamp")
    with pytest.raises(ConfigError, match="column 'born': '0000-00-00' is no date; mend the row"):
        table.read_keys(batch_of(table, [(1,), (2,)]))

"""Master tables as relations: their keys and types, and the lookups that they suggest."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from endmark.databases import database_url
from endmark.draft.draft import draft
from endmark.draft.relations import relations_at
from endmark.draft.samples import Record, Sample
from endmark.errors import ConfigError, MissingPartError
from endmark.pipeline import Relation
from endmark.pipeline.file import load
from endmark.relation.sql import SqlRelation
from support.postgresql import PostgreSql
from support.relations import Database, batch_of, rows_of

TABLES = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, country VARCHAR(2), credit DECIMAL(10,2),
    since DATE, seen DATETIME, active BOOLEAN, score REAL, photo BLOB);
CREATE TABLE country_names (country TEXT PRIMARY KEY, name TEXT);
CREATE TABLE prices (shop INTEGER, article TEXT, price DECIMAL(10,2), PRIMARY KEY (shop, article));
CREATE TABLE log (line TEXT);
CREATE VIEW named AS SELECT id, name FROM customers;
"""
ROW = {"customer_id": 1, "article": "a", "shop": 2, "at": "2026-01-01T00:00:00Z"}


@pytest.fixture
def url(tmp_path: Path) -> str:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(TABLES)
    return f"sqlite:///{tmp_path / 'shop.db'}"


def orders(**members: Any) -> Sample:
    return Sample("orders", [Record(json.dumps({**ROW, **members}).encode())])


def test_types_and_keys(url: str) -> None:
    found = {each.table: each for each in relations_at(url)}
    assert set(found) == {"customers", "country_names", "prices"}
    assert {name: str(kind) for name, kind in found["customers"].columns.items()} == {
        "id": "long",
        "name": "string",
        "country": "string",
        "credit": "decimal(10,2)",
        "since": "date",
        "seen": "timestamp",
        "active": "boolean",
        "score": "double",
    }
    assert found["customers"].left_out == {"photo": "no type holds BLOB"}
    assert found["prices"].key == ("shop", "article")


def test_lookups_by_name_by_id_and_by_what_was_found(url: str, tmp_path: Path) -> None:
    """The file is valid, and its tables are fit to be read as it declares them."""
    drafted = draft("p", [orders()], url)
    assert {lookup.relation.table: lookup.key for lookup in drafted.steps.lookups} == {
        "customers": ("customer_id",),
        "prices": ("shop", "article"),
        "country_names": ("customers.country",),
    }
    file = tmp_path / "p.yaml"
    file.write_text(drafted.text)
    spec = load(file, {})
    for relation in spec.relations.values():
        SqlRelation(relation).check()


def created(text: str) -> str:
    """Return the statement that a comment of a drafted file says, which may be on several lines."""
    plain = " ".join(line.strip().removeprefix("# ") for line in text.splitlines())
    [statement] = re.findall(r"CREATE INDEX .*?\)", plain)
    return str(statement)


def test_a_key_without_an_index_by_bytes_is_drafted_with_what_mends_it(tmp_path: Path) -> None:
    """The job refuses such a table. The draft was silent."""
    file = tmp_path / "shop.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE countries (country TEXT PRIMARY KEY COLLATE NOCASE, label TEXT)")
    drafted = draft("p", [orders(country="DE")], f"sqlite:///{file}")
    (tmp_path / "p.yaml").write_text(drafted.text)
    relation = SqlRelation(load(tmp_path / "p.yaml", {}).relations["countries"])
    with pytest.raises(ConfigError, match="no index begins with the key"):
        relation.check()

    assert "# to do before a run, which is refused otherwise: relation 'countries': no index" in drafted.text
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(created(drafted.text))
    relation.check()
    assert "to do before a run" not in draft("p", [orders(country="DE")], f"sqlite:///{file}").text


def test_a_text_key_of_postgresql_is_drafted_with_what_mends_it(postgresql: PostgreSql) -> None:
    Database(postgresql.url).create(
        "drafted_countries", "code VARCHAR(2) PRIMARY KEY, name VARCHAR(20)", [("DE", "one")]
    )
    [found] = relations_at(postgresql.url, ["drafted_countries"])
    assert 'CREATE INDEX drafted_countries_key ON drafted_countries (code COLLATE "C")' in (found.unfit or "")


def test_a_table_that_no_stream_asks_for_is_told(url: str) -> None:
    """A table is told if it was named on the command line. A column of another type is no key of it."""
    drafted = draft("p", [orders(customer_id="1")], url, ["customers"])
    assert not drafted.steps.lookups
    assert "# Table customers is left out: no stream has its key, id (long)." in drafted.text


def test_a_column_named_as_another_ones_table_is_renamed(url: str) -> None:
    """A topic and a table of one name are two names in the file."""
    sample = Sample("customers", orders().records)
    [relation] = draft("p", [sample], url, ["customers"]).relations
    assert relation.name == "customers_2"


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (["custommers"], "has no table custommers; there are:"),
        (["log"], "no primary key"),
        (["named"], "a view has no primary key; leave it out, and declare it by hand"),
    ],
)
def test_tables_that_cannot_be_read(url: str, tables: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        relations_at(url, tables)


def test_a_file_that_is_not_there_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        relations_at(f"sqlite:///{tmp_path / 'none.db'}")
    assert not list(tmp_path.iterdir())


def test_a_database_that_does_not_answer() -> None:
    with pytest.raises(
        MissingPartError, match=r"mysql\+pymysql://a:\*\*\*@127.0.0.1:1/shop: .*start the"
    ) as told:
        relations_at("mysql://a:hunter2@127.0.0.1:1/shop")
    assert "hunter2" not in str(told.value)


@pytest.mark.parametrize("server", ["mariadb", "postgresql"])
def test_types_of_servers(server: str, request: pytest.FixtureRequest) -> None:
    """A relation that is read by its URL as people write it, with types that the table has."""
    url = re.sub(r"\+\w+", "", request.getfixturevalue(server).url)
    engine = sa.create_engine(database_url(url, "it"))
    with engine.begin() as connection:
        connection.execute(sa.text(
            "CREATE TABLE drafted (drafted_id BIGINT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10,2), "
            "active BOOLEAN, day DATE, seen TIMESTAMP, small SMALLINT, ratio DOUBLE PRECISION)"
        ))  # fmt: skip
    engine.dispose()
    [found] = relations_at(url, ["drafted"])
    kinds = ["long", "string", "decimal(10,2)", "boolean", "date", "timestamp", "long", "double"]
    assert (found.key, list(map(str, found.columns.values()))) == (("drafted_id",), kinds)
    SqlRelation(Relation(url=url, table="drafted", key=found.key, columns=found.columns)).check()


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
def test_a_text_key_of_the_usual_collation(server: str, request: pytest.FixtureRequest) -> None:
    """A table as most teams have it is drafted, and read as drafted by lists of keys."""
    url = request.getfixturevalue(server).url
    database = Database(url)
    database.create("usual", "code VARCHAR(20) PRIMARY KEY, name VARCHAR(20)", [("a", "one")])
    [found] = relations_at(url, ["usual"])
    reader = SqlRelation(Relation(url=url, table="usual", key=found.key, columns=found.columns))
    reader.check()
    assert found.key == ("code",)
    assert rows_of(reader.read_keys(batch_of(reader, [("a",), ("A",)]))) == [("a", "one")]


@pytest.mark.parametrize("server", ["mariadb", "mysql"])
@pytest.mark.parametrize("spelt", ["BIGINT UNSIGNED", "BIGINT(9) UNSIGNED ZEROFILL"])
def test_a_key_beyond_a_long(server: str, spelt: str, request: pytest.FixtureRequest) -> None:
    """Some frameworks give each table such a key."""
    url = request.getfixturevalue(server).url
    database = Database(url)
    database.create("counted", f"id {spelt} PRIMARY KEY, name VARCHAR(20)", [(2**63, "one")])
    [found] = relations_at(url, ["counted"])
    reader = SqlRelation(Relation(url=url, table="counted", key=found.key, columns=found.columns))
    reader.check()
    assert list(map(str, found.columns.values())) == ["decimal(20,0)", "string"]
    assert rows_of(reader.read_keys(batch_of(reader, [(Decimal(2**63),)]))) == [(2**63, "one")]

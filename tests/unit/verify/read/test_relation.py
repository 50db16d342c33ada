"""R is read as declared, only where it is asked for, and its troubles are told in plain words."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from endmark.embedded.mariadb import MariaDb
from endmark.errors import ConfigError, MissingPartError
from endmark.pipeline import Pipeline, Relation
from endmark.types import ColumnType
from endmark.verify.judge.classify import classify
from endmark.verify.read.relation import load_relations
from endmark.verify.session import Session
from endmark.verify.verification import load_records
from support import unions
from support.postgresql import PostgreSql
from support.steps import with_step
from support.verify_places import seed_sellers, to_kafka
from support.verify_world import bid, make_pipeline


def load(
    url: str,
    asked: Iterable[int] = (1, 2),
    columns: dict[str, ColumnType] | None = None,
    **looking: Any,
) -> list[tuple[Any, ...]]:
    pipeline = make_pipeline(url, looking=looking)
    if columns is not None:
        relation = Relation(url=url, table="sellers", key="seller_id", columns=columns)
        pipeline = pipeline.model_copy(update={"relations": {"sellers": relation}})
    with Session() as session:
        load_records(session, *to_kafka([bid(1, 0, seller=seller) for seller in asked]))
        classify(session, pipeline)
        load_relations(session, pipeline)
        rows = session.run("SELECT * FROM relation_sellers ORDER BY ALL")
        return [tuple(row.values()) for row in rows]


def execute(url: str, *statements: str) -> None:
    engine = sa.create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sa.text(statement))
    engine.dispose()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'r.db'}"


def test_only_keys_in_the_stream_are_kept(url: str) -> None:
    """Rows of R that no record asks for do not take memory; empty cells stay empty."""
    seed_sellers(url, [(1, "Ann", 4.5), (2, None, None), (3, "Cy", 1.0)])
    assert load(url, [2, 1, 1, 9]) == [(1, "Ann", 4.5), (2, None, None)]


def test_keys_in_any_member_of_a_union_are_kept(url: str) -> None:
    """The rows of the union itself are made later."""
    seed_sellers(url, [(1, "Ann", 4.5), (2, "Bo", None), (3, "Cy", 1.0)])
    document = unions.document()
    document["relations"] = make_pipeline(url).model_dump(by_alias=True)["relations"]
    document["steps"]["known"] = {"from": "orders", "lookup": {"relation": "sellers", "key": "total"}}
    document["steps"]["paid"]["join"] = ["known", "payments"]
    pipeline = Pipeline.model_validate(document)
    records = [
        unions.order("web", 1, total=1),
        unions.order("stores", 2, total=3),
        unions.order("web", 3, total=9),
    ]
    with Session() as session:
        load_records(session, *to_kafka(records, unions.TOPICS))
        classify(session, pipeline)
        load_relations(session, pipeline)
        found = session.run("SELECT sellers_name FROM relation_sellers ORDER BY ALL")
        assert [row["sellers_name"] for row in found] == ["Ann", "Cy"]


def test_a_database_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message has the relation, the table and the address, but no password."""
    with pytest.raises(MissingPartError, match=r"relations\.sellers: cannot read table 'sellers' at sqlite"):
        load(f"sqlite:///{tmp_path / 'no' / 'r.db'}")
    with pytest.raises(MissingPartError, match=r"cannot read table.*mysql") as found:
        load("mysql+pymysql://me:hunter2@127.0.0.1:1/r")
    assert "hunter2" not in str(found.value)


def test_a_missing_table_is_named(url: str) -> None:
    """An empty database gives the database's own words."""
    with pytest.raises(MissingPartError, match="no such table: sellers"):
        load(url)


def test_a_value_of_another_type_is_named(url: str) -> None:
    """SQLite holds any value in any column; the first that is not of the declared type is refused."""
    execute(
        url,
        "CREATE TABLE sellers (seller_id INTEGER PRIMARY KEY, name TEXT, rating)",
        "INSERT INTO sellers VALUES (1, 'Ann', 'good')",
    )
    with pytest.raises(ConfigError, match=r"relations\.sellers\.columns\.rating: .* no double"):
        load(url)


def test_every_type_is_read(url: str) -> None:
    """What SQLite keeps as numbers and text arrives as what it is, times as UTC."""
    execute(
        url,
        "CREATE TABLE sellers (seller_id INTEGER PRIMARY KEY, vetted BOOLEAN, since TEXT, born TEXT, "
        "fee DECIMAL(9,2))",
        "INSERT INTO sellers VALUES (1, 1, '2026-01-01 00:00:01.5', '1999-12-31', 1234567.89)",
        "INSERT INTO sellers VALUES (2, 0, NULL, NULL, NULL)",
    )
    kinds = {
        "seller_id": ColumnType.LONG,
        "vetted": ColumnType.BOOLEAN,
        "since": ColumnType.TIMESTAMP,
        "born": ColumnType.DATE,
        "fee": ColumnType.decimal(9, 2),
    }
    since = datetime(2026, 1, 1, 0, 0, 1, 500_000, UTC)
    assert load(url, columns=kinds) == [
        (1, True, since, date(1999, 12, 31), Decimal("1234567.89")),
        (2, False, None, None, None),
    ]
    execute(url, "UPDATE sellers SET since = 'long ago'")
    with pytest.raises(
        ConfigError, match=r"relations\.sellers: .* not of its column's declared type: .*long ago"
    ):
        load(url, columns=kinds)


ALL_KINDS = {
    "seller_id": ColumnType.LONG,
    "name": ColumnType.STRING,
    "rating": ColumnType.DOUBLE,
    "vetted": ColumnType.BOOLEAN,
    "since": ColumnType.TIMESTAMP,
    "born": ColumnType.DATE,
    "fee": ColumnType.decimal(38, 2),
}
OF_ALL_KINDS = (
    *(1, "J\u00fcrgen \U0001f600", 0.1, True, datetime(2026, 1, 1, 0, 0, 1, 1, UTC), date(1999, 12, 31)),
    Decimal("123456789012345678901234567890123456.78"),
)


@pytest.fixture(params=["mariadb", "mysql"])
def server(request: pytest.FixtureRequest) -> MariaDb:
    running: MariaDb = request.getfixturevalue(request.param)
    return running


def test_a_real_server_gives_the_same(server: MariaDb) -> None:
    """MySQL's own types arrive as those of SQLite do, streamed in chunks."""
    execute(
        server.url,
        "CREATE TABLE sellers (seller_id BIGINT PRIMARY KEY, name VARCHAR(40) COLLATE utf8mb4_bin, "
        "rating DOUBLE, vetted TINYINT(1), since DATETIME(6), born DATE, fee DECIMAL(38,2))",
        "INSERT INTO sellers VALUES (1, 'J\u00fcrgen \U0001f600', 0.1, 1, '2026-01-01 00:00:01.000001', "
        "'1999-12-31', 123456789012345678901234567890123456.78)",
        "INSERT INTO sellers WITH RECURSIVE n AS "
        "(SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM n WHERE seq < 399) "
        "SELECT a.seq * 400 + b.seq + 2, NULL, NULL, NULL, NULL, NULL, NULL FROM n a, n b WHERE a.seq < 300",
    )
    try:
        assert load(server.url, [1, 120_001, 120_002], ALL_KINDS) == [
            OF_ALL_KINDS,
            (120_001, None, None, None, None, None, None),
        ]
    finally:
        execute(server.url, "DROP TABLE sellers")


def test_postgresql_gives_the_same(postgresql: PostgreSql) -> None:
    """Its times with a zone are in that of the session, which is told to be UTC."""
    execute(
        postgresql.url,
        "DROP TABLE IF EXISTS sellers",
        "CREATE TABLE sellers (seller_id BIGINT PRIMARY KEY, name TEXT, rating DOUBLE PRECISION, "
        "vetted BOOLEAN, since TIMESTAMPTZ, born DATE, fee NUMERIC(38,2))",
        "INSERT INTO sellers VALUES (1, 'J\u00fcrgen \U0001f600', 0.1, true, "
        "'2026-01-01 00:00:01.000001+00', '1999-12-31', 123456789012345678901234567890123456.78)",
    )
    assert load(postgresql.url, [1], ALL_KINDS) == [OF_ALL_KINDS]


def test_a_repeated_key_is_refused(url: str) -> None:
    """Where a lookup has at most one answer, a key that occurs twice is the relation's fault."""
    execute(
        url,
        "CREATE TABLE sellers (seller_id INTEGER, name TEXT, rating REAL)",
        "INSERT INTO sellers VALUES (1, 'Ann', 1.0), (1, 'Bo', 2.0), (2, 'Cy', 3)",
    )
    with pytest.raises(ConfigError, match=r"seller_id=1 occurs 2 times in table 'sellers'"):
        load(url)
    assert load(url, [2]) == [(2, "Cy", 3.0)]
    assert load(url, [1], cardinality="many_to_many") == [(1, "Ann", 1.0), (1, "Bo", 2.0)]


def test_versions_of_a_key_are_told_apart(url: str) -> None:
    """By the moment from which on they hold; those without one never do."""
    execute(
        url,
        "CREATE TABLE sellers (seller_id INTEGER, name TEXT, rating REAL, since TEXT)",
        "INSERT INTO sellers VALUES (1, 'Ann', 1.0, '2026-01-01 00:00:00'), (1, 'Cy', 1.0, NULL)",
        "INSERT INTO sellers VALUES (1, 'Bo', 2.0, '2026-01-02 00:00:00'), (1, 'Di', 2.0, NULL)",
    )
    as_of = {"stream": "bid_at", "relation": "since"}
    assert len(load(url, [1], as_of=as_of)) == 4
    execute(url, "INSERT INTO sellers VALUES (1, 'Ed', 1.0, '2026-01-02 00:00:00')")
    with pytest.raises(ConfigError, match=r"key seller_id=1, since=2026-01-02 .* occurs 2 times"):
        load(url, [1], as_of=as_of)


def test_a_key_of_several_columns(url: str) -> None:
    """Rows are kept whose whole key is asked for, columns paired by their places; no whole key may repeat."""
    execute(
        url,
        "CREATE TABLE sellers (name TEXT, town TEXT, seller_id INTEGER)",
        "INSERT INTO sellers VALUES ('Ann', 'x', 1), ('bid \u00fc 0', 'y', 1)",
        "INSERT INTO sellers VALUES ('bid \u00fc 0', 'z', 2), ('bid \u00fc 1', 'u', 1)",
    )
    plain = make_pipeline(url)
    columns = {"name": ColumnType.STRING, "town": ColumnType.STRING, "seller_id": ColumnType.LONG}
    relation = Relation(url=url, table="sellers", key=("seller_id", "name"), columns=columns)
    keyed = with_step(plain, "known", key=("seller_id", "note"))
    pipeline = keyed.model_copy(update={"relations": {"sellers": relation}})

    def found() -> list[tuple[Any, ...]]:
        with Session() as session:
            load_records(session, *to_kafka([bid(1, 0, seller=1), bid(1, 2, seller=2)]))
            classify(session, pipeline)
            load_relations(session, pipeline)
            return [tuple(row.values()) for row in session.run("SELECT * FROM relation_sellers")]

    assert found() == [("bid \u00fc 0", "y", 1)]
    execute(url, "INSERT INTO sellers VALUES ('bid \u00fc 0', 'w', 1)")
    with pytest.raises(ConfigError, match="key seller_id=1, name=bid \u00fc 0 occurs 2 times"):
        found()


def test_times_are_utc_wherever_the_server_is(server: MariaDb) -> None:
    """A server gives a TIMESTAMP in its session's zone, which is told to be UTC."""
    execute(
        server.url,
        "CREATE TABLE sellers (seller_id BIGINT PRIMARY KEY, since TIMESTAMP(6) NOT NULL)",
        "SET time_zone = '+00:00'",
        "INSERT INTO sellers VALUES (1, '2026-01-01 00:00:01')",
    )
    kinds = {"seller_id": ColumnType.LONG, "since": ColumnType.TIMESTAMP}
    elsewhere = f"{server.url}?init_command=SET time_zone = '%2B05:00'"
    try:
        assert load(elsewhere, columns=kinds) == [(1, datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))]
    finally:
        execute(server.url, "DROP TABLE sellers")

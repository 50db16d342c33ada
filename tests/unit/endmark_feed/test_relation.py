"""The sellers table: the pipeline's columns, the same for equal seeds, never half filled or overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from endmark.errors import ConfigError, MissingPartError
from endmark.pipeline.file import load
from endmark.pipelines import AUCTION
from endmark_feed.relation import seed_relation


def url(tmp_path: Path, name: str = "r") -> str:
    return f"sqlite:///{tmp_path / name}.db"


def read(address: str) -> list[tuple[Any, ...]]:
    engine = sa.create_engine(address)
    with engine.connect() as connection:
        found = connection.execute(sa.text("SELECT * FROM sellers ORDER BY seller_id")).all()
    engine.dispose()
    return [tuple(row) for row in found]


def run(address: str, statement: str) -> None:
    engine = sa.create_engine(address)
    with engine.begin() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()


def test_columns_are_the_pipelines(tmp_path: Path) -> None:
    seed_relation(url(tmp_path), 10, 1)
    relation = load(AUCTION, {"ENDMARK_RELATION_URL": url(tmp_path)}).relations["sellers"]
    engine = sa.create_engine(relation.url)
    inspector = sa.inspect(engine)
    assert [column["name"] for column in inspector.get_columns(relation.table)] == list(relation.columns)
    assert inspector.get_pk_constraint(relation.table)["constrained_columns"] == list(relation.key)
    engine.dispose()


def test_rows_are_numbered_from_one_and_plausible(tmp_path: Path) -> None:
    assert seed_relation(url(tmp_path), 25_001, 1) == 25_001
    rows = read(url(tmp_path))
    assert [row[0] for row in rows] == list(range(1, 25_002))
    assert all(name and len(country) == 2 and 1 <= rating <= 5 for _, name, country, rating in rows)
    assert len({row[2] for row in rows}) > 10


def test_a_seller_depends_on_the_seed_alone(tmp_path: Path) -> None:
    seed_relation(url(tmp_path, "small"), 500, 1)
    seed_relation(url(tmp_path, "large"), 12_000, 1)
    seed_relation(url(tmp_path, "other"), 500, 2)
    small = read(url(tmp_path, "small"))
    assert read(url(tmp_path, "large"))[:500] == small
    assert read(url(tmp_path, "other")) != small


def test_a_full_table_is_left_alone(tmp_path: Path) -> None:
    seed_relation(url(tmp_path), 100, 1)
    run(url(tmp_path), "UPDATE sellers SET name = 'mine' WHERE seller_id = 5")
    assert seed_relation(url(tmp_path), 100, 2) == 0
    assert read(url(tmp_path))[4][1] == "mine"


def test_a_table_of_another_size_is_refused_untouched(tmp_path: Path) -> None:
    seed_relation(url(tmp_path), 100, 1)
    before = read(url(tmp_path))
    with pytest.raises(ConfigError, match=r"has 100 rows, but the feed is to use 200; drop the table"):
        seed_relation(url(tmp_path), 200, 1)
    assert read(url(tmp_path)) == before


@pytest.mark.parametrize(
    ("statements", "why"),
    [
        (
            ["CREATE TABLE sellers (seller_id INTEGER PRIMARY KEY, name TEXT)"],
            "has no column country, rating",
        ),
        (
            [
                "CREATE TABLE people (seller_id INTEGER PRIMARY KEY, name TEXT, country TEXT, rating REAL)",
                "CREATE VIEW sellers AS SELECT * FROM people",
            ],
            "is a view",
        ),
    ],
)
def test_a_table_of_other_columns_and_a_view_are_refused(
    tmp_path: Path, statements: list[str], why: str
) -> None:
    """The advice was to start the database."""
    for statement in statements:
        run(url(tmp_path), statement)
    with pytest.raises(ConfigError, match=f"the table sellers at .* {why}, so that the feed cannot fill it"):
        seed_relation(url(tmp_path), 10, 1)


def test_a_fill_that_fails_leaves_no_rows(tmp_path: Path) -> None:
    seed_relation(url(tmp_path), 1, 1)
    run(url(tmp_path), "DELETE FROM sellers")
    run(
        url(tmp_path),
        "CREATE TRIGGER full BEFORE INSERT ON sellers WHEN NEW.seller_id = 15000 "
        "BEGIN SELECT RAISE(ABORT, 'disk full'); END",
    )
    with pytest.raises(sa.exc.IntegrityError, match="disk full"):
        seed_relation(url(tmp_path), 20_000, 1)
    assert read(url(tmp_path)) == []


@pytest.mark.parametrize(
    ("address", "error", "text"),
    [
        ("not a url", ConfigError, "is no database URL"),
        ("nonsense://somewhere/x", ConfigError, "which is no known database; write sqlite:///"),
        ("oracle://a:secret@127.0.0.1/x", ConfigError, "which is no known database; write sqlite:///"),
        ("sqlite:////no/such/directory/x.db", MissingPartError, "unable to open database file"),
        ("mysql+pymysql://a:secret@127.0.0.1:1/x", MissingPartError, "start the database"),
    ],
)
def test_what_is_wrong_with_the_url_is_said_without_the_password(
    address: str, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as raised:
        seed_relation(address, 10, 1)
    assert "secret" not in str(raised.value)

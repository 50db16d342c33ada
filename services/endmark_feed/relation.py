"""The master table `sellers` of the auction pipeline, and a function that fills any master table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import sqlalchemy as sa

from endmark.databases import database_url, shown_url
from endmark.errors import ConfigError, MissingPartError
from endmark_feed.options import random_stream

CHUNK = 10_000
FIRST_NAMES = ("Ada", "Björn", "Chloé", "Dmitri", "Eszter", "Fatima", "Goran", "Hana", "Iñigo", "Jun")
LAST_NAMES = ("Araújo", "Brandt", "Çelik", "Dvořák", "Egger", "Fischer", "García", "Høgh", "Ito", "Jansen")
COUNTRIES = ("AT", "BR", "CA", "CH", "CZ", "DE", "DK", "ES", "FR", "HU", "IN", "IT", "JP", "NL", "NO", "US")

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""The type of a master table's key. SQLite keeps a table in the order of its key only if this is INTEGER."""


def master_table(name: str, *columns: sa.Column[Any]) -> sa.Table:
    """Return a master table. MySQL compares its texts by their bytes, since a relation is read so."""
    return sa.Table(
        name,
        sa.MetaData(),
        *columns,
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )


sellers_table = master_table(
    "sellers",
    sa.Column("seller_id", KEY, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(100), nullable=False),
    sa.Column("country", sa.String(2), nullable=False),
    sa.Column("rating", sa.Double, nullable=False),
)


def seed_relation(url: str, sellers: int, seed: int) -> int:
    """Create and fill the table of sellers; return the number of rows written.

    A table that already has `sellers` rows is left as it is, and 0 is returned.

    Args:
        url: the SQLAlchemy URL of the database.
        sellers: the number of rows.
        seed: equal seeds give equal rows.

    Raises:
        ConfigError: the URL is no database URL, or the table exists with another number of rows.
        MissingPartError: the database does not answer, or its driver is not installed.
    """
    return fill_table(url, sellers_table, sellers, _chunks(sellers, seed))


def fill_table(url: str, table: sa.Table, size: int, chunks: Iterable[list[dict[str, Any]]]) -> int:
    """Create and fill a table; return the number of rows written.

    A table that already has `size` rows is left as it is, and 0 is returned. All rows are written in one
    transaction.

    Args:
        url: the SQLAlchemy URL of the database.
        table: the table.
        size: the number of rows in all chunks.
        chunks: chunks of rows, each row as its values by column; a chunk is one statement.

    Raises:
        ConfigError: the URL is no database URL, or the table exists with another number of rows, without
            some of the columns, or as a view.
        MissingPartError: the database does not answer, or its driver is not installed.
    """
    parsed = database_url(url, "the relation's URL")
    engine = sa.create_engine(parsed)
    where = shown_url(parsed)
    try:
        with engine.begin() as connection:
            table.create(connection, checkfirst=True)
            _require_fillable(connection, table, where)
            found = connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
            for rows in chunks if found == 0 else ():
                connection.execute(table.insert(), rows)
    except sa.exc.OperationalError as error:
        raise MissingPartError(
            f"cannot fill the table {table.name} at {where}: {error.orig}; "
            "start the database or name another one"
        ) from error
    finally:
        engine.dispose()
    if found not in (0, size):
        raise ConfigError(
            f"the table {table.name} at {where} has {found:,} rows, but the feed is to use {size:,}; "
            f"drop the table, name another database or have the feed use {found}"
        )
    return 0 if found else size


def _require_fillable(connection: sa.Connection, table: sa.Table, where: str) -> None:
    inspector = sa.inspect(connection)
    there = {column["name"] for column in inspector.get_columns(table.name)}
    why = ""
    if missing := [column.name for column in table.columns if column.name not in there]:
        why = f"has no column {', '.join(missing)}"
    elif table.name in inspector.get_view_names():
        why = "is a view"
    if why:
        raise ConfigError(
            f"the table {table.name} at {where} {why}, so that the feed cannot fill it; rename it there, or "
            "name another database"
        )


def _chunks(sellers: int, seed: int) -> Iterator[list[dict[str, Any]]]:
    random = random_stream(seed, "sellers")
    for first in range(1, sellers + 1, CHUNK):
        # Whole chunks are always drawn, so a seller is the same in a table of any size.
        names = random.integers(len(FIRST_NAMES), size=CHUNK).tolist()
        surnames = random.integers(len(LAST_NAMES), size=CHUNK).tolist()
        countries = random.integers(len(COUNTRIES), size=CHUNK).tolist()
        ratings = np.round(random.uniform(1, 5, CHUNK), 2).tolist()
        drawn = zip(range(first, sellers + 1), names, surnames, countries, ratings, strict=False)
        yield [
            {
                "seller_id": seller_id,
                "name": f"{FIRST_NAMES[name]} {LAST_NAMES[surname]} {seller_id}",
                "country": COUNTRIES[country],
                "rating": rating,
            }
            for seller_id, name, surname, country, rating in drawn
        ]

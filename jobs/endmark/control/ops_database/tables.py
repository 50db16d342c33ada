"""The tables of the ops database. The job or the sidecar creates them, whichever starts first.

Texts and values that come from a record or a person are in columns of type `Text` and `Value`, which change
them until every server can store them. If a server refused such a text, the job's batch would fail, and fail
again after each restart.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateTable

from endmark.stored_text import MOST, storable, storable_value

META = sa.MetaData()
_MAKES_TABLES = int.from_bytes(b"endmark")  # our lock among those of PostgreSQL


class Text(sa.TypeDecorator[str]):
    """A text of at most `length` characters, which `storable` makes fit when it is written."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> str | None:
        return None if value is None else storable(value, self.length)


class Value(sa.TypeDecorator[Any]):
    """A single value as JSON, which `storable_value` makes fit when it is written."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: sa.Dialect) -> Any:
        return storable_value(value)


def _table(name: str, *columns: sa.Column[Any]) -> sa.Table:
    """Return a table that takes all of Unicode, whatever the database's character set, and compares bytes."""
    unicode = {"charset": "utf8mb4", "collate": "utf8mb4_bin"}
    options: Any = {f"{kind}_{key}": to for kind in ("mysql", "mariadb") for key, to in unicode.items()}
    return sa.Table(name, META, *columns, **options)


pipelines = _table(
    "pipelines",
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("description", sa.JSON, nullable=False),  # stored by the job that started last
)

runs = _table(
    "runs",
    sa.Column("run_id", sa.String(36), primary_key=True),
    sa.Column("pipeline", sa.String(63), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # starting, running, done, stopped, failed
    sa.Column("started_at", sa.Double, nullable=False),  # Unix seconds
    sa.Column("stopped_at", sa.Double),
    sa.Column("error", Text(MOST)),
    sa.Column("alive_at", sa.Double),  # Unix seconds of the driver's last sign of life
    sa.Column("app_id", sa.String(64)),  # the checkpoint's id
    sa.Column("checkpoint", sa.Text),  # the checkpoint's path
    sa.Column("host", sa.String(255)),
    sa.Column("process", sa.Integer),  # the driver's process id on the host
)

batches = _table(
    "batches",
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("batch_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("run_id", sa.String(36), nullable=False),
    sa.Column("committed_at", sa.Double, nullable=False),  # Unix seconds
    sa.Column("samples", sa.JSON, nullable=False),  # this batch alone
    sa.Column("totals", sa.JSON, nullable=False),  # counters since the first batch, gauges of this one
    sa.Column("offsets", sa.JSON, nullable=False),  # topic -> partition -> first offset not read
)

turns = _table(
    "turns",
    sa.Column("pipeline", sa.String(63), primary_key=True),
    # partition and offset are the coordinates of the control record
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("batch_id", sa.BigInteger, nullable=False),  # the batch that read it; the next one applies it
    sa.Column("set_at", sa.Double, nullable=False),  # Unix seconds
    sa.Column("by", Text(200), nullable=False),
    sa.Column("name", Text(200), nullable=False),
    sa.Column("before", Value),
    sa.Column("value", Value),
    sa.Column("refused", Text(MOST)),  # why it was refused; null if it was not
    sa.Column("why", Text(MOST)),  # why it was turned; null if nobody said so
)

answers = _table(
    "answers",
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),  # the question's coordinates
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("batch_id", sa.BigInteger, nullable=False),  # the batch after which the answer was true
    sa.Column("answers", sa.JSON, nullable=False),  # one for each step that has the key
)

replays = _table(
    "replays",
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("topic", Text(200), primary_key=True),  # the dead letter's coordinates
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),  # Unix seconds
    sa.Column("by", Text(200), nullable=False),
    sa.Column("changed", sa.Boolean, nullable=False),
    sa.Column("to_offset", sa.BigInteger),  # the new record's offset, in the same partition
)

forecasts = _table(
    "forecasts",
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("step", sa.String(200), primary_key=True),  # join, or lookup.RELATION
    sa.Column("forecast", sa.JSON, nullable=False),
)


def make(engine: sa.Engine) -> None:
    """Create the tables that are missing; another process may create them at the same time.

    A server asks for the right to create a table even if the table is there. So a user may do without this
    right once somebody else has made all tables.
    """
    there = {*sa.inspect(engine).get_table_names()}
    missing = [table for table in META.sorted_tables if table.name not in there]
    if not missing:
        return
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            # Its IF NOT EXISTS does not see a table that another transaction is creating, and then fails.
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKES_TABLES)))
        for table in missing:
            connection.execute(CreateTable(table, if_not_exists=True))

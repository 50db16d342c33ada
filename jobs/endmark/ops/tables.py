"""The tables of the ops database, which job and sidecar make, whoever comes first."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

META = sa.MetaData()

pipelines = sa.Table(
    "pipelines",
    META,
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("description", sa.JSON, nullable=False),  # as the job started last has it
)

runs = sa.Table(
    "runs",
    META,
    sa.Column("run_id", sa.String(36), primary_key=True),
    sa.Column("pipeline", sa.String(63), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),  # starting, running, stopped, failed
    sa.Column("started_at", sa.Double, nullable=False),  # Unix seconds
    sa.Column("stopped_at", sa.Double),
    sa.Column("error", sa.Text),
)

batches = sa.Table(
    "batches",
    META,
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("batch_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("run_id", sa.String(36), nullable=False),
    sa.Column("committed_at", sa.Double, nullable=False),  # Unix seconds
    sa.Column("samples", sa.JSON, nullable=False),  # this batch alone
    sa.Column("totals", sa.JSON, nullable=False),  # counters since the first batch, gauges of this one
    sa.Column("offsets", sa.JSON, nullable=False),  # topic -> partition -> first offset not read
)

turns = sa.Table(
    "turns",
    META,
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),  # of the control record
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("batch_id", sa.BigInteger, nullable=False),  # that read it; the next begins with it
    sa.Column("set_at", sa.Double, nullable=False),  # Unix seconds
    sa.Column("by", sa.String(200), nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("before", sa.JSON),
    sa.Column("value", sa.JSON),
    sa.Column("refused", sa.Text),  # why
    sa.Column("why", sa.Text),  # it was turned, if whoever did so has said
)

replays = sa.Table(
    "replays",
    META,
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("topic", sa.String(200), primary_key=True),  # of the dead letter, as what follows
    sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("offset", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Double, nullable=False),  # Unix seconds
    sa.Column("by", sa.String(200), nullable=False),
    sa.Column("changed", sa.Boolean, nullable=False),
    sa.Column("to_offset", sa.BigInteger),  # of the record that was sent, in the same partition
)

forecasts = sa.Table(
    "forecasts",
    META,
    sa.Column("pipeline", sa.String(63), primary_key=True),
    sa.Column("relation", sa.String(200), primary_key=True),
    sa.Column("forecast", sa.JSON, nullable=False),
)


def make(engine: sa.Engine) -> None:
    """Make the tables that are missing, and a column of `turns` that came later; another process may be doing
    so just now."""
    with engine.begin() as connection:
        for table in META.sorted_tables:
            connection.execute(CreateTable(table, if_not_exists=True))
    if _has_why(engine):
        return
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(f"ALTER TABLE {turns.name} ADD COLUMN why TEXT"))
    except DBAPIError:
        if not _has_why(engine):
            raise


def _has_why(engine: sa.Engine) -> bool:
    return turns.c.why.name in {column["name"] for column in sa.inspect(engine).get_columns(turns.name)}

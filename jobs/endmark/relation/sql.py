"""A relation in a SQL database, reached by an SQLAlchemy URL: MySQL, MariaDB, SQLite."""

from __future__ import annotations

import time
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential

from endmark.errors import ConfigError, MissingPartError
from endmark.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from endmark.pipeline import Relation
    from endmark.relation.contract import KeyRange
    from endmark.state.search import Ints
    from endmark.types import ColumnType

    T = TypeVar("T")

_SQL_TYPES: dict[Kind, sa.types.TypeEngine[Any]] = {
    Kind.LONG: sa.BigInteger(),
    Kind.DOUBLE: sa.Double(),
    Kind.STRING: sa.Text(),
    Kind.BOOLEAN: sa.Boolean(),
    Kind.DATE: sa.Date(),
    Kind.TIMESTAMP: sa.DateTime(),
}


class RelationUnreachableError(MissingPartError):
    """The database did not answer within the deadline; the text holds its last words."""


def _sql_type(kind: ColumnType) -> sa.types.TypeEngine[Any]:
    if kind.kind is Kind.DECIMAL:
        return sa.Numeric(kind.precision, kind.scale)
    return _SQL_TYPES[kind.kind]


@cache
def _engine(url: str) -> sa.Engine:
    # One engine for each Python worker, kept between batches: connecting costs more than reading a page.
    timeouts = {"connect_timeout": 5, "read_timeout": 20, "write_timeout": 20}
    made = sa.make_url(url)
    arguments = timeouts if made.get_driver_name() == "pymysql" else {}
    return sa.create_engine(made, connect_args=arguments, pool_pre_ping=True, pool_size=1, max_overflow=0)


class SqlRelation:
    """Pages of one table, retried while the database is away.

    Args:
        relation: from the pipeline file; its names were checked there and are quoted here.
    """

    def __init__(self, relation: Relation) -> None:
        self._relation = relation
        self._name = f"relation {relation.table!r}"
        columns = [sa.Column(name, _sql_type(kind)) for name, kind in relation.columns.items()]
        self._table = sa.Table(relation.table, sa.MetaData(), *columns)
        self._key = self._table.c[relation.key]
        self.schema = pa.schema([(name, kind.arrow) for name, kind in relation.columns.items()])

    def directory(self, page_rows: int) -> Ints:
        """The lower key of every page of `page_rows` rows, ascending; reads the key's index once."""
        position = sa.func.row_number().over(order_by=self._key).label("position")
        numbered = sa.select(self._key.label("lower_key"), position).subquery()
        query = (
            sa.select(numbered.c.lower_key)
            .where((numbered.c.position - 1) % page_rows == 0)
            .order_by(numbered.c.lower_key)
        )
        # Rows of equal key share a page, so a key that fills several pages bounds only one.
        rows = self._retried(lambda: self._fetch([(query, {})]))
        return np.unique(np.array(rows, np.int64).reshape(-1))

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        """All rows of ascending, disjoint key ranges, sorted by key."""
        rows = self._retried(lambda: self._fetch([self._page_query(*bounds) for bounds in ranges]))
        columns = zip(*rows, strict=True) if rows else [()] * len(self.schema)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
        return pa.record_batch(arrays, schema=self.schema)

    def check(self) -> None:
        """Fail early and clearly when the table or a column is not there.

        Raises:
            ConfigError: naming what is missing and what there is.
            RelationUnreachableError: the database does not answer.
        """
        inspector = self._retried(lambda: sa.inspect(_engine(self._relation.url)))
        tables = self._retried(inspector.get_table_names)
        if self._relation.table not in tables:
            raise ConfigError(
                f"{self._name}: the database has no such table, only: {', '.join(tables) or 'none'}"
            )
        there = [
            column["name"] for column in self._retried(lambda: inspector.get_columns(self._relation.table))
        ]
        if missing := [name for name in self._relation.columns if name not in there]:
            raise ConfigError(f"{self._name}: no column {', '.join(missing)}; there are {', '.join(there)}")

    def _page_query(self, low: int | None, high: int | None) -> tuple[sa.Select[Any], dict[str, int]]:
        query, bounds = sa.select(*self._table.c).order_by(self._key), {}
        if low is not None:
            query, bounds["low"] = query.where(self._key >= sa.bindparam("low")), low
        if high is not None:
            query, bounds["high"] = query.where(self._key < sa.bindparam("high")), high
        return query, bounds

    def _fetch(self, queries: list[tuple[sa.Select[Any], dict[str, int]]]) -> list[Any]:
        with _engine(self._relation.url).connect() as connection:
            return [row for query, bounds in queries for row in connection.execute(query, bounds).fetchall()]

    def _retried(self, read: Callable[[], T]) -> T:
        started = time.monotonic()
        attempts = Retrying(
            retry=retry_if_exception_type((OperationalError, InterfaceError)),
            stop=stop_after_delay(self._relation.retry),
            wait=wait_exponential(multiplier=0.1, max=2.0),
            reraise=True,
        )
        try:
            return attempts(read)
        except (OperationalError, InterfaceError) as error:
            waited = f"the database did not answer for {time.monotonic() - started:.0f} s"
            raise RelationUnreachableError(f"{self._name}: {waited}: {error.orig}") from error
        except DBAPIError as error:
            raise ConfigError(f"{self._name}: {error.orig}") from error

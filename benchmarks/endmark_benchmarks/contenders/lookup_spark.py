"""The lookup as one would write it in Spark without endmark, each way at its best that we found.

All join each batch in `foreachBatch`. The batch is what is broadcast wherever Spark joins, since R never is
the smaller one.
"""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pymysql
import sqlalchemy as sa
from pyspark.sql import functions as F  # noqa: N812

from endmark_benchmarks.workloads.lookup_input import ANSWERS_DDL, TABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

KEYS_AT_ONCE = 10_000
_JOINED = ("key", "id", "name", "price", "pad")


class Jdbc:
    """Reads R by Spark's own JDBC source.

    Args:
        spark: the session, with MariaDB's JDBC driver.
        url: the database's URL as SQLAlchemy spells it.
        table, key: the names of R and of its key column.
    """

    def __init__(self, spark: SparkSession, url: str, table: str = TABLE, key: str = "k") -> None:
        self._spark = spark
        self._table = table
        self._key = key
        to = sa.make_url(url)
        # Spark quotes names as this server wants them only under MySQL's scheme.
        self._url = f"jdbc:mysql://{to.host}:{to.port}/{to.database}?permitMysqlScheme"
        self._properties = {
            "driver": "org.mariadb.jdbc.Driver",
            "user": str(to.username),
            "password": str(to.password),
            "fetchsize": "10000",
        }

    def whole(self, rows: int) -> DataFrame:
        """All of R, read by two tasks."""
        options = {"lowerBound": 1, "upperBound": rows, "numPartitions": 2}
        return self._spark.read.jdbc(
            self._url, self._table, column=self._key, **options, properties=self._properties
        )

    def largest_key(self) -> int:
        """The largest key of R, which counts from 1 on: the number of its rows."""
        largest = f"(SELECT MAX({self._key}) AS largest FROM {self._table}) AS keys_of_r"  # noqa: S608
        [found] = self._spark.read.jdbc(self._url, largest, properties=self._properties).collect()
        return int(found.largest)

    def of_keys(self, keys: list[int]) -> DataFrame:
        """The rows of some keys, `KEYS_AT_ONCE` of them a statement and a task."""
        lists = [keys[at : at + KEYS_AT_ONCE] for at in range(0, len(keys), KEYS_AT_ONCE)]
        predicates = [f"{self._key} IN ({','.join(map(str, some))})" for some in lists]
        return self._spark.read.jdbc(
            self._url, self._table, predicates=predicates, properties=self._properties
        )


def full_read(batch: DataFrame, jdbc: Jdbc, rows: int) -> DataFrame:
    """Return all of R, read anew.

    Args:
        batch: the rows of the batch.
        jdbc: reads the database.
        rows: the rows of R.
    """
    return _joined(jdbc.whole(rows), batch)


def in_list(batch: DataFrame, jdbc: Jdbc) -> DataFrame:
    """The rows of R of the batch's keys, read in lists."""
    keys = np.unique(batch.select("key").toArrow()["key"].to_numpy())
    return _joined(jdbc.of_keys(keys.tolist()), batch)


def cached(jdbc: Jdbc, rows: int) -> Callable[[DataFrame], DataFrame]:
    """All of R in Spark's memory, read once."""
    whole = jdbc.whole(rows).cache()
    whole.count()
    return partial(_joined, whole)


def _joined(rows_of_r: DataFrame, batch: DataFrame) -> DataFrame:
    return rows_of_r.join(F.broadcast(batch), F.col("k") == F.col("key")).select(*_JOINED)


def per_row(batch: DataFrame, url: str) -> DataFrame:
    """A statement for each row, in each of two tasks with a connection."""
    return batch.repartition(2).mapInArrow(partial(_ask, url=url), ANSWERS_DDL)


def _ask(batches: Iterator[pa.RecordBatch], url: str) -> Iterator[pa.RecordBatch]:
    to = sa.make_url(url)
    with (
        pymysql.connect(
            host=to.host,
            port=to.port or 0,
            user=to.username,
            password=to.password or "",
            database=to.database,
        ) as connection,
        connection.cursor() as cursor,
    ):
        for batch in batches:
            found: list[tuple[Any, ...]] = []
            for key in batch.column("key").to_pylist():
                cursor.execute(f"SELECT name, price, pad FROM {TABLE} WHERE k = %s", (key,))  # noqa: S608
                found += cursor.fetchall()
            columns = [pa.array(column) for column in zip(*found, strict=True)]
            if columns:
                yield pa.record_batch([*batch.columns, *columns], names=list(_JOINED))


def in_memory(batch: DataFrame, file: Path) -> DataFrame:
    """All of R, by key, in a file that Python processes map into their memory; no database is asked."""
    return batch.mapInArrow(partial(_take, file=file), ANSWERS_DDL)


def _take(batches: Iterator[pa.RecordBatch], file: Path) -> Iterator[pa.RecordBatch]:
    keys, rows = _whole(file)
    for batch in batches:
        at = np.searchsorted(keys, batch.column("key").to_numpy())
        found = rows.take(pa.array(at)).combine_chunks()
        columns = [found.column(name).combine_chunks() for name in _JOINED[2:]]
        yield pa.record_batch([*batch.columns, *columns], names=list(_JOINED))


@cache
def _whole(file: Path) -> tuple[np.ndarray[tuple[int], np.dtype[np.int64]], pa.Table]:
    whole = pa.ipc.open_file(pa.memory_map(str(file))).read_all().combine_chunks()
    return whole.column("k").to_numpy(), whole

"""The input of the contenders of a lookup: a relation in MariaDB, streams of its keys in files, and the
answers.

R has rows of about 120 bytes and every key that the streams name. DuckDB joins what was recorded; contenders
are held to the digests of its answers.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from endmark.pipeline import Relation
from endmark.relation.sql import SqlRelation
from endmark_benchmarks.harness.contest import Digest
from endmark_benchmarks.harness.digest import code, figures
from endmark_feed.zipf import zipf_keys

TABLE = "r"
SERVER_MEMORY = "3G"  # holds all of R, once it is warm
ANSWERS_DDL = "key bigint, id bigint, name string, price double, pad string"
STREAM_DDL = "key bigint, id bigint"
# Skew of the keys, by the names of the streams.
STREAMS = {"uniform": 0.0, "zipf": 1.0}
_COLUMNS = "k BIGINT PRIMARY KEY, price DOUBLE NOT NULL, name VARCHAR(40) NOT NULL, pad VARCHAR(80) NOT NULL"
_MADE = """
SELECT k, k * 0.5::DOUBLE AS price, 'name ' || k AS name, repeat('x', 70) AS pad
FROM range(1, ?) AS of_keys(k) ORDER BY k
"""
FIGURES = figures(
    code("id", "key"),
    code("CAST(SUBSTR(name, 6) AS BIGINT)", "CAST(price * 2 AS BIGINT)", "CHAR_LENGTH(pad)"),
)
_DIGESTS = f"""
SELECT {", ".join(FIGURES)} FROM (SELECT *, id // ? AS file FROM read_parquet(?) JOIN r ON key = k)
GROUP BY file ORDER BY file"""  # noqa: S608  # of constants


@dataclass(frozen=True)
class Sizes:
    """Rows of each stream, of a file of it, of R."""

    stream: int
    file: int
    relation: int


@dataclass(frozen=True)
class Recorded:
    """A directory of recorded input."""

    directory: Path

    def stream(self, name: str) -> Path:
        return self.directory / name

    @property
    def relation(self) -> Path:
        return self.directory / "relation.arrow"

    @property
    def database(self) -> Path:
        return self.directory / "mariadb"

    @property
    def whole(self) -> bool:
        return self._digests.exists()

    def digest(self, name: str, files: int) -> Digest:
        """Return the digest of the answers to the first files of a stream."""
        return Digest.total(json.loads(self._digests.read_text())[name][:files])

    def keep_digests(self, digests: dict[str, list[Digest]]) -> None:
        """Keep the digests of the answers, by stream and file."""
        self._digests.write_text(json.dumps(digests))

    @property
    def _digests(self) -> Path:
        return self.directory / "digests.json"


def record(recorded: Recorded, sizes: Sizes) -> None:
    """Write R, the streams, and the digests of the answers to them."""
    shutil.rmtree(recorded.directory, ignore_errors=True)
    recorded.directory.mkdir(parents=True)
    whole = made(sizes.relation)
    with pa.OSFile(str(recorded.relation), "wb") as file, pa.ipc.new_file(file, whole.schema) as writer:
        writer.write_table(whole)
    digests: dict[str, list[Digest]] = {}
    hot = np.random.default_rng(1).permutation(sizes.relation) + 1
    for name, exponent in STREAMS.items():
        random = np.random.default_rng(7)
        recorded.stream(name).mkdir()
        for number, first in enumerate(range(0, sizes.stream, sizes.file)):
            ids = np.arange(first, min(first + sizes.file, sizes.stream))
            ranks = zipf_keys(random, len(ids), exponent, sizes.relation)
            rows = recorded.stream(name) / f"{number:05d}.parquet"
            pq.write_table(pa.table({"key": hot[ranks - 1], "id": ids}), rows)
            os.utime(rows, (1e9 + number, 1e9 + number))  # Spark reads files in the order of their age
        with in_memory() as connection:
            connection.register("r", whole)
            files = str(recorded.stream(name) / "*.parquet")
            found = connection.execute(_DIGESTS, [sizes.file, files])
            digests[name] = [Digest(*each) for each in found.fetchall()]
    recorded.keep_digests(digests)


def in_memory() -> duckdb.DuckDBPyConnection:
    """DuckDB, without the bars that it draws into a report on standard output."""
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def made(rows: int) -> pa.Table:
    """R as it should be, by key."""
    with in_memory() as connection:
        return connection.execute(_MADE, [rows + 1]).to_arrow_table().combine_chunks()


def fill(url: str, rows: int, table: str = TABLE) -> None:
    """Make R in a MariaDB, unless it is there.

    Args:
        url: the database.
        rows: rows of R.
        table: the name of the table.
    """
    made = f"SELECT seq, seq * 0.5, concat('name ', seq), repeat('x', 70) FROM seq_1_to_{rows}"  # noqa: S608
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if not sa.inspect(engine).has_table(table):
            for statement in (
                f"CREATE OR REPLACE TABLE filling ({_COLUMNS})",
                f"INSERT INTO filling {made}",
                "ANALYZE TABLE filling",
                f"RENAME TABLE filling TO {table}",
            ):
                connection.execute(sa.text(statement))
    engine.dispose()


def version(url: str) -> str:
    """Return the version of the database server."""
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found: str = connection.execute(sa.text("SELECT version()")).scalar_one()
    engine.dispose()
    return found


def declared(url: str, table: str = TABLE) -> Relation:
    """R as a pipeline file has it."""
    columns = {"k": "long", "name": "string", "price": "double", "pad": "string"}
    return Relation.model_validate({"url": url, "table": table, "key": "k", "columns": columns})


def relation(url: str, table: str = TABLE) -> SqlRelation:
    """R as a job reads it."""
    return SqlRelation(declared(url, table))

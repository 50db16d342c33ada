"""Tables of master data in real databases, and readers of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from endmark.pipeline import Relation
from endmark.relation.backend import Backend, backend_of
from endmark.relation.fitness import exact_collation
from endmark.relation.sql import SqlRelation


@dataclass(frozen=True)
class Database:
    """A database in which a test makes tables as the database itself spells them."""

    url: str

    @property
    def backend(self) -> Backend:
        return backend_of(self.url)

    @property
    def is_sqlite(self) -> bool:
        return self.backend == "sqlite"

    def quoted(self, name: str) -> str:
        return f"`{name}`" if self.backend == "mysql" else f'"{name}"'

    @property
    def exact(self) -> str | None:
        """The type of a text that is compared as it is; None where there is none, as before MySQL 8.0.17."""
        if self.backend != "mysql":
            return {"sqlite": "TEXT", "postgresql": 'TEXT COLLATE "C"'}[self.backend]
        engine = sa.create_engine(self.url)
        with engine.connect() as connection:
            named = sa.text("SELECT 1 FROM information_schema.collations WHERE collation_name = :name")
            collation = exact_collation(connection.dialect)
            found = connection.execute(named, {"name": collation}).all()
        engine.dispose()
        return f"VARCHAR(60) CHARACTER SET utf8mb4 COLLATE {collation}" if found else None

    def run(self, *statements: str, **values: Any) -> None:
        """Run statements one after the other, each done when it returns."""
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(sa.text(statement), values)
        engine.dispose()

    def create(self, table: str, columns: str, rows: Sequence[Sequence[Any]] = ()) -> None:
        """A table of these columns and rows, in place of one of that name."""
        named = self.quoted(table)
        self.run(f"DROP TABLE IF EXISTS {named}", f"CREATE TABLE {named} ({columns})")
        if rows:
            engine = sa.create_engine(self.url, paramstyle="qmark" if self.is_sqlite else "format")
            places = ", ".join(["?" if self.is_sqlite else "%s"] * len(rows[0]))
            with engine.begin() as connection:
                statement = f"INSERT INTO {named} VALUES ({places})"  # noqa: S608
                connection.exec_driver_sql(statement, [tuple(row) for row in rows])
            engine.dispose()

    def reader(
        self,
        table: str,
        key: str | list[str],
        retry: str = "5s",
        say: Callable[[str], None] | None = None,
        **columns: str,
    ) -> SqlRelation:
        spec = {"url": self.url, "table": table, "key": key, "columns": columns, "retry": retry}
        return SqlRelation(Relation.model_validate(spec), say)


def rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def batch_of(reader: SqlRelation, keys: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    """Keys as a reader takes them."""
    schema = pa.schema([reader.schema.field(name) for name in reader.key])
    return pa.RecordBatch.from_pylist([dict(zip(reader.key, key, strict=True)) for key in keys], schema)

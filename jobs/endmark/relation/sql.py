"""Reads a relation in a SQL database, reached by an SQLAlchemy URL: MySQL, MariaDB, PostgreSQL, SQLite."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import sqlalchemy as sa

from endmark.errors import ConfigError
from endmark.relation import connection, queries
from endmark.relation.backend import backend_of
from endmark.relation.contract import PageDirectory
from endmark.relation.definition import columns_of, definition_of
from endmark.relation.fitness import compared_by, folded, require_fit, why_unpaged
from endmark.relation.outage import Patience
from endmark.relation.possible_keys import possible, slices
from endmark.relation.text_rows import TextRows
from endmark.relation.values import NotOfTypeError, from_driver, from_text, to_driver
from endmark.relation.walks import walked_tables
from endmark.state import codec
from endmark.state.keys import KeySpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from endmark.pipeline import Relation
    from endmark.relation.contract import KeyRange, KeyValues
    from endmark.relation.definition import Definition
    from endmark.relation.queries import Statement
    from endmark.types import ColumnType

    T = TypeVar("T")
    Rows = list[tuple[Any, ...]]

# The most ranges of one statement: enough that round trips do not matter, few enough for every optimiser.
RANGES_AT_ONCE = 16
# The most keys of one statement. A key costs client and server 6.9 µs in a list of 512, and 4.2 µs in one of
# 4,096.
KEYS_AT_ONCE = 4096
# The most keys of several columns: SQLite refuses conditions that are more than 1,000 deep. It is also the
# most keys of a view: MariaDB makes a table of a list of 1,000 values or more. It does not pass this table
# into a UNION, but walks through the tables of the view.
FEWER_KEYS_AT_ONCE = 512
# Up to this number of keys the driver's own rows take less time than columns: 0.42 against 0.63 ms for one
# key, 0.51 against 0.71 for ten, but 1.8 against 1.3 for 100 (a local MariaDB, medians of four runs in
# turns).
FEW_KEYS = 32
# The keys that are fetched of a relation without pages, to time reads of keys: the five lists of 2,000 that
# `operators.lookup.read_timing` reads.
SAMPLED_KEYS = 10_000


class SqlRelation:
    """Reads one table by key, and repeats reads while the database does not answer.

    Args:
        relation: the relation of the pipeline file.
        say: called with a message when a read waits for the database; `None` keeps silent.
    """

    def __init__(self, relation: Relation, say: Callable[[str], None] | None = None) -> None:
        self._relation = relation
        self._name = f"relation {relation.table!r}"
        self._patience = Patience(self._name, relation.retry.total_seconds(), say)
        self._backend = backend_of(relation.url)
        compared = tuple(compared_by(relation, self._backend).items())
        self._source = queries.ReadTable(relation.table, tuple(relation.columns), relation.key, compared)
        self.schema = pa.schema([(name, kind.arrow) for name, kind in relation.columns.items()])
        self._there: Definition | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return self._relation.key

    def directory(self, page_rows: int) -> PageDirectory:
        """Read the directory of pages of `page_rows` rows from the key's index.

        Only a page of a single key may have more rows. If the relation cannot be read by pages, the directory
        says why.
        """
        if (why := self._unpaged) is not None:
            some = self._fetch(queries.some_keys(self._source, SAMPLED_KEYS, self._dialect), [])
            return PageDirectory.without_pages(self._keys(some), why)
        return PageDirectory(self._keys(list(self._lower_keys(page_rows))))

    def pages(self, ranges: list[KeyRange]) -> pa.RecordBatch:
        """Return all rows of ascending, disjoint key ranges, ordered by key. A range is never divided.

        Raises:
            ConfigError: the relation cannot be read by pages, perhaps since it was altered.
        """
        if (why := self._unpaged) is not None:
            raise ConfigError(why)
        bound = self._driver_ranges(ranges)
        starts = range(0, len(bound), RANGES_AT_ONCE)
        return self._together(self._rows_between(bound[at : at + RANGES_AT_ONCE]) for at in starts)

    def read_keys(self, keys: pa.RecordBatch) -> pa.RecordBatch:
        """Return all rows of distinct keys."""
        keys = possible(keys, self._backend, self._definition.columns, self._folded)
        fewer = len(self.key) > 1 or self._definition.is_view
        at_once = FEWER_KEYS_AT_ONCE if fewer else KEYS_AT_ONCE
        return self._together(map(self._rows_of, slices(keys, at_once)))

    def check(self, *, unique: bool = True, versions: str | None = None) -> None:
        """Check that the table can be read as declared.

        Args:
            unique: whether each key may have one row only.
            versions: a column that tells the rows of one key apart; `None` if a key has no versions.

        Raises:
            ConfigError: the table cannot be read so. The text says what mends it.
            RelationUnreachableError: the database does not answer.
        """
        there = self._required()
        if self._backend == "sqlite":
            odd = queries.odd_key(self._source, self._relation.columns, self._dialect)
            for key in self._fetch(odd, []):
                raise ConfigError(
                    f"{self._name}: key {_spelt(self.key, key)} is stored as no {self._key_kinds} would be, "
                    "so it would never be found; write dates as 2026-01-31, times as 2026-01-31 "
                    "23:59:59.000000"
                )
        if there.is_view:
            self._require_found()
        distinct = self.key if versions is None else (*self.key, versions)
        mend = ", name more key columns, or set lookup.cardinality: many_to_many" if versions is None else ""
        # The keys of a view are not counted, since the database would compute all of it. Each read finds
        # repeated keys.
        if unique and not there.is_view and not there.is_unique(distinct):
            source = replace(self._source, key=distinct)
            by_bytes = tuple(self._folded)
            for *repeated, times in self._fetch(queries.repeated_key(source, by_bytes, self._dialect), []):
                raise ConfigError(
                    f"{self._name}: key {_spelt(distinct, repeated)} occurs {times} times, but a row has one "
                    f"match at most; remove rows{mend}"
                )

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Wrap the reads of one batch, which wait for the database no longer than `retry` in all.

        A table that was altered before the batch is read if it still fits its declaration. A table that is
        altered during the batch stops it, since pages in two different orders do not fit together.

        Raises:
            ConfigError: the table does not fit its declaration, or was altered since the batch began.
            RelationUnreachableError: the database does not answer.
        """
        self._patience.renew()
        before = self._required()
        yield
        after = self._patience.retried(lambda: self._asked(columns_of))
        if changed := [name for name in self._relation.columns if before.columns[name] != after.get(name)]:
            raise ConfigError(
                f"{self._name}: column {', '.join(changed)} was altered while a batch read it, and the batch "
                "was given up; start the job again"
            )

    def _required(self) -> Definition:
        """Read the definition of the table, and refuse a table that does not fit its declaration."""
        there = self._patience.retried(lambda: self._asked(definition_of))
        if not there.columns:
            tables = self._patience.retried(lambda: _names(sa.inspect(self._engine)))
            raise ConfigError(
                f"{self._name}: the database has no such table, only: {', '.join(tables) or 'none'}; name "
                "one of these in `table`, or rename it back, and start the job again"
            )
        require_fit(self._relation, there, self._dialect)
        self._there = there
        return there

    def _require_found(self) -> None:
        """Refuse a view of which the database finds a key by walking through a whole table.

        The plan is that for a key of the view, since MySQL plans no further once it sees that a key is
        absent. A view without rows is not checked.
        """
        found = self._fetch(queries.some_keys(self._source, 1, self._dialect), [])
        statement = queries.rows_of(self._source, 1, self._dialect)

        def walked() -> list[str]:
            with connection.connected(self._engine) as connected:
                return walked_tables(connected, statement.text, statement.bind(found))

        try:
            tables = self._patience.retried(walked) if found else []
        except ConfigError as error:
            raise ConfigError(
                f"{error}; a view is read only if its plan can be asked for, for which MySQL and MariaDB "
                "demand SHOW VIEW on the view and SELECT on its tables"
            ) from error
        if tables:
            raise ConfigError(
                f"{self._name} is a view, and to find one key of it the database would walk through all of "
                f"{', '.join(tables)}; create an index there by the columns that the view's key comes from "
                "or that the view joins on, or name a table"
            )

    @property
    def _definition(self) -> Definition:
        """The table's definition when it was last checked, or first read."""
        if self._there is None:
            self._there = self._patience.retried(lambda: self._asked(definition_of))
        return self._there

    @property
    def _unpaged(self) -> str | None:
        return why_unpaged(self._relation, self._definition, self._dialect)

    @property
    def _folded(self) -> dict[str, str]:
        if self._backend != "mysql" or not any(map(pa.types.is_string, self._key_schema.types)):
            return {}
        return folded(self._relation, self._definition, self._dialect)

    @property
    def _key_schema(self) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in self.key])

    def _keys(self, rows: Rows) -> pa.RecordBatch:
        """Return keys as columns, given the driver's own values."""
        columns = zip(*rows, strict=True) if rows else [()] * len(self.key)
        arrays = [
            self._column(name, column, self._from_driver)
            for name, column in zip(self.key, columns, strict=True)
        ]
        return pa.record_batch(arrays, schema=self._key_schema)

    def _asked(self, ask: Callable[[sa.Connection, str], T]) -> T:
        with connection.connected(self._engine) as connected:
            return ask(connected, self._relation.table)

    @property
    def _key_kinds(self) -> str:
        return ", ".join(str(self._relation.columns[name]) for name in self.key)

    def _lower_keys(self, page_rows: int) -> Iterator[KeyValues]:
        """The lower keys of pages in the driver's own values, by one short read of the index for each."""
        found = self._fetch(queries.first_key(self._source, self._dialect), [])
        while found:
            low = found[0]
            yield low
            found = self._fetch(queries.key_after(self._source, page_rows, self._dialect), found)
            if found == [low]:  # this key has more rows than a page
                found = self._fetch(queries.key_above(self._source, self._dialect), found)

    def _rows_between(self, ranges: Sequence[KeyRange]) -> pa.RecordBatch:
        """Read the rows of ranges whose bounds are the driver's own values."""
        shapes = tuple((low is not None, high is not None) for low, high in ranges)
        bounds = [bound for pair in ranges for bound in pair if bound is not None]
        statement = queries.rows_between(self._source, shapes, self._dialect)
        return self._read(statement, bounds, connection.fetch_rows)

    def _rows_of(self, asked: pa.RecordBatch) -> pa.RecordBatch:
        """Read the rows of at least one key."""
        keys = self._driver_keys(asked)
        # Lists are filled up to a power of two, so that there are few texts of statements. The last key fills
        # the list; the database answers a key that stands twice once.
        size = 1 << (len(keys) - 1).bit_length()
        statement = queries.rows_of(self._source, size, self._dialect)
        fetch = connection.fetch if size <= FEW_KEYS else connection.fetch_rows
        found = self._read(statement, keys + keys[-1:] * (size - len(keys)), fetch)
        return self._of_equal_bytes(found, asked) if self._folded else found

    def _of_equal_bytes(self, found: pa.RecordBatch, asked: pa.RecordBatch) -> pa.RecordBatch:
        """Leave out rows whose key only the database takes for one that was asked for.

        Two statements may find the same row, for 'a' and for 'A'; it belongs to one of them.
        """
        spec = KeySpec.of(self.key, self._key_schema.types)
        wanted = spec.keys(spec.sorted(spec.coded(asked.rename_columns(list(self.key)))))
        return found.filter(pa.array(spec.keys(spec.coded(found)).among(wanted)))

    def _read(
        self, statement: Statement, keys: Sequence[KeyValues], fetch: Callable[..., TextRows | Rows]
    ) -> pa.RecordBatch:
        """Run a statement, and return its rows as R's columns.

        Args:
            statement: the statement, which selects all of R's columns.
            keys: the keys for its placeholders.
            fetch: `fetch` or `fetch_rows` of `relation.connection`.
        """
        rows = self._retried(fetch, statement, keys)
        if isinstance(rows, TextRows):
            named = zip(self._relation.columns, rows.columns(), strict=True)
            arrays = [self._column(name, column, from_text) for name, column in named]
        else:
            given = list(zip(*rows, strict=True)) if rows else [()] * len(self.schema)
            named = zip(self._relation.columns, given, strict=True)
            arrays = [self._column(name, column, self._from_driver) for name, column in named]
        return pa.record_batch(arrays, schema=self.schema)

    def _together(self, batches: Iterator[pa.RecordBatch]) -> pa.RecordBatch:
        found = list(batches)
        return codec.concat(found) if found else pa.RecordBatch.from_pylist([], self.schema)

    def _fetch(self, statement: Statement, keys: Sequence[KeyValues]) -> Rows:
        return self._retried(connection.fetch, statement, keys)

    def _retried(self, fetch: Callable[..., T], statement: Statement, keys: Sequence[KeyValues]) -> T:
        def read() -> T:
            with connection.connected(self._engine) as connected:
                return fetch(connected, statement.text, statement.bind(keys))

        return self._patience.retried(read)

    def _driver_ranges(self, ranges: Sequence[KeyRange]) -> list[KeyRange]:
        bounds = [bound for pair in ranges for bound in pair if bound is not None]
        columns = zip(*bounds, strict=True) if bounds else [()] * len(self.key)
        fields = self._key_schema
        arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
        taken = iter(self._driver_keys(pa.record_batch(arrays, schema=fields)))
        return [(low and next(taken), high and next(taken)) for low, high in ranges]

    def _driver_keys(self, keys: pa.RecordBatch) -> list[KeyValues]:
        kinds = self._relation.columns
        columns = [to_driver(keys.column(name), kinds[name], self._backend) for name in self.key]
        return list(zip(*columns, strict=True))

    def _from_driver(self, values: Sequence[Any], kind: ColumnType) -> pa.Array:
        return from_driver(values, kind, self._backend)

    def _column(self, name: str, values: Any, of: Callable[[Any, ColumnType], pa.Array]) -> pa.Array:
        try:
            return of(values, self._relation.columns[name])
        except NotOfTypeError as error:
            raise ConfigError(
                f"{self._name}: column {name!r}: {error}; mend the row, or declare the column as it is"
            ) from error

    @property
    def _engine(self) -> sa.Engine:
        # The engine is no attribute, since a reader is sent to tasks, and connections cannot be sent.
        return connection.engine(self._relation.url, self._patience.answer_seconds)

    @property
    def _dialect(self) -> sa.Dialect:
        return self._engine.dialect


def _names(inspector: sa.Inspector) -> list[str]:
    return [*inspector.get_table_names(), *inspector.get_view_names()]


def _spelt(names: Sequence[str], values: Sequence[Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))

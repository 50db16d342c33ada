"""The statements that read a relation. They quote names, bind values and use the key's index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from endmark.domain import Domain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from endmark.relation.contract import KeyValues
    from endmark.types import ColumnType

Condition = sa.ColumnElement[bool]
Bound = tuple[sa.BindParameter[Any], ...]
Comparison = Callable[[Any, Any], Any]
_DAY = "[0-9]" * 4 + ("-" + "[0-9]" * 2) * 2
_TIME = " " + ":".join(["[0-9]" * 2] * 3) + "." + "[0-9]" * 6


@dataclass(frozen=True)
class Statement:
    """A statement with placeholders for values of keys.

    Args:
        text: SQL with the driver's own placeholders.
        placeholders: for each placeholder the number of a key, and of its column.
    """

    text: str
    placeholders: tuple[tuple[int, int], ...]

    def bind(self, keys: Sequence[KeyValues]) -> tuple[Any, ...]:
        """Return the values of the placeholders in their order."""
        return tuple(keys[at][column] for at, column in self.placeholders)


@dataclass(frozen=True)
class ReadTable:
    """The table that statements read.

    Args:
        table: the name of the table.
        columns: the names of its columns, including the key.
        key: the names of its key columns.
        compared: pairs of key column and collation; statements name this collation for the column.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    compared: tuple[tuple[str, str], ...] = ()

    def column(self, name: str) -> sa.ColumnElement[Any]:
        """Return a key column as statements compare it."""
        column: sa.ColumnElement[Any] = _column(name)
        collation = dict(self.compared).get(name)
        return column.collate(collation) if collation else column

    def ordered(self, columns: Sequence[str]) -> sa.Select[Any]:
        """Return a query for columns of all rows whose key has no null, in the order of keys."""
        query = sa.select(*(_column(name) for name in columns)).select_from(_table(self.table))
        return query.where(*self.present()).order_by(*(self.column(name) for name in self.key))

    def present(self) -> list[Condition]:
        """Return the conditions that no key column is null."""
        return [_column(name).is_not(None) for name in self.key]

    def bound(self, at: int) -> Bound:
        """Return the parameters for the values of the key with number `at`."""
        return tuple(sa.bindparam(f"k{at}_{number}") for number in range(len(self.key)))

    def equal(self, bound: Bound) -> list[Condition]:
        """Return the conditions that the first key columns equal the parameters, as many as there are."""
        return [self.column(name) == value for name, value in zip(self.key, bound, strict=False)]

    def from_on(self, bound: Bound) -> Condition:
        """Return the condition that a key is not below the parameters."""
        return self._past(bound, gt, ge)

    def above(self, bound: Bound) -> Condition:
        """Return the condition that a key is above the parameters."""
        return self._past(bound, gt, gt)

    def below(self, bound: Bound) -> Condition:
        """Return the condition that a key is below the parameters."""
        return self._past(bound, lt, lt)

    def _past(self, bound: Bound, past: Comparison, last: Comparison) -> Condition:
        """Compare a key with parameters column by column, since servers find no index for `(a, b) > (?, ?)`.

        Args:
            bound: the parameters, one for each key column.
            past: the comparison of a column other than the last, `gt` or `lt`.
            last: the comparison of the last column.
        """
        how = [past] * (len(bound) - 1) + [last]
        steps = [
            sa.and_(*self.equal(bound[:at]), how[at](self.column(name), bound[at]))
            for at, name in enumerate(self.key)
        ]
        if len(steps) == 1:
            return steps[0]
        # The steps imply this first condition. With it SQLite walks its index in order; for the `OR` alone it
        # sorts.
        or_equal = ge if past is gt else le
        return sa.and_(or_equal(self.column(self.key[0]), bound[0]), sa.or_(*steps))


@lru_cache(maxsize=64)
def first_key(source: ReadTable, dialect: sa.Dialect) -> Statement:
    """Return a statement for the smallest key."""
    return _compiled(_limited(source.ordered(source.key)), dialect)


@lru_cache(maxsize=64)
def key_above(source: ReadTable, dialect: sa.Dialect) -> Statement:
    """Return a statement for the smallest key above another one."""
    above = source.above(source.bound(0))
    return _compiled(_limited(source.ordered(source.key).where(above)), dialect)


@lru_cache(maxsize=64)
def key_after(source: ReadTable, rows: int, dialect: sa.Dialect) -> Statement:
    """Return a statement for the key of the row that stands `rows` rows behind the first row of a given key.

    Args:
        source: the table.
        rows: the number of rows.
        dialect: the SQL dialect of the database.
    """
    low = source.from_on(source.bound(0))
    return _compiled(_limited(source.ordered(source.key).where(low), behind=rows), dialect)


@lru_cache(maxsize=64)
def rows_between(source: ReadTable, shapes: tuple[tuple[bool, bool], ...], dialect: sa.Dialect) -> Statement:
    """Return a statement for all rows of some ranges of keys, whose bounds are its parameters in order.

    Args:
        source: the table.
        shapes: for each range, whether it has a lower bound, and whether it has an upper one.
        dialect: the SQL dialect of the database.
    """
    ranges, at = [], 0
    for has_low, has_high in shapes:
        low, high, at = at, at + has_low, at + has_low + has_high
        conditions: list[Condition] = [sa.true()]
        # MariaDB tries the ranges one by one on each row that it has read by them, and most fail by their
        # upper bound. With that one first, 64 pages of 500 rows cost it 14.1 ms instead of 15.7; as one range
        # 10.7.
        if has_high:
            conditions.append(source.below(source.bound(high)))
        if has_low:
            conditions.append(source.from_on(source.bound(low)))
        ranges.append(sa.and_(*conditions))
    ordered = source.ordered(source.columns)
    if dialect.name == "sqlite" and len(ranges) > 1:
        # To order an `OR` of ranges SQLite 3.40 reads the whole table: 64 pages of 500 rows, in half a
        # million, took 5.6 ms each, and one range after the other 0.5 ms.
        parts = [sa.select(sa.text("*")).select_from(ordered.where(each).subquery()) for each in ranges]
        return _compiled(sa.union_all(*parts), dialect)
    return _compiled(ordered.where(sa.or_(*ranges)), dialect)


@lru_cache(maxsize=64)
def rows_of(source: ReadTable, keys: int, dialect: sa.Dialect) -> Statement:
    """Return a statement for all rows of some keys, which are its parameters.

    Args:
        source: the table.
        keys: the number of keys.
        dialect: the SQL dialect of the database.
    """
    bounds = [source.bound(at) for at in range(keys)]
    if len(source.key) == 1:
        condition: Condition = source.column(source.key[0]).in_([value for (value,) in bounds])
    else:
        condition = sa.or_(*(sa.and_(*source.equal(bound)) for bound in bounds))
    return _compiled(source.ordered(source.columns).where(condition), dialect)


@lru_cache(maxsize=64)
def some_keys(source: ReadTable, rows: int, dialect: sa.Dialect) -> Statement:
    """Return a statement for the keys of any rows.

    Args:
        source: the table.
        rows: the number of rows.
        dialect: the SQL dialect of the database.
    """
    query = sa.select(*(_column(name) for name in source.key)).select_from(_table(source.table))
    return _compiled(_limited(query.where(*source.present()), rows), dialect)


@lru_cache(maxsize=64)
def repeated_key(source: ReadTable, folded: tuple[str, ...], dialect: sa.Dialect) -> Statement:
    """Return a statement for one key that several rows have, and the number of these rows.

    Args:
        source: the table.
        folded: the key columns whose bytes are compared, since the database takes different texts for equal.
        dialect: the SQL dialect of the database.
    """
    key = [source.column(name) for name in source.key]
    query = sa.select(*key, sa.func.count()).select_from(_table(source.table)).where(*source.present())
    groups = [*key, *(sa.cast(_column(name), sa.BINARY()) for name in folded)]
    return _compiled(_limited(query.group_by(*groups).having(sa.func.count() > _number(1))), dialect)


def odd_key(source: ReadTable, kinds: Mapping[str, ColumnType], dialect: sa.Dialect) -> Statement:
    """Return a statement for one key that SQLite stores in another spelling than lookups ask for.

    Args:
        source: the table.
        kinds: the declared types of its columns, by name.
        dialect: the SQL dialect of the database.
    """
    odd = [sa.not_(_spelt(_column(name), kinds[name].domain)) for name in source.key]
    return _compiled(_limited(source.ordered(source.key).where(sa.or_(*odd))), dialect)


def _spelt(column: sa.ColumnElement[Any], kind: Domain) -> Condition:
    """The condition that SQLite stores a value in the spelling that lookups ask for."""
    stored = {Domain.LONG: "'integer'", Domain.BOOLEAN: "'integer'", Domain.DECIMAL: "'integer', 'real'"}
    pattern = {Domain.DATE: _DAY, Domain.TIMESTAMP: _DAY + _TIME}.get(kind, "*")
    types: sa.ColumnElement[str] = sa.literal_column("(" + stored.get(kind, "'text'") + ")")
    like: sa.ColumnElement[str] = sa.literal_column(f"'{pattern}'")
    return sa.and_(sa.func.typeof(column).op("IN")(types), column.op("GLOB")(like))


def _column(name: str) -> sa.ColumnElement[Any]:
    return sa.column(quoted(name))


def _table(name: str) -> sa.TableClause:
    return sa.table(quoted(name))


def quoted(name: str) -> sa.quoted_name:
    """Return a name that SQLAlchemy always puts in quotes."""
    # Later versions of MySQL reserve words that SQLAlchemy does not quote by itself: LIBRARY, EXTERNAL.
    return sa.quoted_name(name, quote=True)


def _limited(query: sa.Select[Any], rows: int = 1, behind: int = 0) -> sa.Select[Any]:
    return query.limit(_number(rows)).offset(_number(behind))


def _number(value: int) -> sa.ColumnElement[int]:
    # A number is a part of the text, since only keys are bound.
    return sa.literal_column(str(int(value)))


def _compiled(query: sa.Select[Any] | sa.CompoundSelect[Any], dialect: sa.Dialect) -> Statement:
    compiled = query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    placeholders = [name[1:].partition("_")[::2] for name in compiled.positiontup or ()]
    return Statement(compiled.string, tuple((int(at), int(column)) for at, column in placeholders))

"""The statements that read a relation: names quoted, values bound, each by way of the key's index."""

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
    """A statement in a driver's text, and the key and column that each of its placeholders takes."""

    text: str
    places: tuple[tuple[int, int], ...]

    def bind(self, keys: Sequence[KeyValues]) -> tuple[Any, ...]:
        return tuple(keys[at][column] for at, column in self.places)


@dataclass(frozen=True)
class ReadTable:
    """A table of the database that is read.

    Args:
        columns, key: names of its columns, the key among them.
        compared: collations of key columns that the database is told to compare by them.
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
        """Return the part of a statement that selects rows with a key, in the order of keys."""
        query = sa.select(*(_column(name) for name in columns)).select_from(_table(self.table))
        return query.where(*self.present()).order_by(*(self.column(name) for name in self.key))

    def present(self) -> list[Condition]:
        return [_column(name).is_not(None) for name in self.key]

    def bound(self, at: int) -> Bound:
        return tuple(sa.bindparam(f"k{at}_{number}") for number in range(len(self.key)))

    def equal(self, bound: Bound) -> list[Condition]:
        return [self.column(name) == value for name, value in zip(self.key, bound, strict=False)]

    def from_on(self, bound: Bound) -> Condition:
        return self._past(bound, gt, ge)

    def above(self, bound: Bound) -> Condition:
        return self._past(bound, gt, gt)

    def below(self, bound: Bound) -> Condition:
        return self._past(bound, lt, lt)

    def _past(self, bound: Bound, past: Comparison, last: Comparison) -> Condition:
        """Column by column, since servers find no index for `(a, b) > (?, ?)`."""
        how = [past] * (len(bound) - 1) + [last]
        steps = [
            sa.and_(*self.equal(bound[:at]), how[at](self.column(name), bound[at]))
            for at, name in enumerate(self.key)
        ]
        if len(steps) == 1:
            return steps[0]
        # What the steps imply: for this SQLite walks its index in order; for an `OR` alone it sorts.
        or_equal = ge if past is gt else le
        return sa.and_(or_equal(self.column(self.key[0]), bound[0]), sa.or_(*steps))


@lru_cache(maxsize=64)
def first_key(source: ReadTable, dialect: sa.Dialect) -> Statement:
    """Return a statement for the smallest key."""
    return _compiled(_one(source.ordered(source.key)), dialect)


@lru_cache(maxsize=64)
def key_above(source: ReadTable, dialect: sa.Dialect) -> Statement:
    """Return a statement for the smallest key above another one."""
    above = source.above(source.bound(0))
    return _compiled(_one(source.ordered(source.key).where(above)), dialect)


@lru_cache(maxsize=64)
def key_after(source: ReadTable, rows: int, dialect: sa.Dialect) -> Statement:
    """Return a statement for the key of the row that is `rows` rows behind the first row of a key.

    Args:
        source: the relation.
        rows: a number of rows.
        dialect: the SQL of its database.
    """
    low = source.from_on(source.bound(0))
    return _compiled(_one(source.ordered(source.key).where(low), behind=rows), dialect)


@lru_cache(maxsize=64)
def rows_between(source: ReadTable, shapes: tuple[tuple[bool, bool], ...], dialect: sa.Dialect) -> Statement:
    """Return a statement for all rows of some ranges of keys.

    Args:
        source: the relation.
        shapes: for each range, whether it has a lower and an upper bound. The bounds are its parameters in
            turn.
        dialect: the SQL of its database.
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
    return _compiled(source.ordered(source.columns).where(sa.or_(*ranges)), dialect)


@lru_cache(maxsize=64)
def rows_of(source: ReadTable, keys: int, dialect: sa.Dialect) -> Statement:
    """Return a statement for all rows of some keys.

    Args:
        source: the relation.
        keys: the number of keys, which are its parameters.
        dialect: the SQL of its database.
    """
    bounds = [source.bound(at) for at in range(keys)]
    if len(source.key) == 1:
        condition: Condition = source.column(source.key[0]).in_([value for (value,) in bounds])
    else:
        condition = sa.or_(*(sa.and_(*source.equal(bound)) for bound in bounds))
    return _compiled(source.ordered(source.columns).where(condition), dialect)


@lru_cache(maxsize=64)
def repeated_key(source: ReadTable, dialect: sa.Dialect) -> Statement:
    """Return a statement for a key of several rows, and their number."""
    key = [source.column(name) for name in source.key]
    query = sa.select(*key, sa.func.count()).select_from(_table(source.table)).where(*source.present())
    return _compiled(_one(query.group_by(*key).having(sa.func.count() > _number(1))), dialect)


def odd_key(source: ReadTable, kinds: Mapping[str, ColumnType], dialect: sa.Dialect) -> Statement:
    """Return a statement for a key that SQLite stores in another spelling than lookups ask for.

    Args:
        source: the relation.
        kinds: the types of its columns, by name.
        dialect: the SQL of its database.
    """
    odd = [sa.not_(_spelt(_column(name), kinds[name].domain)) for name in source.key]
    return _compiled(_one(source.ordered(source.key).where(sa.or_(*odd))), dialect)


def _spelt(column: sa.ColumnElement[Any], kind: Domain) -> Condition:
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
    """Return a name as statements spell it."""
    # Later versions of MySQL reserve words that SQLAlchemy does not know as such: LIBRARY, EXTERNAL.
    return sa.quoted_name(name, quote=True)


def _one(query: sa.Select[Any], behind: int = 0) -> sa.Select[Any]:
    return query.limit(_number(1)).offset(_number(behind))


def _number(value: int) -> sa.ColumnElement[int]:
    # As text, since keys alone are bound.
    return sa.literal_column(str(int(value)))


def _compiled(query: sa.Select[Any], dialect: sa.Dialect) -> Statement:
    compiled = query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    places = [name[1:].partition("_")[::2] for name in compiled.positiontup or ()]
    return Statement(compiled.string, tuple((int(at), int(column)) for at, column in places))

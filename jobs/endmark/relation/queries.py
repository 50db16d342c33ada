"""The statements that read a relation: names quoted, values bound, each by way of the key's index."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import gt, lt
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from endmark.relation.contract import KeyValues

Condition = sa.ColumnElement[bool]
Bound = tuple[sa.BindParameter[Any], ...]


@dataclass(frozen=True)
class Statement:
    """A statement in a driver's text, and which key's which column each of its places takes."""

    text: str
    places: tuple[tuple[int, int], ...]

    def bind(self, keys: Sequence[KeyValues]) -> tuple[Any, ...]:
        return tuple(keys[at][column] for at, column in self.places)


@dataclass(frozen=True)
class Source:
    """The table that is read.

    Args:
        columns, key: names of its columns, the key among them.
        exact: key columns that the database is told to compare by their bytes, whatever it was told before.
    """

    table: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    exact: frozenset[str] = frozenset()

    def column(self, name: str) -> sa.ColumnElement[Any]:
        """A key column as it is compared."""
        column: sa.ColumnElement[Any] = sa.column(name)
        return column.collate("BINARY") if name in self.exact else column

    def ordered(self, columns: Sequence[str]) -> sa.Select[Any]:
        query = sa.select(*(sa.column(name) for name in columns)).select_from(sa.table(self.table))
        return query.order_by(*(self.column(name) for name in self.key))

    def bound(self, at: int) -> Bound:
        return tuple(sa.bindparam(f"k{at}_{number}") for number in range(len(self.key)))

    def present(self) -> list[Condition]:
        return [sa.column(name).is_not(None) for name in self.key]

    def equal(self, bound: Bound) -> list[Condition]:
        return [self.column(name) == value for name, value in zip(self.key, bound, strict=False)]

    def beyond(self, bound: Bound, passes: Callable[[Any, Any], Any], or_equal: bool = False) -> Condition:
        """Keys past a bound. Spelled out, since servers find no index for `(a, b) > (?, ?)`."""
        steps = [
            sa.and_(*self.equal(bound[:at]), passes(self.column(name), bound[at]))
            for at, name in enumerate(self.key)
        ]
        return sa.or_(*steps, sa.and_(*self.equal(bound))) if or_equal else sa.or_(*steps)


@lru_cache(maxsize=64)
def first_key(source: Source, dialect: sa.Dialect) -> Statement:
    """The smallest key."""
    return _compiled(_nth_key(source, 0).where(*source.present()), dialect)


@lru_cache(maxsize=64)
def key_above(source: Source, dialect: sa.Dialect) -> Statement:
    """The smallest key above another."""
    above = source.beyond(source.bound(0), gt)
    return _compiled(_nth_key(source, 0).where(above), dialect)


@lru_cache(maxsize=64)
def key_after(source: Source, rows: int, dialect: sa.Dialect) -> Statement:
    """The key of the row that is so many behind the first one of a key."""
    low = source.beyond(source.bound(0), gt, or_equal=True)
    return _compiled(_nth_key(source, rows).where(low), dialect)


@lru_cache(maxsize=64)
def rows_between(source: Source, shapes: tuple[tuple[bool, bool], ...], dialect: sa.Dialect) -> Statement:
    """All rows of ranges, whose lower and upper bounds, where they have one, are the keys in turn."""
    ranges, at = [], 0
    for has_low, has_high in shapes:
        conditions = [] if has_low else source.present()
        if has_low:
            conditions.append(source.beyond(source.bound(at), gt, or_equal=True))
            at += 1
        if has_high:
            conditions.append(source.beyond(source.bound(at), lt))
            at += 1
        ranges.append(sa.and_(*conditions))
    return _compiled(source.ordered(source.columns).where(sa.or_(*ranges)), dialect)


@lru_cache(maxsize=64)
def rows_of(source: Source, keys: int, dialect: sa.Dialect) -> Statement:
    """All rows of so many keys."""
    bounds = [source.bound(at) for at in range(keys)]
    if len(source.key) == 1:
        condition: Condition = source.column(source.key[0]).in_([value for (value,) in bounds])
    else:
        condition = sa.or_(*(sa.and_(*source.equal(bound)) for bound in bounds))
    return _compiled(source.ordered(source.columns).where(condition), dialect)


def _nth_key(source: Source, number: int) -> sa.Select[Any]:
    # Numbers as text, since keys alone are bound.
    one: sa.ColumnElement[int] = sa.literal_column("1")
    skipped: sa.ColumnElement[int] = sa.literal_column(str(int(number)))
    return source.ordered(source.key).limit(one).offset(skipped)


def _compiled(query: sa.Select[Any], dialect: sa.Dialect) -> Statement:
    compiled = query.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
    places = [name[1:].partition("_")[::2] for name in compiled.positiontup or ()]
    return Statement(compiled.string, tuple((int(at), int(column)) for at, column in places))

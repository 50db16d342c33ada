"""The registry of measure functions, such as `sum`: each with its value for a group and its class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from endmark.domain import DECIMAL_DIGITS, Domain
from endmark.types import ColumnType

if TYPE_CHECKING:
    from types import ModuleType

    from endmark.operators.group_by.measures import MeasureSpec


@dataclass(frozen=True)
class Function:
    """A function that makes a measure from the values of a group.

    To add one, write its class in `operators.group_by.functions`, an entry of `FUNCTIONS`, and an entry of
    `verify`'s own table.

    Args:
        doc: the value of the function, in the words of docs/semantics/measures.md.
        implementation: returns the class that folds Arrow columns.
        result: returns the type of the function's value, given the type of its column.
        adds: whether the function adds values, and so takes numbers only.
        by_order: whether the function picks a value by the order of rows.
    """

    doc: str
    implementation: Callable[[], type[MeasureSpec]]
    result: Callable[[ColumnType], ColumnType]
    adds: bool = False
    by_order: bool = False


def same(of: ColumnType) -> ColumnType:
    """Return the result type of a function whose value is one of the column's values."""
    return of


def several(of: ColumnType) -> ColumnType:
    """Return the result type of a function whose value is an array of the column's values."""
    return of.array


def _number(_: ColumnType) -> ColumnType:
    return ColumnType.LONG


def _sum(of: ColumnType) -> ColumnType:
    return ColumnType.decimal(DECIMAL_DIGITS, of.scale) if of.domain is Domain.DECIMAL else of


def _average(_: ColumnType) -> ColumnType:
    return ColumnType.DOUBLE


def _classes() -> ModuleType:
    """Import the classes only when a group-by is planned, since a pipeline file is checked without Arrow."""
    from endmark.operators.group_by import functions

    return functions


FUNCTIONS = {
    "count": Function("the number of results, a long", lambda: _classes().Count, _number),
    "sum": Function(
        "exact: of longs a long, of decimals one of 38 digits, of doubles the double nearest to the sum; "
        "null if the type has no such number, or if a value is infinite or NaN",
        lambda: _classes().Sum,
        _sum,
        adds=True,
    ),
    "min": Function("the least value", lambda: _classes().Min, same),
    "max": Function("the greatest value; NaN is greater than all numbers", lambda: _classes().Max, same),
    "avg": Function(
        "a double: the sum, rounded to one, over the number of values",
        lambda: _classes().Average,
        _average,
        adds=True,
    ),
    "first": Function(
        "the value of the first row, by event time, then partition and offset of the stream's row; on frames "
        "by the named columns; then the least value, since a stream's row may match several of R",
        lambda: _classes().First,
        same,
        by_order=True,
    ),
    "last": Function(
        "the value of the last row, in the same order; then the greatest value",
        lambda: _classes().Last,
        same,
        by_order=True,
    ),
    "count_distinct": Function(
        "the number of different values, a long; exact", lambda: _classes().CountDistinct, _number
    ),
    "sorted": Function(
        "an array of all values, repeated ones too, the least first; empty if there are none",
        lambda: _classes().Sorted,
        several,
    ),
}

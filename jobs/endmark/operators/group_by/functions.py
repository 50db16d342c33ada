"""The functions of measures: one class for each name in a pipeline file, which folds Arrow columns.

No measure depends on the order of rows. Sums are exact until a group ends. `First` and `Last` compare the
order of the row that a value comes from, then the value, since a row may have met several rows of R. All
measures but `Count` ignore nulls.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from endmark.operators.group_by.measures import MeasureSpec, input_name
from endmark.operators.group_by.spread_measures import Digits, DistinctValues, SortedValues

if TYPE_CHECKING:
    from endmark.operators.group_by.spread_measures import Spread

_LONGS = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Count(MeasureSpec):
    """The number of results. It has no input column."""

    def kept(self) -> dict[str, tuple[pa.DataType, str]]:
        return {self.name: (pa.int64(), "sum")}  # a count of partial counts is their sum

    def of_rows(self, rows: pa.RecordBatch) -> list[pa.Array]:
        return [pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)]


@dataclass(frozen=True)
class Min(MeasureSpec):
    """The least value."""

    def kept(self) -> dict[str, tuple[pa.DataType, str]]:
        return {self.name: (self.kind, "min")}


@dataclass(frozen=True)
class Max(MeasureSpec):
    """The greatest value. NaN is greater than all numbers, as in SQL and in `Sorted`."""

    @property
    def has_nan(self) -> str:
        """The column of state that says whether a value is NaN, which Arrow's `max` leaves out."""
        return f"{self.name}$nan"

    def kept(self) -> dict[str, tuple[pa.DataType, str]]:
        kept = {self.name: (self.kind, "max")}
        return kept | {self.has_nan: (pa.bool_(), "any")} if pa.types.is_floating(self.kind) else kept

    def of_rows(self, rows: pa.RecordBatch) -> list[pa.Array]:
        value = self.value_in(rows)
        return [value, pc.is_nan(value)] if pa.types.is_floating(self.kind) else [value]

    def ended(self, groups: pa.RecordBatch, spread: pa.Array | None) -> pa.Array:
        greatest = super().ended(groups, spread)
        if not pa.types.is_floating(self.kind):
            return greatest
        return pc.if_else(pc.fill_null(groups.column(self.has_nan), False), math.nan, greatest)


@dataclass(frozen=True)
class First(MeasureSpec):
    """The value of the first row, in their order."""

    picks: ClassVar[str | None] = "min"

    def kept(self) -> dict[str, tuple[pa.DataType, str]]:
        order = {name: each.kind for name, each in zip(self.where, self.order, strict=True)}
        return {name: (kind, "pick") for name, kind in ({self.name: self.kind} | order).items()}

    def of_rows(self, rows: pa.RecordBatch) -> list[pa.Array]:
        value = self.value_in(rows)
        present = pc.is_valid(value)
        order = (rows.column(input_name(each.source)) for each in self.order)
        return [value, *(pc.if_else(present, column, None) for column in order)]


@dataclass(frozen=True)
class Last(First):
    """The value of the last row, in their order."""

    picks: ClassVar[str | None] = "max"


@dataclass(frozen=True)
class Sum(MeasureSpec):
    """The sum of the values."""

    @property
    def adds_doubles(self) -> bool:
        """True if the values are doubles. Then the sum's digits are kept beside the group's own row."""
        return bool(pa.types.is_floating(self.of))

    @property
    def spread(self) -> type[Spread] | None:
        return Digits if self.adds_doubles else None

    @property
    def values(self) -> str:
        """The column with the number of values, without nulls."""
        return f"{self.name}$values"  # no column that a pipeline names has a `$`

    def kept(self) -> dict[str, tuple[pa.DataType, str]]:
        if self.adds_doubles:
            return {self.values: (pa.int64(), "sum")}
        return {self.name: (pa.decimal128(38, _scale(self.of)), "sum")}

    def of_rows(self, rows: pa.RecordBatch) -> list[pa.Array]:
        value = self.value_in(rows)
        return [
            pc.cast(pc.is_valid(value) if name == self.values else value, kind)
            for name, (kind, _) in self.kept().items()
        ]

    def ended(self, groups: pa.RecordBatch, spread: pa.Array | None) -> pa.Array:
        if spread is not None:
            return _finite(pc.if_else(pc.greater(groups.column(self.values), 0), spread, None))
        total = groups.column(self.name)
        return _as_longs(total) if pa.types.is_integer(self.kind) else total


@dataclass(frozen=True)
class Average(Sum):
    """The average: the sum of the values over their number."""

    def kept(self) -> dict[str, tuple[pa.DataType, str]]:
        return super().kept() | {self.values: (pa.int64(), "sum")}

    def ended(self, groups: pa.RecordBatch, spread: pa.Array | None) -> pa.Array:
        total = _as_doubles(groups.column(self.name)) if spread is None else spread
        return _finite(pc.divide(total, _unless_none(groups.column(self.values))))


@dataclass(frozen=True)
class CountDistinct(MeasureSpec):
    """The number of different values."""

    @property
    def spread(self) -> type[Spread] | None:
        return DistinctValues


@dataclass(frozen=True)
class Sorted(MeasureSpec):
    """All values, the least first."""

    @property
    def spread(self) -> type[Spread] | None:
        return SortedValues


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def _as_doubles(decimals: pa.Array) -> pa.Array:
    """Return the nearest doubles. Arrow's own cast of a decimal may miss the nearest double by one."""
    return pc.cast(pc.cast(decimals, pa.string()), pa.float64())


def _as_longs(totals: pa.Array) -> pa.Array:
    """Cast totals to longs; a total beyond all longs becomes null, since data must not stop the job."""
    low, high = (pa.scalar(end).cast(totals.type) for end in _LONGS)
    fits = pc.and_(pc.greater_equal(totals, low), pc.less_equal(totals, high))
    return pc.cast(pc.if_else(fits, totals, None), pa.int64())


def _unless_none(counts: pa.Array) -> pa.Array:
    return pc.cast(pc.if_else(pc.greater(counts, 0), counts, None), pa.float64())


def _finite(doubles: pa.Array) -> pa.Array:
    """Make infinite values null."""
    return pc.if_else(pc.is_finite(doubles), doubles, None)

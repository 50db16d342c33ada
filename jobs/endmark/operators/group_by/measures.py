"""Measures: the columns that each keeps in a group's row, the way such rows combine, and the final value.

No measure depends on the order of rows. Sums are exact while they are kept. `first` and `last` compare the
place of the row that a value comes from, then the value, since a row may have met several rows of R. Nulls
count for `count` alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from endmark.state.keys import KeySpec
    from endmark.state.search import Ints
    from endmark.types import MeasureFunction

_LONGS = (-(2**63), 2**63 - 1)


@dataclass(frozen=True)
class Place:
    """One of the columns that `first` and `last` compare; nulls come before all values.

    Args:
        part: the name of what state keeps of it.
        source: the input column.
        kind: its type.
    """

    part: str
    source: str
    kind: pa.DataType


def coordinates(time: str, partition: str, offset: str) -> tuple[Place, ...]:
    """Return the places of rows of a Kafka topic.

    Args:
        time, partition, offset: the input columns with their coordinates.
    """
    return (
        Place("time", time, pa.timestamp("us", "UTC")),
        Place("partition", partition, pa.int64()),
        Place("offset", offset, pa.int64()),
    )


@dataclass(frozen=True)
class MeasureSpec:
    """One column of a closed group.

    Args:
        name: the column's name.
        function: computes its value.
        column: the input column that it is computed from; `None` for `count`.
        kind: its Arrow type.
        of: the type of the input column.
        place: the columns that `first` and `last` compare, in order.
    """

    name: str
    function: MeasureFunction
    column: str | None
    kind: pa.DataType
    of: pa.DataType | None = None
    place: tuple[Place, ...] = ()

    @property
    def adds_doubles(self) -> bool:
        return self.function in ("sum", "avg") and pa.types.is_floating(self.of)

    @property
    def picks(self) -> bool:
        return self.function in ("first", "last")

    @property
    def spreads(self) -> bool:
        """True if the measure keeps rows beside the group's own row."""
        return self.adds_doubles or self.function in ("count_distinct", "sorted")

    @property
    def inputs(self) -> list[str]:
        return [*([] if self.column is None else [self.column]), *(each.source for each in self.place)]

    @property
    def values(self) -> str:
        """The column that counts the values added to a sum of doubles or an average."""
        return f"{self.name}$values"  # no column that a pipeline names has a `$`

    @property
    def where(self) -> list[str]:
        """The columns with the place of the row that the value of `first` or `last` comes from."""
        return [f"{self.name}${each.part}" for each in self.place]

    def kept(self) -> dict[str, tuple[pa.DataType, str]]:
        """Return the columns of a group's row, each with its type and the Arrow function that combines it."""
        if self.picks:
            places = {name: each.kind for name, each in zip(self.where, self.place, strict=True)}
            return {name: (kind, "pick") for name, kind in ({self.name: self.kind} | places).items()}
        if self.function in ("min", "max"):
            return {self.name: (self.kind, self.function)}
        kept: dict[str, tuple[pa.DataType, str]] = {}
        if self.function == "count":
            kept[self.name] = pa.int64(), "sum"  # a count of partial counts is their sum
        if self.function in ("sum", "avg") and not self.adds_doubles:
            kept[self.name] = pa.decimal128(38, _scale(self.of)), "sum"
        if self.adds_doubles or self.function == "avg":
            kept[self.values] = pa.int64(), "sum"
        return kept

    def of_rows(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of `kept` for groups of one row each."""
        if self.column is None:
            return [pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows)]
        value = rows.column(input_name(self.column))
        if self.picks:
            present = pc.is_valid(value)
            places = (rows.column(input_name(each.source)) for each in self.place)
            return [value, *(pc.if_else(present, place, None) for place in places)]
        return [
            pc.cast(pc.is_valid(value) if name == self.values else value, kind)
            for name, (kind, _) in self.kept().items()
        ]

    def ended(self, groups: pa.RecordBatch, spread: pa.Array | None) -> pa.Array:
        """Return the values of the measure for closed groups; `spread` has the values of rows beside the
        group's own.
        """
        if self.function in ("count_distinct", "sorted"):
            return spread
        total = groups.column(self.name) if spread is None else spread
        if self.function == "avg":
            doubles = _as_doubles(total) if spread is None else total
            return _finite(pc.divide(doubles, _unless_none(groups.column(self.values))))
        if self.adds_doubles:
            return _finite(pc.if_else(pc.greater(groups.column(self.values), 0), total, None))
        return _as_longs(total) if self.function == "sum" and pa.types.is_integer(self.kind) else total


def input_name(column: str) -> str:
    """Return the name of a result column beside those of the group key, which may have the same name."""
    return f"${column}"


def combined(
    key: KeySpec, measures: Sequence[MeasureSpec], schema: pa.Schema, partials: pa.RecordBatch
) -> pa.RecordBatch:
    """Combine partial rows to one row for each key, in order of code.

    Args:
        key: the group key.
        measures: the measures.
        schema: the columns of partial rows.
        partials: partial rows, in any order.
    """
    orders = {measure.name: _order(measure, partials) for measure in measures if measure.picks}
    table = pa.Table.from_batches([partials])
    aggregations: list[tuple[str, str]] = []
    for measure in measures:
        if measure.picks:
            rank = f"{measure.name}$rank"
            table = table.append_column(rank, _ranks(orders[measure.name], partials.column(measure.name)))
            aggregations.append((rank, "min" if measure.function == "first" else "max"))
        else:
            aggregations += [(name, how) for name, (_, how) in measure.kept().items()]
    grouped = table.group_by(list(key.columns), use_threads=False).aggregate(aggregations)
    found = iter(grouped.columns)  # by their places, since a key may be called as an aggregation is
    columns = [next(found) for _ in key.columns]
    for measure in measures:
        if measure.picks:
            at = pc.take(pa.array(orders[measure.name]), next(found))
            columns += [pc.take(partials.column(name), at) for name in measure.kept()]
        else:
            columns += [next(found) for _ in measure.kept()]
    cast = [pc.cast(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return key.sorted(key.coded(codec.concat(pa.table(cast, schema=schema).to_batches())))


def kept_fields(measures: Iterable[MeasureSpec]) -> list[tuple[str, pa.DataType]]:
    return [(name, kind) for measure in measures for name, (kind, _) in measure.kept().items()]


def _order(measure: MeasureSpec, partials: pa.RecordBatch) -> Ints:
    """Return positions of partial rows in the order in which `first` and `last` compare them."""
    columns: list[pa.Array] = []
    for name in [*measure.where, measure.name]:
        column = partials.column(name)
        columns += [column.is_valid(), column] if column.null_count else [column]
    keys = {str(number): column for number, column in enumerate(columns)}
    order = pc.sort_indices(pa.table(keys), [(name, "ascending") for name in keys])
    return np.asarray(order.to_numpy(), np.int64)


def _ranks(order: Ints, values: pa.Array) -> pa.Array:
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return pa.array(ranks, mask=values.is_null().to_numpy(zero_copy_only=False))


def _scale(kind: pa.DataType) -> int:
    return int(kind.scale) if pa.types.is_decimal(kind) else 0


def _as_doubles(decimals: pa.Array) -> pa.Array:
    """Return the nearest doubles. Arrow's own cast of a decimal may be one off."""
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

"""Measures: the columns of closed groups, and the combination of a group's partial rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.state import codec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from endmark.operators.group_by.spread_measures import Spread
    from endmark.state.keys import KeySpec
    from endmark.state.search import Ints


@dataclass(frozen=True)
class OrderColumn:
    """One of the columns that `first` and `last` compare. Nulls come before all values.

    Args:
        part: the name of the column in state, behind the name of the measure.
        source: the input column.
        kind: the type of the column.
    """

    part: str
    source: str
    kind: pa.DataType


def coordinates(time: str, partition: str, offset: str) -> tuple[OrderColumn, ...]:
    """Return the columns that order the rows of a Kafka topic.

    Args:
        time, partition, offset: the input columns with the event time and the coordinates of a row.
    """
    return (
        OrderColumn("time", time, pa.timestamp("us", "UTC")),
        OrderColumn("partition", partition, pa.int64()),
        OrderColumn("offset", offset, pa.int64()),
    )


@dataclass(frozen=True)
class MeasureSpec:
    """One column of a closed group. Each subclass folds values by another function.

    A subclass keeps columns in the group's row, rows of its own beside it (`spread`), or both.

    Args:
        name: the name of the column.
        column: the input column from which it is computed; `None` for the number of rows.
        kind: the Arrow type of the column.
        of: the type of the input column; `None` without one.
        order: the columns that `first` and `last` compare, in order; empty for other measures.
    """

    name: str
    column: str | None
    kind: pa.DataType
    of: pa.DataType | None = None
    order: tuple[OrderColumn, ...] = ()

    # The Arrow function that picks one row of a group by the rows' order; `None` if all rows count.
    picks: ClassVar[str | None] = None

    @property
    def spread(self) -> type[Spread] | None:
        """The class of the rows that it keeps beside the group's own row; `None` if it keeps none."""
        return None

    @property
    def inputs(self) -> list[str]:
        """The input columns that the measure needs."""
        return [*([] if self.column is None else [self.column]), *(each.source for each in self.order)]

    @property
    def where(self) -> list[str]:
        """The columns of state with the order of the row that a picked value comes from."""
        return [f"{self.name}${each.part}" for each in self.order]

    def value_in(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the values of the measure's column in input rows."""
        return rows.column(input_name(str(self.column)))

    def kept(self) -> dict[str, tuple[pa.DataType, str]]:
        """Return the columns of a group's row, each with its type and the Arrow function that combines it."""
        return {}

    def of_rows(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """Return the columns of `kept` for input rows, each a partial row by itself."""
        return [self.value_in(rows) for _ in self.kept()]

    def ended(self, groups: pa.RecordBatch, spread: pa.Array | None) -> pa.Array:
        """Return the values of the measure for closed groups.

        Args:
            groups: the combined rows of the groups.
            spread: the values that follow from the rows beside them; `None` if the measure keeps none.
        """
        return groups.column(self.name) if spread is None else spread


def input_name(column: str) -> str:
    """Return the name of an input column. Its own name may be that of a column of the group key, too."""
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
            aggregations.append((rank, measure.picks))
        else:
            aggregations += [(name, how) for name, (_, how) in measure.kept().items()]
    grouped = table.group_by(list(key.columns), use_threads=False).aggregate(aggregations)
    found = iter(grouped.columns)  # by position: a key column may have the same name as an aggregation
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
    """Return the columns of partial rows beside the key: those that the measures keep."""
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

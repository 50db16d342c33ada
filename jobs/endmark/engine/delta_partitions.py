"""Partitions of a Delta table: rows by their values in some columns, spelled as Delta's log has them.

Readers take the values from the log. So all files lie in the table's own directory, and no value, long or
with any letter, has to become the name of a directory.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from endmark.state.keys import numbered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from endmark.state.search import Ints

# The values of one partition by column, as Delta's log has them.
Values = dict[str, str | None]


def codes(rows: pa.Table, columns: Sequence[str]) -> Ints:
    """Number the rows, so that rows have equal numbers if and only if they are equal in the columns.

    Nulls are equal to each other. The columns have no doubles and no arrays.
    """
    return numbered([rows.column(name).combine_chunks() for name in columns])


def partitioned(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Values, pa.Table]]:
    """Yield each partition with rows: its values, and its rows without the columns of the partition."""
    if not rows.num_rows:
        return
    if not columns:
        yield {}, rows
        return
    numbers = codes(rows, columns)
    order = np.argsort(numbers, kind="stable")
    starts = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    rows = rows.take(pa.array(order))
    values, rest = rows.select(list(columns)), rows.drop_columns(list(columns))
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        [first] = values.slice(start, 1).to_pylist()
        yield {column: spelled(value) for column, value in first.items()}, rest.slice(start, end - start)


def spelled(value: Any) -> str | None:
    """Return a value as Delta's log has it; `None` for null, and for an empty text, which no log can have.

    See "Partition Value Serialization" in Delta's protocol. A timestamp names its zone, since Spark would
    read another one in the zone of its session.
    """
    match value:
        case None | "":
            return None
        case bool():
            return str(value).lower()
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
    return str(value)


def with_values(rows: pa.Table, values: Mapping[str, str | None], schema: pa.Schema) -> pa.Table:
    """Return the columns of `schema`: those of the partition from `values`, the others from `rows`."""

    def column(field: pa.Field) -> pa.Array | pa.ChunkedArray:
        if field.name not in values:
            return rows.column(field.name).cast(field.type)
        value = pa.array([values[field.name]], pa.string()).cast(field.type)[0]
        return pa.repeat(value, rows.num_rows)

    return pa.table([column(field) for field in schema], schema=schema)

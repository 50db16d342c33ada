"""Results of the stream join: a left row beside a right row, or one of them beside nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from endmark.state.segment import taken

if TYPE_CHECKING:
    from collections.abc import Iterable

    from endmark.state.search import Ints


class Results:
    """Builds results. Their columns are those of the left side, then those of the right side.

    Args:
        left, right: the columns of each side that results show.
    """

    def __init__(self, left: pa.Schema, right: pa.Schema) -> None:
        self._left = left
        self._right = right
        self._names = [*left.names, *right.names]

    def pairs(self, left: pa.RecordBatch, i: Ints, right: pa.RecordBatch, j: Ints) -> pa.RecordBatch:
        """Return results: the n-th is left row `i[n]` beside right row `j[n]`.

        Args:
            left: rows of the left side.
            i: positions in `left`.
            right: rows of the right side.
            j: positions in `right`, as many as in `i`.
        """
        columns = taken(left.select(self._left.names), i).columns
        columns += taken(right.select(self._right.names), j).columns
        return pa.record_batch(columns, names=self._names)

    def left_alone(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return left rows beside nulls."""
        columns = rows.select(self._left.names).columns + _nulls(self._right, rows.num_rows)
        return pa.record_batch(columns, names=self._names)

    def right_alone(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return right rows beside nulls."""
        columns = _nulls(self._left, rows.num_rows) + rows.select(self._right.names).columns
        return pa.record_batch(columns, names=self._names)


def _nulls(fields: Iterable[pa.Field], rows: int) -> list[pa.Array]:
    return [pa.nulls(rows, field.type) for field in fields]

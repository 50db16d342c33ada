"""Running groups: the present rows of the groups that a batch has changed or closed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.state import codec

if TYPE_CHECKING:
    from endmark.operators.group_by.group_by import ClosingAggregate

FINAL = "final"
BATCH = "batch"


class RunningGroups:
    """Collects the groups that the steps of a batch change, and returns each once at its end.

    A batch costs the state rows of the groups that it has changed, not those of other groups.

    Args:
        groups: the groups.
        columns: the columns that are returned, in their order.
    """

    def __init__(self, groups: ClosingAggregate, columns: list[str]) -> None:
        self._groups = groups
        self._columns = [*columns, FINAL]
        self._changed: list[pa.RecordBatch] = []
        self._closed: list[pa.RecordBatch] = []

    def note(self, added: list[pa.RecordBatch], closed: pa.RecordBatch) -> None:
        """Remember one step: rows that were added to groups, and the groups that were closed."""
        if added:
            self._changed.append(self._groups.keys_of(added))
        self._closed.append(closed)

    def told(self, batch: int | None = None) -> pa.RecordBatch:
        """Return the changed groups with a column `final`, which is true of closed groups.

        `batch`, if given, is added as the column of the batch's number.
        """
        changed = pa.RecordBatch.from_pylist([], self._groups.schema)
        if self._changed:
            changed = self._groups.so_far(self._groups.keys_of(self._changed))
        closed = [_marked(groups, final=True) for groups in self._closed]
        told = codec.concat([_marked(changed, final=False), *closed])
        self._changed, self._closed = [], []
        told = told.select(self._columns)
        return told if batch is None else told.append_column(BATCH, pa.array(np.full(told.num_rows, batch)))


def _marked(groups: pa.RecordBatch, *, final: bool) -> pa.RecordBatch:
    return groups.append_column(FINAL, pa.array(np.full(groups.num_rows, final)))

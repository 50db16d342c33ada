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
    """Collects the groups that a batch changes, step by step, and returns each of them once.

    The cost of a batch depends on the state rows of the groups that it has changed, not on other groups.

    Args:
        groups: the groups.
        columns: the columns to return, in their order.
    """

    def __init__(self, groups: ClosingAggregate, columns: list[str]) -> None:
        self._groups = groups
        self._columns = [*columns, FINAL]
        self._changed: list[pa.RecordBatch] = []
        self._closed: list[pa.RecordBatch] = []

    def note(self, added: list[pa.RecordBatch], closed: pa.RecordBatch) -> None:
        """Remember one step of a batch: the inputs that were added, and the groups that were closed."""
        if added:
            self._changed.append(self._groups.keys_of(added))
        self._closed.append(closed)

    def end_batch(self, number: int | None = None) -> pa.RecordBatch:
        """Return the groups that the batch has changed, and forget them.

        The column `final` is true for closed groups. If a number of the batch is given, it becomes the column
        `batch`.
        """
        changed = pa.RecordBatch.from_pylist([], self._groups.schema)
        if self._changed:
            changed = self._groups.so_far(self._groups.keys_of(self._changed))
        closed = [_marked(groups, final=True) for groups in self._closed]
        rows = codec.concat([_marked(changed, final=False), *closed]).select(self._columns)
        self._changed, self._closed = [], []
        return rows if number is None else rows.append_column(BATCH, pa.array(np.full(rows.num_rows, number)))


def _marked(groups: pa.RecordBatch, *, final: bool) -> pa.RecordBatch:
    return groups.append_column(FINAL, pa.array(np.full(groups.num_rows, final)))

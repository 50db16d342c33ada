"""Running groups: what a batch has made of the groups it had results of, and which it has closed."""

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
    """Collects over the steps of a batch which groups have changed, and tells them at its end, once each.

    A batch costs what it has changed: the rows that state has of these groups, not of others. `columns` are
    those of a group that are told, in their order.
    """

    def __init__(self, groups: ClosingAggregate, columns: list[str]) -> None:
        self._groups = groups
        self._columns = [*columns, FINAL]
        self._changed: list[pa.RecordBatch] = []
        self._closed: list[pa.RecordBatch] = []

    def note(self, added: list[pa.RecordBatch], closed: pa.RecordBatch) -> None:
        """One step: what was added to the groups, and those that were put out then."""
        if added:
            self._changed.append(self._groups.keys_of(added))
        self._closed.append(closed)

    def told(self, batch: int | None = None) -> pa.RecordBatch:
        """The groups as they are, with a column `final`: true of those that were put out; and the number of
        the batch behind it, if there is one."""
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

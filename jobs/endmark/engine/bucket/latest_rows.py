"""The newest row of each key that a batch of one bucket has changed, and the keys that it has deleted.

All rows and deletions of a key come to one bucket, from one partition. So the newest one has the greatest
offset. A deleted key may be inserted again, in the same batch or in a later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from endmark.engine.delta_partitions import codes
from endmark.pipeline import COORDINATES
from endmark.state import codec
from endmark.state.segment import int64

if TYPE_CHECKING:
    from endmark.engine.bucket.written_steps import WrittenStep


class LatestRows:
    """Collects the rows of a step and the deletions of its stream, batch by batch.

    Args:
        step: the step, which has a key.
    """

    def __init__(self, step: WrittenStep) -> None:
        self.step = step
        self._coordinates = [f"{step.stream}_{name}" for name in COORDINATES]
        self._changed = [*step.key, *self._coordinates]
        self._deleted_schema = pa.schema([step.schema.field(name) for name in self._changed])
        self._rows = [pa.RecordBatch.from_pylist([], step.schema)]
        self._deleted = [pa.RecordBatch.from_pylist([], self._deleted_schema)]

    def add(self, rows: pa.RecordBatch, deleted_keys: pa.RecordBatch | None) -> None:
        """Add a batch that the join takes.

        Args:
            rows: the rows of the step.
            deleted_keys: the keys that deletions name, with `partition` and `offset`; `None` without any.
        """
        self._rows.append(rows)
        if deleted_keys is not None:
            columns = deleted_keys.select([*self.step.deleted, "partition", "offset"]).columns
            self._deleted.append(pa.record_batch(columns, schema=self._deleted_schema))

    def take(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the newest row of each key that is there, and the keys that are not; forget all rows."""
        rows, deleted = codec.concat(self._rows), codec.concat(self._deleted)
        self._rows, self._deleted = self._rows[:1], self._deleted[:1]
        changes = codec.concat([deleted, rows.select(self._changed)])
        partition, offset = (int64(changes.column(name)) for name in self._coordinates)
        newest_first = np.lexsort((offset, partition))[::-1]
        numbers = codes(pa.Table.from_batches([changes]), list(self.step.key))
        _, newest = np.unique(numbers[newest_first], return_index=True)
        kept = np.sort(newest_first[newest])
        gone, there = np.split(kept, [np.searchsorted(kept, deleted.num_rows)])
        keys = deleted.select(list(self.step.key)).take(pa.array(gone))
        return rows.take(pa.array(there - deleted.num_rows)), keys

"""The newest row of each key that a batch of one bucket has changed, and the keys that it has deleted.

All rows of a key come to one bucket, from one partition. So the newest one has the greatest offset. A row
behind a deletion of its key is a violation, so a deletion stands behind all rows of its key.
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
        self._deleted_schema = pa.schema([step.schema.field(name) for name in step.key])
        self._rows = [pa.RecordBatch.from_pylist([], step.schema)]
        self._deleted = [pa.RecordBatch.from_pylist([], self._deleted_schema)]

    def add(self, rows: pa.RecordBatch, closed_keys: pa.RecordBatch | None) -> None:
        """Add a batch that the join takes.

        Args:
            rows: the rows of the step.
            closed_keys: the keys that punctuations of the stream name; `None` without any.
        """
        self._rows.append(rows)
        if closed_keys is not None and self.step.deleting:
            columns = closed_keys.select(list(self.step.deleting)).columns
            self._deleted.append(pa.record_batch(columns, schema=self._deleted_schema))

    def take(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the newest row of each key that is not deleted, and the deleted keys; forget all rows."""
        rows, deleted = codec.concat(self._rows), codec.concat(self._deleted)
        self._rows, self._deleted = self._rows[:1], self._deleted[:1]
        key = list(self.step.key)
        numbers = codes(pa.Table.from_batches([deleted, rows.select(key)]), key)
        gone, first = np.unique(numbers[: deleted.num_rows], return_index=True)
        mine = numbers[deleted.num_rows :]
        partition, offset = (int64(rows.column(f"{self.step.stream}_{name}")) for name in COORDINATES)
        newest_first = np.lexsort((offset, partition))[::-1]
        _, newest = np.unique(mine[newest_first], return_index=True)
        kept = newest_first[newest]
        kept = np.sort(kept[~np.isin(mine[kept], gone)])
        return rows.take(pa.array(kept)), deleted.take(pa.array(np.sort(first)))

"""What measures keep of a group beyond the group's own row: rows of its key, as many as it takes.

`count_distinct` keeps each value once, a sum of doubles the digits of its exact sum.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.aggregate import exact_sum
from endmark.aggregate.measures import input_name
from endmark.state import codec
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from endmark.aggregate.measures import MeasureSpec
    from endmark.state.keys import KeySpec
    from endmark.state.segment_list import Gone
    from endmark.state.store import SegmentStore

_PLACE, _AMOUNT, _VALUE = "$place", "$amount", "$value"  # beside key columns, which have no `$`


class Spread:
    """Rows of one measure, found by the key of their group."""

    def __init__(self, measure: MeasureSpec, key: KeySpec, store: SegmentStore) -> None:
        self._measure = measure
        self._key = key
        self._combine = partial(_combined, key, adds=measure.adds_doubles)
        self.rows = SegmentList(store, key, merge=self._combine)

    def add(self, inputs: pa.RecordBatch) -> None:
        """Take in rows, of which the key columns and the measure's own are looked at."""
        values = inputs.column(input_name(str(self._measure.column)))
        present = pc.is_valid(values)
        keys = inputs.select(list(self._key.columns)).filter(present)
        split = self._digits if self._measure.adds_doubles else self._values
        rows = split(keys, values.filter(present))
        if rows.num_rows:  # zeros have no digits
            self.rows.append(self._combine(rows))
            self.rows.maintain()

    def _values(self, keys: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        if pa.types.is_floating(values.type):
            values = pc.add(values, 0.0)  # zero has two signs, and is one value
        return keys.append_column(_VALUE, values)

    def _digits(self, keys: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        at, places, amounts = exact_sum.digits(values.to_numpy(zero_copy_only=False))
        digits = keys.take(pa.array(at)).append_column(_PLACE, pa.array(places))
        return digits.append_column(_AMOUNT, pa.array(amounts).cast(exact_sum.AMOUNT))

    def ended(self, found: list[Gone], groups: pa.RecordBatch) -> pa.Array:
        """What their rows say of `groups`: how many values each has, or their sum."""
        if not found:
            return pa.array(np.zeros(groups.num_rows, float if self._measure.adds_doubles else np.int64))
        rows = self._combine(codec.concat([one.batch for one in found]))
        owners = np.empty(rows.num_rows, np.int64)
        for group, row in self._key.keys(groups).pairs(self._key.keys(rows)):
            owners[row] = group
        if not self._measure.adds_doubles:
            return pa.array(np.bincount(owners, minlength=groups.num_rows).astype(np.int64))
        places = rows.column(_PLACE).to_numpy()
        return pa.array(exact_sum.nearest(owners, places, rows.column(_AMOUNT), groups.num_rows))


def _combined(key: KeySpec, rows: pa.RecordBatch, *, adds: bool) -> pa.RecordBatch:
    """In order of code, one row for each key and place, with its sum, or for each key and value."""
    own = [*key.columns, _PLACE if adds else _VALUE]
    grouped = pa.Table.from_batches([rows]).group_by(own, use_threads=False)
    once = grouped.aggregate([(_AMOUNT, "sum")] if adds else []).rename_columns([*own, *([_AMOUNT] * adds)])
    return key.sorted(key.coded(codec.concat(once.to_batches())))

"""Spread measures: measures that keep rows of their own beside the group's row, as many as they need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from endmark.operators.group_by import exact_sum
from endmark.state import codec
from endmark.state.segment_list import SegmentList

if TYPE_CHECKING:
    from endmark.operators.group_by.measures import MeasureSpec
    from endmark.state.keys import KeySpec
    from endmark.state.search import Ints
    from endmark.state.segment_list import SegmentRows
    from endmark.state.store import SegmentStore

_PLACE, _AMOUNT, _VALUE, _TIMES = "$place", "$amount", "$value", "$times"  # key columns have no `$`
_NOT_FINITE = -1  # the places of digits begin at 0


class Spread(ABC):
    """The rows of one spread measure, found by the key of their group.

    Each subclass has one row for each key and value of the column `own`. If it has a column `added`, that is
    summed up when such rows combine.

    Args:
        measure: the measure.
        key: the group key.
        store: keeps the rows.
    """

    own: ClassVar[str] = _VALUE
    added: ClassVar[str | None] = None

    def __init__(self, measure: MeasureSpec, key: KeySpec, store: SegmentStore) -> None:
        self._measure = measure
        self._key = key
        self._combine = partial(_combined, key, own=self.own, added=self.added)
        self.rows = SegmentList(store, key, merge=self._combine)

    def add(self, inputs: pa.RecordBatch) -> None:
        """Add input rows. Only the columns of the key and of the measure are used."""
        values = self._measure.value_in(inputs)
        present = pc.is_valid(values)
        keys = inputs.select(list(self._key.columns)).filter(present)
        rows = self._rows(keys, values.filter(present))
        if rows.num_rows:  # zeros have no digits
            self.rows.append(self._combine(rows))
            self.rows.maintain()

    def ended(self, found: list[SegmentRows], groups: pa.RecordBatch) -> pa.Array:
        """Return the final value of each of `groups`, given the rows found for them."""
        keys = groups.slice(0, 0).select(list(self._key.columns))
        none = self._key.coded(self._rows(keys, pa.array([], self._measure.of)))
        rows = self._combine(codec.concat([one.batch for one in found])) if found else none
        owners = np.empty(rows.num_rows, np.int64)
        for group, row in self._key.keys(groups).pairs(self._key.keys(rows)):
            owners[row] = group
        return self._values(rows, owners, groups.num_rows)

    @abstractmethod
    def _rows(self, keys: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        """Make rows of values, none of which is null."""

    @abstractmethod
    def _values(self, rows: pa.RecordBatch, owners: Ints, count: int) -> pa.Array:
        """Return the values of `count` groups, given combined rows and the number of each row's group."""


class DistinctValues(Spread):
    """Each value once. The measure is the number of values."""

    def _rows(self, keys: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        return keys.append_column(_VALUE, _one_zero(values))

    def _values(self, rows: pa.RecordBatch, owners: Ints, count: int) -> pa.Array:
        return pa.array(np.bincount(owners, minlength=count).astype(np.int64))


class SortedValues(Spread):
    """Each value with its number of times. The measure is an array of all values, the least first."""

    added = _TIMES

    def _rows(self, keys: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        rows = keys.append_column(_VALUE, _one_zero(values))
        return rows.append_column(_TIMES, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))

    def _values(self, rows: pa.RecordBatch, owners: Ints, count: int) -> pa.Array:
        values, times = rows.column(_VALUE), rows.column(_TIMES).to_numpy()
        table = pa.table({"owner": owners, "value": values})
        order = pc.sort_indices(table, [("owner", "ascending"), ("value", "ascending")]).to_numpy()
        ends = np.cumsum(np.bincount(owners, times, minlength=count)).astype(np.int32)
        every = values.take(pa.array(np.repeat(order, times[order])))
        return pa.ListArray.from_arrays(np.concatenate([np.zeros(1, np.int32), ends]), every)


class Digits(Spread):
    """The digits of an exact sum of doubles. The measure is the double nearest to the sum.

    Infinite values and NaN have no digits. They are counted in a row of place `_NOT_FINITE`, and make the sum
    null.
    """

    own = _PLACE
    added = _AMOUNT

    def _rows(self, keys: pa.RecordBatch, values: pa.Array) -> pa.RecordBatch:
        numbers = values.to_numpy(zero_copy_only=False)
        finite = np.isfinite(numbers)
        at, places, amounts = exact_sum.digits(np.where(finite, numbers, 0.0))
        if not finite.all():
            odd = np.flatnonzero(~finite)
            at, amounts = np.concatenate([at, odd]), np.concatenate([amounts, np.ones(len(odd), np.int64)])
            places = np.concatenate([places, np.full(len(odd), _NOT_FINITE)])
        digits = keys.take(pa.array(at)).append_column(_PLACE, pa.array(places))
        return digits.append_column(_AMOUNT, pa.array(amounts).cast(exact_sum.AMOUNT))

    def _values(self, rows: pa.RecordBatch, owners: Ints, count: int) -> pa.Array:
        places = rows.column(_PLACE).to_numpy()
        odd = places == _NOT_FINITE
        is_null = np.zeros(count, bool)
        is_null[owners[odd]] = True
        amounts = rows.column(_AMOUNT).filter(pa.array(~odd))
        return pa.array(exact_sum.nearest(owners[~odd], places[~odd], amounts, count), mask=is_null)


def _one_zero(values: pa.Array) -> pa.Array:
    """Make negative zeros positive: doubles have two zeros, which are one value."""
    return pc.add(values, 0.0) if pa.types.is_floating(values.type) else values


def _combined(key: KeySpec, rows: pa.RecordBatch, *, own: str, added: str | None) -> pa.RecordBatch:
    """Combine rows to one for each key and value of `own`, in order of code, with the sum of `added`."""
    columns = [*key.columns, own]
    sums = [] if added is None else [added]
    grouped = pa.Table.from_batches([rows]).group_by(columns, use_threads=False)
    once = grouped.aggregate([(name, "sum") for name in sums]).rename_columns([*columns, *sums])
    return key.sorted(key.coded(codec.concat(once.to_batches())))
